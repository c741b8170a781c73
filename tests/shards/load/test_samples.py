"""Samples of keys: every session is equally likely, the store keeps 16 windows, and nobody waits for a sample."""

import asyncio
import json
from collections import Counter
from random import Random
from types import SimpleNamespace
from uuid import UUID

import pytest

from apportion import sync
from apportion.errors import InvalidInput, StoreUnavailable
from apportion.shards.load.record import MOST_BYTES, PLACES, LoadRecord, kept, key_in, read_load
from apportion.shards.pins import key_sample
from apportion.shards.pins.key_sample import KeySample, LoadWindow, key_json
from apportion.shards.pins.statistics import RouterStatistics
from apportion.shards.records import SetKeys
from apportion.shards.slots import shard_key_bytes
from apportion.stores import api
from apportion.stores.catalog import connect
from tests.shards.sample import SET, Base, Files

KEYS = SetKeys(SET)
ID = UUID("12345678-1234-5678-1234-567812345678")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def sampled(clock, seed=7):
    """Return statistics with a sample that a test repeats."""
    return RouterStatistics(_sample=KeySample(clock, Random(seed)))


@pytest.mark.parametrize("key", ["FR", "", 'é\n"', 7, -(2**63), b"\xff\x00", ID, ("FR", 2024), ("a", b"b", ID)])
def test_a_key_comes_back_with_the_same_slot(key):
    assert shard_key_bytes(key) == shard_key_bytes(key_in(json.loads(key_json(key))))


@pytest.mark.parametrize("form", [True, None, 1.5, {}, {"hex": "xx"}, {"hex": 5}, [True]])
def test_any_other_form_is_no_key(form):
    with pytest.raises(InvalidInput):
        key_in(form)


def test_one_in_64_sessions_is_sampled_and_a_key_has_its_share():
    clock, keys = Clock(), Counter()
    counted = sampled(clock)
    rng = Random(1)
    for _ in range(640):
        clock.now += 1.0
        for _ in range(100):
            window = counted.made(["hot" if rng.random() < 0.3 else "cold"])
            keys += Counter({} if window is None else window.keys)
    assert 0.8 * 1000 < sum(keys.values()) < 1.2 * 1000
    assert 0.25 < keys['"hot"'] / sum(keys.values()) < 0.35
    assert 64_000 == counted.sessions


def test_a_program_with_a_rhythm_of_64_hides_no_key():
    counted = sampled(Clock())
    for number in range(64 * 500):
        counted.made([f"tenant-{number % 64}"])
    assert len(counted.rest().keys) > 32


def test_a_window_ends_after_30_seconds_with_64_keys_and_after_five_minutes_with_any():
    clock = Clock()
    sample = KeySample(clock, Random(7))
    assert [None] * 63 == [sample.take(["FR"], number) for number in range(1, 64)]
    clock.now = 30.0
    window = sample.take(["FR"], 4000)
    assert (30.0, 4000, {'"FR"': 64}) == (window.seconds, window.sessions, dict(window.keys))
    clock.now = 329.0
    assert sample.take(["DE"], 5000) is None
    clock.now = 330.0
    last = sample.take(["DE"], 6000)
    assert (300.0, 2000, {'"DE"': 2}) == (last.seconds, last.sessions, dict(last.keys))
    assert sample.rest(6000) is None


def test_memory_is_bounded_and_a_long_key_is_counted_without_its_name():
    sample = KeySample(Clock(), Random(7))
    for number in range(5000):
        sample.take([f"{number}", "x" * 300], number)
    window = sample.rest(5000)
    assert key_sample.MOST_KEYS == sum(window.keys.values())
    assert 0.4 < window.keys[""] / key_sample.MOST_KEYS < 0.6
    assert max(map(len, window.keys)) <= key_sample.MOST_KEY_BYTES


def window(writer="w", keys=None, sessions=6400, seconds=30.0):
    return LoadWindow(writer=writer, seconds=seconds, sessions=sessions, keys=keys or {'"FR"': 3, '"DE"': 1})


