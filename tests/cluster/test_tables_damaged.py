"""A damaged published table ends nobody: followers keep what they have, say so, and the next publish mends it."""

import asyncio
import json
import zlib
from contextlib import AsyncExitStack
from itertools import count

import pytest

from apportion import Assignment, Topology
from apportion.cluster.deltas import applied, delta
from apportion.cluster.following import Following
from apportion.cluster.publishing import Publisher, publish
from apportion.cluster.tables import decode_head, resolved
from apportion.errors import BadSnapshot, Conflict, InvalidInput, Outdated, StoreWentBack
from apportion.placement.ranges import Ranges
from apportion.stores import Absent, Committed, Put, Unchanged
from tests.cluster.tables_sample import KEYS, NAME, handle, memory, ring, same

FOLLOWERS = 6
CURRENT_SECONDS = 2.0
EARLIER = 3


def ranges(*ids):
    """Return a table over byte strings."""
    return Ranges(Topology(list(ids)), bounds=["m"], owners=[[ids[0]], [ids[-1]]]).table()


def owners(*ids):
    topology = Topology(list(ids))
    return Assignment(topology=topology, rows=tuple((place % len(ids),) for place in range(12)))


def values():
    """Yield tables of one kind, each another than the one before."""
    for number in count():
        yield ring("a", "b", f"n{number}", *(f"n{each}" for each in range(number % 5)))


async def items_of(store):
    return {item.key: item for item in (await store.scan(KEYS.prefix)).items}


async def write(store, changes):
    """Write, or delete (None), keys of the name, whatever they hold."""
    there = await items_of(store)
    when = [
        Unchanged(key=key, revision=there[key].revision) if key in there else Absent(key=key)
        for key, value in changes.items()
        if key in there or value is not None
    ]
    puts = [Put(key=key, value=value) for key, value in changes.items() if value is not None]
    deletes = [key for key, value in changes.items() if value is None and key in there]
    assert isinstance(await store.commit(when=when, puts=puts, deletes=deletes), Committed)


