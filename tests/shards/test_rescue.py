"""A router that waits in vain for a switch ends the fence of a mover that has died."""

import asyncio
import sqlite3
import time
from contextlib import closing

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

import apportion.sync
from apportion.model.epoch import FencingToken
from apportion.model.topology import Node
from apportion.runtime.clock import SystemClock
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import Mover
from apportion.shards.mover.rescue import sites_of
from apportion.stores.catalog import connect
from tests.shards.sample import SET, Base, Files, Place


class Died(Exception):
    pass


def die_at(files, slot, label):
    """Move a slot from one to two, with a mover that dies at a stop point."""

    def reached(point):
        if point == label:
            raise Died

    async def main():
        store, sites = await connect(files.url), sites_of(SET, files.shards)
        nodes = {shard: Node(shard) for shard in files.shards}
        mover = Mover(store, SET, sites, nodes, clock=SystemClock(), wall=time.time, reached=reached)
        token = FencingToken(resource=f"{SET}.mover", holder="dead", incarnation=1, epoch=0)
        await mover.begin(MoveGroup(move="m1", source="one", target="two", slots=(slot,)))
        with pytest.raises(Died):
            await mover.run("m1", token)
        await sites.close()
        await store.close()

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "owner"), [("fence.after", "one"), ("announce.after", "one"), ("switch.after", "two")]
)
def test_writes_go_on_though_nobody_runs_a_mover(tmp_path, label, owner):
    files = Files(tmp_path)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        key = next(name for name in map(str, range(1000)) if router.shard(name) == "one")
        slot = router.slot(key)
        die_at(files, slot, label)
        router.run(key, lambda session: session.add(Place(country=key)))
        assert owner == router.shard(key)
    assert [(1,)] == files.sql(owner, "SELECT count(*) FROM place WHERE slot = ?", (slot,))


def test_a_database_that_is_locked_is_not_taken_for_one_that_is_no_shard(tmp_path):
    files = Files(tmp_path)

    def engine(url):
        return create_engine(url, connect_args={"timeout": 0})

    with apportion.sync.open_shards(files.url, SET, base=Base, create_engine=engine) as router:
        with closing(sqlite3.connect(tmp_path / f"{router.shard('FR')}.db")) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(OperationalError, match="is locked"):
                router.run("FR", lambda session: session.add(Place(country="FR")))
        router.run("FR", lambda session: session.add(Place(country="FR")))