def test_a_record_comes_back_and_is_bounded():
    record = LoadRecord(at=5.0, window=window())
    assert record == LoadRecord.decode(record.encode())
    large = {json.dumps(f"{number:0190}"): 1 + (number == 300) for number in range(512)}
    data = LoadRecord(at=5.0, window=window(keys=large)).encode()
    assert len(data) < MOST_BYTES + 1000
    found = LoadRecord.decode(data).window.keys
    assert 513 == sum(found.values())
    assert next(iter(found)) == json.dumps(f"{300:0190}")


GOOD = json.loads(LoadRecord(at=5.0, window=window()).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"at": "now"},
        {"seconds": 0},
        {"sessions": None},
        {"keys": {}},
        {"keys": {"x": 0}},
        {"keys": ["x"]},
        {"writer": 5},
        {"other": 1},
    ],
)
def test_a_record_that_nobody_can_read_is_none(change):
    assert read_load(json.dumps(GOOD).encode()) is not None
    assert read_load(json.dumps({**GOOD, **change}).encode()) is None
    assert read_load(b"\xff") is None


def in_store(tmp_path, act):
    async def main():
        store = await connect(f"sqlite:///{tmp_path}/control.db")
        try:
            return await act(SimpleNamespace(store=store, keys=KEYS))
        finally:
            await store.close()

    return asyncio.run(main())


async def writers(followed):
    items = (await followed.store.scan(KEYS.load)).items
    return {item.key: getattr(read_load(item.value), "window", None) for item in items}


def test_the_store_keeps_the_last_16_windows_of_many_processes(tmp_path):
    async def main(followed):
        for number in range(40):
            await kept(followed, window(f"w{number}"))
        await kept(followed, window("w39", {'"US"': 1}))
        return await writers(followed)

    found = in_store(tmp_path, main)
    assert PLACES == len(found)
    assert {f"w{number}" for number in range(24, 40)} == {each.writer for each in found.values()}
    assert [{'"US"': 1}] == [each.keys for each in found.values() if each.writer == "w39"]


def test_a_damaged_place_is_written_over_first(tmp_path):
    async def main(followed):
        for number in range(PLACES):
            await kept(followed, window(f"w{number}"))
        (item,) = [each for each in (await followed.store.scan(KEYS.load)).items if each.key.endswith("/07")]
        damaged = api.Put(key=item.key, value=b"{")
        await followed.store.commit(when=[api.Unchanged(key=item.key, revision=item.revision)], puts=[damaged])
        await kept(followed, window("new"))
        return await writers(followed)

    found = in_store(tmp_path, main)
    assert "new" == found[f"{KEYS.load}07"].writer
    assert PLACES == len({each.writer for each in found.values()})


class Silent:
    def __init__(self, error=None):
        self.error = error

    async def scan(self, prefix):
        if self.error is not None:
            raise self.error
        await asyncio.sleep(60)


@pytest.mark.parametrize("error", [StoreUnavailable("the store", "it is away"), None])
def test_a_window_is_dropped_if_the_store_does_not_answer(error, monkeypatch, caplog):
    monkeypatch.setattr("apportion.shards.load.record._WITHIN_SECONDS", 0.01)
    caplog.set_level("INFO", logger="apportion.shards")
    asyncio.run(kept(SimpleNamespace(store=Silent(error), keys=KEYS), window()))
    assert "keys of sessions of set world are not kept" in caplog.text


def test_the_sessions_of_a_router_come_into_the_store_at_its_end(tmp_path):
    files = Files(tmp_path)
    with sync.open_shards(files.url, SET, base=Base) as router:
        for number in range(2000):
            router.session("FR" if number % 2 else f"C{number}")
        with router.pin("FR"):
            router.session()
    (record,) = in_store(tmp_path, writers).values()
    assert 2001 == record.sessions
    assert 8 <= record.keys['"FR"'] <= 31


def test_a_router_with_few_sessions_writes_nothing(tmp_path):
    files = Files(tmp_path)
    with sync.open_shards(files.url, SET, base=Base) as router:
        router.statistics._sample.due = 10
        router.session("FR")
    assert {} == in_store(tmp_path, writers)
