"""The child of a migration: a run that is not the newest one changes nothing on a shard."""

import asyncio

import pytest

from apportion.errors import Fenced
from apportion.model.epoch import FencingToken
from apportion.shards.migration.child import ShardJob, answered
from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left
from tests.shards.migration.scripts import BATCH, Scripts, stamped
from tests.shards.migration.test_migrate import revisions
from tests.shards.sample import SET, Files


def job(files, scripts, epoch, to="0002"):
    async def main():
        followed = await set_followed(files.url, SetKeys(SET), 5.0)
        try:
            return followed.meta("one"), followed.shards["one"].address()
        finally:
            await set_left(followed)

    meta, address = asyncio.run(main())
    token = FencingToken(resource="shards/world/migration", holder=f"{epoch}", incarnation=1, epoch=epoch)
    return ShardJob(meta=meta, address=address, config=f"{scripts.config}", to=to, token=token)


def test_a_child_of_an_older_run_changes_nothing(tmp_path):
    files, scripts = stamped(Files(tmp_path, shards=("one",))), Scripts(tmp_path)
    assert "0001" == answered(job(files, scripts, 2, "0001")).revision
    scripts.revision("0002", "0001", BATCH)
    with pytest.raises(Fenced):
        answered(job(files, scripts, 1))
    assert {"one": "0001"} == revisions(files)
    assert "0002" == answered(job(files, scripts, 3)).revision