BYTES = (b"", b"\xff\xfe", b"{", b"[]", b"null", b"{}", bytes(64), b"[" * 50_000, zlib.compress(b"x"), None)
KINDS = {
    "a delta of bytes": lambda _: delta(ranges("a", "b"), ranges("a", "b", "c")),
    "a delta of tokens": lambda _: delta(ring("a", "b"), ring("a", "b", "c")),
    "a delta of owners": lambda _: delta(owners("a", "b"), owners("a", "b", "c")),
    "half of it": lambda value: value[: len(value) // 2],
    "more than it": lambda value: value + b"x",
}


def head_with(value, change):
    form = json.loads(value)
    change(form)
    return json.dumps(form).encode()


def _set(name, value):
    return lambda form: form.update({name: value})


def _set_in(place, part, value):
    return lambda form: form["links"][place].__setitem__(part, value)


HEADS = {
    "another kind": _set("kind", "assignment"), "no kind": _set("kind", "tabel"), "kind 7": _set("kind", 7),
    "no format": _set("format_version", None), "format -1": _set("format_version", -1),
    "a later life": _set("incarnation", 2**60), "a life of words": _set("incarnation", "one"),
    "life -1": _set("incarnation", -1), "epoch -1": _set("epoch", [-1, "d"]), "no epoch": _set("epoch", None),
    "another epoch": _set("epoch", [7, "0" * 32]), "no links": _set("links", []), "links of words": _set("links", "ab"),
    "version 0": _set_in(-1, 0, 0), "version 1": _set_in(-1, 0, 1), "version -4": _set_in(-1, 0, -4),
    "version 2^62": _set_in(-1, 0, 2**62), "version 10^30": _set_in(-1, 0, 10**30), "nonce 5": _set_in(-1, 1, 5),
    "another nonce": _set_in(0, 1, "other"), "parts 0": _set_in(0, 2, 0), "parts 2^60": _set_in(0, 2, 2**60),
    "size 1": _set_in(0, 3, 1), "size 2^63": _set_in(-1, 3, 2**63), "a link less": lambda form: form["links"].pop(),
    "all versions less": lambda form: [link.__setitem__(0, link[0] - 1) for link in form["links"]],
    "more members": _set("of the future", 1),
}  # fmt: skip


def damages(items):
    """Yield what to write, each damage by its name: of every record, bytes, kinds and numbers."""
    for key in items:
        for number, value in enumerate(BYTES):
            yield f"{key} bytes {number}", {key: value}
    chunks = [key for key in items if key != KEYS.head]
    for name, made in KINDS.items():
        for place in (0, -1):
            yield f"chunk {place}: {name}", {chunks[place]: made(items[chunks[place]].value)}
    for name, change in HEADS.items():
        yield f"head: {name}", {KEYS.head: head_with(items[KEYS.head].value, change)}
    yield "all gone", dict.fromkeys(items)


class Desk:
    """Two publishers, six followers, and what was published under each version."""

    def __init__(self, stack):
        self.shared, self.values, self.published = memory(), values(), {}
        self.store = handle(self.shared)
        self.publishers = [Publisher(handle(self.shared), NAME) for _ in range(2)]
        self.followers, self.shown = [], []
        self._stack = stack

    async def publish(self, by):
        """Publish as one of the two; who was not first asks again, as programs do."""
        value = next(self.values)
        try:
            done = await self.publishers[by].publish(value)
        except (Conflict, Outdated):
            done = await self.publishers[by].publish(value)
        assert done.version not in self.published, "a number is given once"
        self.published[done.version] = value
        return done.version

    async def follow(self):
        follower = Following(handle(self.shared), NAME)
        self._stack.push_async_callback(follower.close)
        await follower.start(within_seconds=20)
        return follower

    async def begin(self):
        for number in range(EARLIER):
            await self.publish(number % 2)
        self.followers = [await self.follow() for _ in range(FOLLOWERS)]
        self.shown = [follower.routes for follower in self.followers]

    def check(self):
        """Nobody has ended, nothing went back, and what is shown was published as it is."""
        for place, follower in enumerate(self.followers):
            assert not follower._work.done()
            assert follower.routes.version >= self.shown[place].version
            assert same(self.published[follower.routes.version], follower.routes.value)
            self.shown[place] = follower.routes

    async def current(self, version):
        async with asyncio.timeout(CURRENT_SECONDS):
            while any(follower.routes.version != version for follower in self.followers):
                self.check()
                await asyncio.sleep(0.002)
        self.check()
        assert [None] * FOLLOWERS == [follower.trouble for follower in self.followers]


def test_every_record_of_a_table_damaged_in_turn_ends_nobody_and_the_next_publish_mends_it():
    async def main():
        async with AsyncExitStack() as stack:
            desk = Desk(stack)
            await desk.begin()
            names = [name for name, _ in damages(await items_of(desk.store))]
            for turn, _ in enumerate(names):
                while len(decode_head((await items_of(desk.store))[KEYS.head].value).links) < 2:
                    await desk.current(await desk.publish(turn % 2))
                _, changes = list(damages(await items_of(desk.store)))[turn]
                await write(desk.store, changes)
                newcomer = asyncio.ensure_future(desk.follow())
                await asyncio.sleep(0.005)
                desk.check()
                version = await desk.publish(turn % 2)
                await desk.current(version)
                assert version == (await newcomer).routes.version
                await (await newcomer).close()
            print(f"{len(names)} damages, {FOLLOWERS} followers, 2 publishers: 0 ended, 0 back, 0 mixed, all current")

    asyncio.run(main())


@pytest.mark.parametrize("by", [0, 1])
def test_numbers_that_went_back_are_trouble_and_the_next_publish_has_a_number_that_nobody_saw(by):
    async def main():
        async with AsyncExitStack() as stack:
            desk = Desk(stack)
            await desk.begin()
            old = {key: item.value for key, item in (await items_of(desk.store)).items()}
            for _ in range(4):
                await desk.current(await desk.publish(1))
            await write(desk.store, dict.fromkeys(await items_of(desk.store)) | old)
            async with asyncio.timeout(CURRENT_SECONDS):
                while not all(isinstance(follower.trouble, StoreWentBack) for follower in desk.followers):
                    await asyncio.sleep(0.002)
            desk.check()
            await desk.current(await desk.publish(by))

    asyncio.run(main())


def test_a_table_whose_numbers_went_back_is_renewed():
    async def main():
        async with AsyncExitStack() as stack:
            desk = Desk(stack)
            await desk.begin()
            old = {key: item.value for key, item in (await items_of(desk.store)).items()}
            value = desk.published[desk.followers[0].routes.version]
            for _ in range(4):
                await desk.current(await desk.publish(1))
            await write(desk.store, dict.fromkeys(await items_of(desk.store)) | old)
            done = await Publisher(handle(desk.shared), NAME).renew()
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


def test_a_head_of_a_later_release_is_left_to_it():
    async def main():
        shared = memory()
        await publish(handle(shared), NAME, ring("a"))
        value = (await items_of(handle(shared)))[KEYS.head].value
        later = head_with(value, _set("format_version", 2))
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
            desk = Desk(stack)
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
            for follower in desk.followers:  # asking again makes nothing of it
                await follower._confirm()
                assert isinstance(follower.trouble, StoreWentBack)
            await desk.current(await desk.publish(1))

    asyncio.run(main())
