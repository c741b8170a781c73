"""The rig of a prefix store: two stores of one kind; the cases use the names with one of the two prefixes.

The cases choose their keys freely. So each handle here puts them under a name, and takes the name away again.
"""

from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256

from apportion.errors import NotPromised
from apportion.sim.conformance import Rig
from apportion.stores import PrefixStore, Scan

PREFIX = "events"
_MOST_BYTES = 1_024
_LONG = {}  # the long keys of all cases, by their digests


class PrefixRig(Rig):
    """The `rig` under the prefix of `name`, and `beside` under the other one."""

    def __init__(self, rig, beside, name):
        self.rig, self.beside = rig, beside
        self.name = f"{rig.name} by prefix, for {name}"
        self._under = f"live/{name}/"
        self._is_first = not name.startswith(PREFIX)

    def _placed(self, store, beside):
        return {"": store, PREFIX: beside} if self._is_first else {"": beside, PREFIX: store}

    def url(self, namespace, *, address=None):
        return self.rig.url(namespace, address=address)

    async def connect(self, namespace, *, address=None, clock=None):
        store = await self.rig.connect(namespace, address=address, clock=clock)
        beside = await self.beside.connect(namespace, clock=clock)
        return Under(PrefixStore(self._placed(store, beside), clock), self._under)

    async def connect_tasks(self, namespace, *, address=None):
        raise NotPromised(self.name, "tasks", able=())

    def url_elsewhere(self, namespace):
        urls = self._placed(self.rig.url_elsewhere(namespace), self.beside.url_elsewhere(namespace))
        return " ".join((self._under, *urls.values()))

    def address(self):
        return self.rig.address()

    async def kill(self):
        await self.rig.kill()

    async def start(self):
        await self.rig.start()

    async def compact(self):
        await self.rig.compact()

    async def save(self):
        await self.rig.save()

    async def restore(self):
        await self.rig.restore()

    async def restore_in_place(self):
        await self.rig.restore_in_place()

    async def deny(self):
        await self.rig.deny()

    async def allow(self):
        await self.rig.allow()

    async def fill(self):
        await self.rig.fill()

    async def relieve(self):
        await self.rig.relieve()

    async def step_clock(self, seconds):
        await self.rig.step_clock(seconds)

    async def close(self):
        await self.rig.close()
        await self.beside.close()


class Under:
    """A handle with all its keys under one name. A key that is too long for that is replaced by a digest."""

    def __init__(self, store, under):
        self._store, self._under = store, under

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def scan(self, prefix):
        scan = await self._store.scan(self._key(prefix) or self._under)
        items = tuple(replace(each, key=self._text(each.key)) for each in scan.items)
        return Scan(items=items, revision=scan.revision, incarnation=scan.incarnation)

    async def commit(self, *, when, puts=(), deletes=()):
        def moved(each):
            return replace(each, key=self._key(each.key))

        return await self._store.commit(
            when=[*map(moved, when)], puts=[*map(moved, puts)], deletes=[*map(self._key, deletes)]
        )

    async def watch(self, prefix, *, after):
        async with aclosing(self._store.watch(self._key(prefix) or self._under, after=after)) as changes:
            async for change in changes:
                yield replace(change, events=tuple(replace(each, key=self._text(each.key)) for each in change.events))

    def _key(self, key):
        if not key:
            return key
        size = len(key.encode(errors="replace"))
        if _MOST_BYTES - len(self._under) < size <= _MOST_BYTES:
            digest = f"long {sha256(key.encode()).hexdigest()}"
            _LONG[digest] = key
            key = digest
        return self._under + key

    def _text(self, key):
        text = key.removeprefix(self._under)
        return _LONG.get(text, text)
