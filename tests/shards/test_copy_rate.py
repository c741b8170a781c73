"""A copy with a rate stays below its bytes per second, and looks up often enough for the wish of an operator."""

import asyncio
from types import SimpleNamespace

import pytest

from apportion.console.shards.options import rate_of
from apportion.errors import InvalidInput
from apportion.shards import admin
from apportion.shards.mover import copy_rate
from apportion.shards.mover.copy_rate import ByteBucket, CopyRate
from apportion.shards.shard import SlotSize
from tests.shards.sample import SET, Files

CHUNK = 50


class World:
    """A clock, a shard and a channel in one: each chunk has fifty rows, and takes no time."""

    def __init__(self, monkeypatch):
        self.now, self.copied, self.waits = 0.0, 0, []
        monkeypatch.setattr(copy_rate, "asyncio", SimpleNamespace(sleep=self._sleep))

    def elapsed(self):
        return self.now

    async def _sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds

    async def shard(self, _):
        return self

    async def sizes(self):
        return {7: SlotSize(rows=400, bytes=40_000), 8: SlotSize(rows=9, bytes=9)}

    async def state(self, _):
        return SimpleNamespace(copied=self.copied)

    async def copy(self, _):
        self.copied += CHUNK


ENTRY = SimpleNamespace(group=SimpleNamespace(move="a", source="one", slots=(7,)), record=SimpleNamespace(attempt=1))


def test_the_copied_bytes_stay_below_the_rate_but_for_the_first_second_and_one_chunk(monkeypatch):
    world = World(monkeypatch)
    rate = CopyRate(1_000.0, world, world)  # ten rows per second, after ten at once

    async def main():
        while world.copied < 20 * CHUNK:
            await rate.copy(world, ENTRY, None)
            assert world.copied * 100 <= 1_000 * (world.now + 1) + CHUNK * 100

    asyncio.run(main())
    assert 90 <= world.now <= 95  # 100 000 bytes, of which 1 000 at once, and the debt of the last chunk is not paid
    assert max(world.waits) <= 0.25


def test_a_bucket_keeps_no_more_than_one_second():
    bucket = ByteBucket(100.0, 0.0)
    bucket.take(150.0, 500.0)
    assert (0.5, 0.0) == (bucket.wait_seconds(500.0), bucket.wait_seconds(500.5))


def test_a_move_with_a_rate_copies_all_rows(tmp_path):
    files = Files(tmp_path)
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot WHERE state = 'owner'")][:4]
    for slot in slots * 5:
        row = "INSERT INTO place (slot, id, country, visits) VALUES (?, lower(hex(randomblob(16))), 'FR', 1)"
        files.sql("one", row, (slot,))
    plan, heard = asyncio.run(admin.plan(files.url, SET, slots=slots, to="two")), []
    work = admin.apply(files.url, SET, plan, bytes_per_second=1e6, observer=heard.append)
    assert asyncio.run(work).is_whole
    assert [(20,)] == files.sql("two", "SELECT count(*) FROM place")
    assert "chunk" in {event.step for event in heard}


@pytest.mark.parametrize(
    ("rate", "channel"), [(0, "keys"), (-1.0, "keys"), ("5", "keys"), (5.0, "native"), (5.0, "auto")]
)
def test_a_wrong_rate_is_refused_before_anything_is_asked(rate, channel):
    with pytest.raises(InvalidInput, match="bytes_per_second"):
        asyncio.run(admin.apply("sqlite:///nowhere.db", SET, bytes_per_second=rate, channel=channel))


@pytest.mark.parametrize("word", ["5", "5MB", "0MB/s", "-1kB/s", "MB/s", "5PB/s", "1e3B/s"])
def test_a_wrong_word_for_a_rate_is_refused(word):
    with pytest.raises(InvalidInput, match="--rate"):
        rate_of(word)
