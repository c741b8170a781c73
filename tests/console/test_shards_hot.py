"""`apportion shards hot`: hot keys, slots and shards in lines and as JSON, from samples of programs."""

import asyncio
import json
import time

import pytest

from apportion import sync
from apportion.shards.load.record import LoadRecord
from apportion.shards.pins.key_sample import LoadWindow
from apportion.shards.records import SetKeys
from apportion.stores import api
from apportion.stores.catalog import connect
from tests.console.running import refused, run
from tests.shards.sample import SET, Base, Files


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def put(files, place, value):
    async def main():
        store = await connect(files.url)
        try:
            key = f"{SetKeys(SET).load}{place:02}"
            await store.commit(when=[api.Absent(key=key)], puts=[api.Put(key=key, value=value)])
        finally:
            await store.close()

    asyncio.run(main())


def sample(keys, *, age=0.0):
    counts = {json.dumps(key): count for key, count in keys.items()}
    window = LoadWindow(writer="w", seconds=10.0, sessions=64 * 200, keys=counts)
    return LoadRecord(at=time.time() - age, window=window).encode()


def hot(files, *more):
    return run("shards", "hot", files.url, SET, *more, folder=files.folder)


def test_without_a_sample_the_next_step_is_told(files):
    put(files, 0, sample({"FR": 100}, age=700))
    done = hot(files)
    assert 0 == done.returncode
    assert done.stdout.startswith(b"shards hot: world: no session was sampled in the last ten minutes.")


def test_keys_slots_shards_and_the_next_step_are_shown(files):
    with sync.open_shards(files.url, SET, base=Base) as router:
        slot, shard = router.slot("FR"), router.shard("FR")
    put(files, 0, sample({"FR": 380, "DE": 10, "US": 10}))
    put(files, 1, b"{")
    done = hot(files)
    assert 0 == done.returncode, done.stderr
    lines = done.stdout.decode().splitlines()
    assert ["'FR'", f"{slot}", shard, "95.0%"] == next(line for line in lines if line.startswith("'FR'")).split()[:4]
    assert [f"{slot}", shard] == next(line for line in lines if line.startswith(f"{slot} ")).split()[:2]
    assert any(line.startswith(f"- Key 'FR' has 100% of the sessions of slot {slot}") for line in lines)
    assert lines[-1].startswith("shards hot: world: 1280 sessions per second, 400 keys in the samples")
    assert lines[-1].endswith("; 1 samples cannot be read")


def test_json_has_all_of_it(files):
    put(files, 0, sample({"FR": 380, "DE": 20}))
    found = json.loads(hot(files, "--json").stdout)
    assert {"FR": 0.95, "DE": 0.05} == {each["key"]: each["load"]["share"] for each in found["keys"]}
    assert ["one", "two"] == [each["shard"] for each in found["shards"]]
    assert "divide" == found["advice"][0]["kind"]
    assert (400, 0) == (found["sampled"], found["damaged"])


def test_a_set_that_does_not_exist_is_named(files):
    done = run("shards", "hot", files.url, "moon", folder=files.folder)
    assert "set is 'moon', expected one that this control store has" in refused(done)
