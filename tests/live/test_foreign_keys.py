"""A key that is no text, which another program wrote into the namespace of a group, is passed over on each engine."""

import asyncio
from base64 import b64encode
from importlib import import_module

import pytest

from apportion.stores import Absent, Put

pytestmark = pytest.mark.live
KEY, MANY = b"bench/live/\xff", 2_500


def _in_postgres(rig, revision):
    ours = f"decode('{KEY.hex()}', 'hex')"
    rig.sql(f"UPDATE apportion.meta SET revision = {revision}")
    rig.sql(f"INSERT INTO apportion.item VALUES ({ours}, '?', {revision}, NULL)")
    rig.sql(f"INSERT INTO apportion.event VALUES ({revision}, {ours}, '?', NULL)")


def _in_etcd(rig, _revision):
    rig.ask("/v3/kv/put", {"key": b64encode(KEY).decode(), "value": b64encode(b"?").decode()})


WRITES = {"postgres": _in_postgres, "etcd": _in_etcd}


@pytest.mark.parametrize("engine", WRITES)
def test_a_key_that_is_no_text_is_neither_scanned_nor_heard(engine):
    async def main(rig):
        store = await rig.connect("bench")
        try:
            done = await store.commit(when=[Absent(key="live/a")], puts=[Put(key="live/a", value=b"1")])
            WRITES[engine](rig, done.revision + 1)
            assert ["live/a"] == [item.key for item in (await store.scan("live/")).items]
            names = [f"live/c{number:04}" for number in range(MANY)]
            for start in range(0, MANY, 50):
                batch = names[start : start + 50]
                puts = [Put(key=each, value=b"3") for each in batch]
                await store.commit(when=[Absent(key=each) for each in batch], puts=puts)
            assert ["live/a", *names] == [item.key for item in (await store.scan("live/")).items]
            await store.commit(when=[Absent(key="live/b")], puts=[Put(key="live/b", value=b"2")])
            heard = []
            async for change in store.watch("live/", after=done.revision):
                heard += [event.key for event in change.events]
                if "live/b" in heard:
                    break
            assert [*names, "live/b"] == heard
        finally:
            await store.close()
            await rig.close()

    try:
        rig = import_module(f"tests.stores.rigs.{engine}").RIG()
    except (ImportError, FileNotFoundError) as absent:
        pytest.skip(str(absent))
    asyncio.run(main(rig))
