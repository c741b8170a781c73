"""A damaged published table ends nobody: followers keep what they have, say so, and the next publish mends it."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from apportion.errors import BadSnapshot, InvalidInput, StoreWentBack
from apportion.stores import Absent, Put
from apportion.tables.deltas import applied, delta
from apportion.tables.layout import decode_head, resolved
from apportion.tables.publisher import Publisher, publish
from tests.tables.damaged_tables import CURRENT_SECONDS, Desk, head_with, items_of, owners, ranges, write
from tests.tables.sample import KEYS, NAME, handle, memory, ring, same


def on_memory(stack):
    """Return a desk on a store in memory."""
    shared = memory()

    async def connect():
        return handle(shared)

    return Desk(stack, connect)


@pytest.mark.slow
def test_every_record_of_a_table_damaged_in_turn_ends_nobody_and_the_next_publish_mends_it():
    async def main():
        async with AsyncExitStack() as stack:
            desk = on_memory(stack)
            await desk.begin()
            async for name, _ in desk.damage_in_turn():
                assert [] == desk.wrong, name

    asyncio.run(main())


@pytest.mark.parametrize("by", [0, 1])
def test_numbers_that_went_back_are_trouble_and_the_next_publish_has_a_number_that_nobody_saw(by):
    async def main():
        async with AsyncExitStack() as stack:
            desk = on_memory(stack)
            await desk.begin()
            old = {key: item.value for key, item in (await items_of(desk.store)).items()}
            for _ in range(4):
                await desk.current(await desk.publish(1))
            await write(desk.store, dict.fromkeys(await items_of(desk.store)) | old)
            async with asyncio.timeout(CURRENT_SECONDS):
                while not all(isinstance(follower.trouble, StoreWentBack) for follower in desk.followers):
                    await asyncio.sleep(0.002)
            desk.check()
            assert [] == desk.wrong
            await desk.current(await desk.publish(by))

    asyncio.run(main())


def test_a_table_whose_numbers_went_back_is_renewed():
    async def main():
        async with AsyncExitStack() as stack:
            desk = on_memory(stack)
            await desk.begin()
            old = {key: item.value for key, item in (await items_of(desk.store)).items()}
            value = desk.published[desk.followers[0].routes.version]
            for _ in range(4):
                await desk.current(await desk.publish(1))
            await write(desk.store, dict.fromkeys(await items_of(desk.store)) | old)
            done = await Publisher(desk.store, NAME).renew()
            desk.published[done.version] = value
            await desk.current(done.version)

    asyncio.run(main())


def test_what_nobody_can_read_is_not_renewed():
    async def main():
        shared = memory()
        with pytest.raises(BadSnapshot, match="nothing"):
            await Publisher(handle(shared), NAME).renew()
        await publish(handle(shared), NAME, ring("a"))
        await write(handle(shared), {KEYS.head: b"?"})
        with pytest.raises(BadSnapshot, match="damaged"):
            await Publisher(handle(shared), NAME).renew()

    asyncio.run(main())


@pytest.mark.parametrize(("place", "part"), [(0, 2), (0, 3), (-1, 2), (-1, 3)])
def test_a_head_that_miscounts_its_chunks_is_damaged_and_renewed(place, part):
    async def main():
        shared = memory()
        store, tables = handle(shared), [ring("a", "b"), ring("a", "b", "c")]
        for table in tables:
            await publish(store, NAME, table)
        value = (await items_of(store))[KEYS.head].value
        await write(store, {KEYS.head: head_with(value, lambda form: _raise_by_one(form["links"][place], part))})
        chunks = {key: item.value for key, item in (await items_of(store)).items()}
        with pytest.raises(BadSnapshot, match="chunks of version"):
            resolved(decode_head(chunks[KEYS.head]), KEYS, chunks)
        done = await Publisher(store, NAME).renew()
        assert (True, tables[-1].epoch) == (done.is_snapshot, done.epoch)
        chunks = {key: item.value for key, item in (await items_of(store)).items()}
        assert same(tables[-1], resolved(decode_head(chunks[KEYS.head]), KEYS, chunks))

    asyncio.run(main())


def _raise_by_one(link, part):
    link[part] += 1


def test_a_head_of_a_later_release_is_left_to_it():
    async def main():
        shared = memory()
        await publish(handle(shared), NAME, ring("a"))
        value = (await items_of(handle(shared)))[KEYS.head].value
        later = head_with(value, lambda form: form.update(format_version=2))
        await write(handle(shared), {KEYS.head: later})
        with pytest.raises(BadSnapshot, match="Upgrade this client"):
            await publish(handle(shared), NAME, ring("b"))
        assert later == (await items_of(handle(shared)))[KEYS.head].value

    asyncio.run(main())


def test_a_publisher_that_is_kept_finds_damage_under_its_deltas():
    async def main():
        shared, publisher = memory(), Publisher(handle(memory()), NAME)
        publisher = Publisher(handle(shared), NAME)
        await publisher.publish(ring("a", "b"))
        assert await publisher.is_intact()
        first = next(key for key in await items_of(handle(shared)) if key != KEYS.head)
        await write(handle(shared), {first: b"?"})
        assert not await publisher.is_intact()
        done = await publisher.publish(ring("a", "b", "c"))
        assert done.is_snapshot
        chunks = {key: item.value for key, item in (await items_of(handle(shared))).items()}
        assert same(ring("a", "b", "c"), resolved(decode_head(chunks[KEYS.head]), KEYS, chunks))
        assert await publisher.is_intact()

    asyncio.run(main())


@pytest.mark.parametrize("was", [ring("a", "b"), owners("a", "b"), ranges("a", "b")])
@pytest.mark.parametrize("pair", [("ab", ring), ("ab", owners), ("ab", ranges)], ids=["ring", "owners", "ranges"])
def test_a_delta_of_another_kind_is_refused_or_another_epoch(was, pair):
    ids, make = pair
    made = delta(make(*ids), make(*ids, "c"))
    try:
        value = applied(was, made)
    except InvalidInput:
        return
    assert type(value) is type(was)


def test_another_version_under_a_number_that_was_shown_is_trouble_and_the_next_publish_mends_it():
    async def main():
        async with AsyncExitStack() as stack:
            desk = on_memory(stack)
            await desk.begin()
            old = {key: item.value for key, item in (await items_of(desk.store)).items()}
            await desk.current(await desk.publish(0))
            elsewhere = memory()
            store = handle(elsewhere)
            when = [Absent(key=key) for key in old]
            await store.commit(when=when, puts=[Put(key=key, value=value) for key, value in old.items()])
            await Publisher(store, NAME).publish(next(desk.values))  # as who knows only the older copy
            new = {key: item.value for key, item in (await items_of(store)).items()}
            await write(desk.store, dict.fromkeys(await items_of(desk.store)) | new)
            async with asyncio.timeout(CURRENT_SECONDS):
                while not all(isinstance(follower.trouble, StoreWentBack) for follower in desk.followers):
                    await asyncio.sleep(0.002)
            desk.check()
            assert [] == desk.wrong
            for follower in desk.followers:  # asking again makes nothing of it
                await follower._confirm()
                assert isinstance(follower.trouble, StoreWentBack)
            await desk.current(await desk.publish(1))

    asyncio.run(main())
