"""Publishing beside a record: the version and the record are written together or not at all, under the asked number."""

import asyncio
from contextlib import suppress

import pytest

from apportion.errors import ApportionError, Conflict, StaleEpoch
from apportion.stores import Absent, Put, Unchanged
from apportion.tables.publisher import Publisher
from tests.tables.sample import HOWS, KEYS, NAME, SMALL, Died, Failing, handle, many, memory, read, ring, same

OLD, NEW = many(1), many(2)
RECORD = Put(key="move/7", value=b"switched")
COMMITS = 3  # of each of these values within SMALL


async def _item(store, key):
    return next((item for item in (await store.scan(key)).items), None)


async def _value(store, key):
    item = await _item(store, key)
    return None if item is None else item.value


async def _now(store, key):
    """Return the compare that holds for a key now."""
    item = await _item(store, key)
    return Absent(key=key) if item is None else Unchanged(key=key, revision=item.revision)


async def _write(store, key, value):
    await store.commit(when=[await _now(store, key)], puts=[Put(key=key, value=value)])


def test_a_record_is_written_in_the_commit_that_makes_the_version_the_newest():
    async def main():
        shared = memory()
        moving = await handle(shared).commit(when=[Absent(key=RECORD.key)], puts=[Put(key=RECORD.key, value=b"fenced")])
        store = Failing(handle(shared), limits=SMALL)
        publisher = Publisher(store, NAME)
        await publisher.publish(OLD)
        await publisher.publish(NEW, when=[Unchanged(key=RECORD.key, revision=moving.revision)], puts=[RECORD])
        assert b"switched" == await _value(store, RECORD.key)
        revisions = {item.key: item.revision for item in (await store.scan("")).items}
        assert revisions[KEYS.head] == revisions[RECORD.key]

    asyncio.run(main())


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("at", range(1, COMMITS + 1))
def test_a_commit_that_fails_leaves_version_and_record_both_old_or_both_new(how, at):
    async def main():
        shared = memory()
        await Publisher(handle(shared), NAME).publish(OLD)
        store = Failing(handle(shared), at=at, how=how, limits=SMALL)
        with suppress(Died, ApportionError):
            await Publisher(store, NAME).publish(NEW, when=[Absent(key=RECORD.key)], puts=[RECORD])
        _, value = await read(handle(shared))
        assert same(NEW, value) == (await _value(handle(shared), RECORD.key) == RECORD.value)

    asyncio.run(main())


def test_a_record_that_changed_meanwhile_refuses_the_version():
    async def main():
        store = handle(memory())
        publisher = Publisher(store, NAME)
        await publisher.publish(OLD)
        await _write(store, RECORD.key, b"aborted")
        with pytest.raises(Conflict, match="did not hold"):
            await publisher.publish(NEW, when=[Absent(key=RECORD.key)], puts=[RECORD])
        assert b"aborted" == await _value(store, RECORD.key)
        assert same(OLD, (await read(store))[1])

    asyncio.run(main())


def test_the_newest_value_is_published_once_more_with_a_record_or_a_number_and_else_not():
    async def main():
        store = handle(memory())
        publisher = Publisher(store, NAME)
        beside = {"when": [await _now(store, RECORD.key)], "puts": [RECORD]}
        numbers = [
            (await publisher.publish(ring("a"), **extra)).version.number
            for extra in ({}, {}, beside, {"number": 3}, {})
        ]
        assert [1, 1, 2, 3, 3] == numbers
        assert 3 == (await read(store))[0]

    asyncio.run(main())


def test_a_number_may_skip_some_and_the_version_is_whole_then():
    async def main():
        store = handle(memory())
        publisher = Publisher(store, NAME)
        await publisher.publish(OLD)
        published = await publisher.publish(NEW, number=9)
        assert (9, True) == (published.version.number, published.is_snapshot)
        number, value = await read(store)
        assert 9 == number
        assert same(NEW, value)
        assert 10 == (await Publisher(store, NAME).publish(OLD)).version.number

    asyncio.run(main())


def test_a_number_that_was_reached_is_refused_and_nothing_is_published():
    async def main():
        store = handle(memory())
        publisher = Publisher(store, NAME)
        await publisher.publish(OLD, number=4)
        for number in (1, 4):
            with pytest.raises(StaleEpoch, match=f"version {number}"):
                await publisher.publish(NEW, number=number)
        assert same(OLD, (await read(store))[1])

    asyncio.run(main())


def test_a_damaged_head_is_mended_above_a_number_that_had_skipped_some():
    async def main():
        store = handle(memory())
        await Publisher(store, NAME).publish(OLD, number=1_000)
        await _write(store, KEYS.head, b"{}")
        assert 1_001 == (await Publisher(store, NAME).publish(NEW)).version.number

    asyncio.run(main())
