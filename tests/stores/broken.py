"""Stores that break a promise on purpose: the memory store with one thing changed each.

The suite must find every one of them; `test_broken.py` has the cases that do.
"""

import dataclasses

from apportion.errors import LeaseLost
from apportion.stores import Committed, Refused
from apportion.stores.ledger import Ledger
from apportion.stores.memory.store import MemoryStore
from tests.stores.rigs.memory import MemoryRig


class Torn(MemoryStore):
    """Keeps half of a commit: each write has a revision of its own, and writes after a dead lease are left out."""

    async def commit(self, *, when, puts=(), deletes=()):
        self._space.request(when, puts, deletes, self.capabilities())
        compares = {compare.key: compare for compare in when}
        written = [put.key for put in puts] + list(deletes)
        only = [compare for key, compare in compares.items() if key not in written]
        for put in puts:
            outcome = await super().commit(when=[*only, compares[put.key]], puts=[put])
            if not isinstance(outcome, Committed):
                return outcome
        for key in deletes:
            outcome = await super().commit(when=[*only, compares[key]], deletes=[key])
        return outcome


class Careless(MemoryStore):
    """Compares the keys it writes, and takes the other compares on trust; values decide in place of revisions."""

    async def commit(self, *, when, puts=(), deletes=()):
        ledger = self._open()
        request = self._space.request(when, puts, deletes, self.capabilities())
        written = {key for key, _, _ in request.puts} | set(request.deletes)
        there = {key: ledger.records[key].revision for key in ledger.records}
        for key, expected in request.compares:
            if key in written and (expected is None) != (key not in there):
                return Refused(revision=ledger.revision)
        compares = tuple((key, there.get(key)) for key, _ in request.compares)
        revision = ledger.commit(dataclasses.replace(request, compares=compares))
        self._memory.changed()
        return Committed(revision=revision)


class Merging(MemoryStore):
    """Polls for the state: its watch shows the last state of a key, and nothing of a key that came and went."""

    async def watch(self, prefix, *, after):
        known = {item.key: item.revision for item in (await self.scan(prefix)).items if item.revision <= after}
        async for change in super().watch(prefix, after=after):
            items = {item.key: item for item in (await self.scan(prefix)).items}
            events = tuple(
                event for event in change.events if (event.key in items) == (event.value is not None)
                and (event.key not in items or items[event.key].revision == change.revision)
                and (event.key in items or event.key in known)
            )  # fmt: skip
            known.update(dict.fromkeys((event.key for event in events), change.revision))
            if events:
                yield dataclasses.replace(change, events=events)


class SilentLedger(Ledger):
    """Forgets to tell that a lease has ended."""

    def end(self, lease):
        if self.leases.pop(lease, None) is not None:
            self.records = {key: record for key, record in self.records.items() if record.lease != lease}


class HauntedLedger(Ledger):
    """Ends a lease and leaves its keys."""

    def end(self, lease):
        self.leases.pop(lease, None)


class ForgivingLedger(Ledger):
    """Takes puts with leases that have ended, and brings these back when they are renewed."""

    def commit(self, request):
        try:
            return super().commit(request)
        except LeaseLost as error:
            self.leases[error.lease] = next(iter(self.leases.values()))
            return self.commit(request)


class ReusingLedger(Ledger):
    """Gives the lowest free id and, after a delete, the same revision again."""

    def grant(self, ttl_seconds, now, lease=None):
        self.next_lease = next(number for number in range(1, 10**6) if number not in self.leases)
        return super().grant(ttl_seconds, now, lease)

    def _write(self, writes):
        writes = list(writes)
        if writes and all(put is None for _, put in writes):
            self.revision -= 1
        return super()._write(writes)


class Denying(MemoryStore):
    """Calls every third commit refused that has happened."""

    def __init__(self, memory, namespace):
        super().__init__(memory, namespace)
        self._count = 0

    async def commit(self, *, when, puts=(), deletes=()):
        outcome = await super().commit(when=when, puts=puts, deletes=deletes)
        self._count += 1
        if self._count % 3 == 0 and isinstance(outcome, Committed):
            return Refused(revision=outcome.revision)
        return outcome


class Trusting(MemoryStore):
    """Does not look whether the store is the one that it knew."""

    def _same(self):
        return self._open()

    async def watch(self, prefix, *, after):
        start, end = self._space.span(prefix)
        while not self._closed:
            for entry in self._same().since(after):
                after = entry.revision
                change = self._change(entry, start, end)
                if change.events:
                    yield change
                    break
            else:
                await self._memory.wait()


class Skipping(MemoryStore):
    """Goes on after a compaction as if nothing had been lost."""

    async def watch(self, prefix, *, after):
        after = max(after, self._memory.ledger.compacted)
        async for change in super().watch(prefix, after=after):
            yield change


class Immortal(MemoryStore):
    """Works on after it was closed, and after a fork."""

    def _open(self):
        return self._memory.now()


class Wide(MemoryStore):
    """Takes the last signs of a prefix for wildcards."""

    async def scan(self, prefix):
        return await super().scan(prefix.rstrip("/%_*"))


def rig_of(name):
    """Return a rig of the broken store, or of the memory store over the broken ledger, of that name."""
    kind = globals()[name]
    store, ledger = (MemoryStore, kind) if issubclass(kind, Ledger) else (kind, Ledger)

    class BrokenRig(MemoryRig):
        def __init__(self):
            super().__init__()
            self.memory.ledger = ledger(incarnation=1)

        async def connect(self, namespace, *, address=None, clock=None):
            return store(self.memory, namespace)

    return BrokenRig()
