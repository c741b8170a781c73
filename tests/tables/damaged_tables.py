"""Damaged published tables: the damages to write over records, and a desk of publishers and followers under them."""

import asyncio
import json
import zlib
from contextlib import aclosing
from itertools import count

from apportion import Assignment, Topology
from apportion.errors import Conflict, Outdated
from apportion.placement.ranges import Ranges
from apportion.stores import Absent, Committed, Put, Unchanged
from apportion.tables.deltas import delta
from apportion.tables.follower import Follower
from apportion.tables.layout import decode_head
from apportion.tables.publisher import Publisher
from tests.tables.sample import KEYS, NAME, ring, same

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
    """Write, or delete (None), keys of the name, whatever they hold; return the revision."""
    there = await items_of(store)
    when = [
        Unchanged(key=key, revision=there[key].revision) if key in there else Absent(key=key)
        for key, value in changes.items()
        if key in there or value is not None
    ]
    puts = [Put(key=key, value=value) for key, value in changes.items() if value is not None]
    deletes = [key for key, value in changes.items() if value is None and key in there]
    outcome = await store.commit(when=when, puts=puts, deletes=deletes)
    assert isinstance(outcome, Committed)
    return outcome.revision


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


def _add_in(place, part, more):
    return lambda form: form["links"][place].__setitem__(part, form["links"][place][part] + more)


HEADS = {
    "a chunk more": _add_in(0, 2, 1), "a chunk more at the end": _add_in(-1, 2, 1), "a byte less": _add_in(0, 3, -1),
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
    """Yield each damage by its name: of every record, bytes, kinds and numbers."""
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
    """Two publishers, six followers, each with a handle of its own; and the value published under each version.

    `wrong` has a line for each broken promise: a follower ended, went back, or shows an unpublished value.
    """

    def __init__(self, stack, connect):
        self.values, self.published, self.wrong = values(), {}, []
        self.publishers, self.followers, self.shown = [], [], []
        self._stack, self._connect = stack, connect

    async def handle(self):
        """Return another handle on the store, which is closed at the end."""
        store = await self._connect()
        self._stack.push_async_callback(store.close)
        return store

    async def publish(self, by):
        """Publish as one of the two; the publisher that was not first tries again, as programs do."""
        value = next(self.values)
        try:
            done = await self.publishers[by].publish(value)
        except (Conflict, Outdated):
            done = await self.publishers[by].publish(value)
        if done.version in self.published:
            self.wrong.append(f"{done.version} was given twice")
        self.published[done.version] = value
        return done.version

    async def follow(self):
        follower = Follower(await self.handle(), NAME)
        self._stack.push_async_callback(follower.close)
        await follower.start(within_seconds=20)
        return follower

    async def begin(self):
        self.store = await self.handle()
        self.publishers = [Publisher(await self.handle(), NAME) for _ in range(2)]
        for number in range(EARLIER):
            await self.publish(number % 2)
        self.followers = [await self.follow() for _ in range(FOLLOWERS)]
        self.shown = [follower.routes for follower in self.followers]

    def check(self):
        """No follower has ended or gone back, and each shows a value as it was published."""
        for place, follower in enumerate(self.followers):
            shown = follower.routes
            if follower._work.done():
                self.wrong.append(f"follower {place} ended: {follower.trouble}")
            if shown.version < self.shown[place].version:
                self.wrong.append(f"follower {place} went back to {shown.version}")
            if shown is not self.shown[place] and not same(self.published[shown.version], shown.value):
                self.wrong.append(f"follower {place} shows a version {shown.version} that nobody published")
            self.shown[place] = shown

    async def current(self, version, *, within_seconds=CURRENT_SECONDS):
        """Wait until all show a version and have no trouble."""
        async with asyncio.timeout(within_seconds):
            while any(follower.routes.version != version or follower.trouble for follower in self.followers):
                self.check()
                await asyncio.sleep(0.002)
        self.check()

    async def damage_in_turn(self, *, within_seconds=CURRENT_SECONDS):
        """Damage every record in turn; yield each damage, and how long after the next publish all were current.

        A newcomer starts to follow while the record is damaged.
        """
        turns = len(list(damages(await items_of(self.store))))
        loop = asyncio.get_running_loop()
        for turn in range(turns):
            while len(decode_head((await items_of(self.store))[KEYS.head].value).links) < 2:
                await self.current(await self.publish(turn % 2), within_seconds=within_seconds)
            them = list(damages(await items_of(self.store)))
            name, changes = them[turn % len(them)]
            revision = await write(self.store, changes)
            newcomer = asyncio.ensure_future(self.follow())
            async with aclosing(self.store.watch(KEYS.prefix, after=revision - 1)) as watched:
                await anext(watched)  # the handles of a process hear of a change together
            await asyncio.sleep(0.005)
            self.check()
            version = await self.publish(turn % 2)
            began = loop.time()
            await self.current(version, within_seconds=within_seconds)
            follower = await newcomer
            if follower.routes.version != version:
                self.wrong.append(f"a newcomer shows {follower.routes.version}")
            yield name, loop.time() - began
            await follower.close()
