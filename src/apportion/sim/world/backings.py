"""Backings: the store below the faults of a world. A backing shows all transitions, and can restore an older copy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from apportion.runtime.clock import Clock
from apportion.sim.facts import Began, Changed, Fact
from apportion.stores import CoordinationStore, Item
from apportion.stores.ledger import Ledger, Record
from apportion.stores.memory.store import Memory, MemoryStore
from apportion.stores.requests import Space

NAMESPACE = "world"


class Backing(Protocol):
    """A store in an operator's hands: with its data, its copies, and its history."""

    incarnation: int

    def handle(self, clock: Clock) -> CoordinationStore:
        """Return a new handle for a process with this clock."""

    def look(self) -> list[Fact]:
        """Return the changes since the last look, revision by revision."""

    def save(self) -> object:
        """Return a copy of all data, like a backup."""

    def restore(self, copy: object) -> None:
        """Replace the data by a copy, under a new incarnation."""

    def compact(self) -> None:
        """Forget the history."""

    def rearm(self) -> None:
        """Let every lease begin its time to live again, as a server does after it was away."""

    def close(self) -> None:
        """Remove the remains."""


class MemoryBacking(Backing):
    """A memory store: its ledger is looked at directly."""

    incarnation: int

    def __init__(self, clock: Clock, now: Callable[[], float]) -> None:
        self.incarnation = 1
        self._clock = clock
        self._now = now
        self._memory = Memory(clock, incarnation=self.incarnation)
        self._memory.take()  # the memory stays as long as the world
        self._space = Space(NAMESPACE)
        self._revision = -1
        self._records: dict[bytes, Record] = {}

    def handle(self, clock: Clock) -> CoordinationStore:  # noqa: ARG002 - its leases end by the store's own clock
        return MemoryStore(self._memory, NAMESPACE)

    def look(self) -> list[Fact]:
        """See `Backing`. A change that is not in the history is reported as one more change at the last revision."""
        ledger = self._memory.ledger
        if self._revision < 0:
            return [self._began(ledger)]
        if ledger.revision == self._revision and ledger.records == self._records:
            return []
        facts: list[Fact] = []
        for entry in ledger.history:
            if entry.revision > self._revision:
                facts.append(self._changed(entry.revision, entry.records))
                self._follow(entry.records)
        if ledger.records != self._records:
            keys = sorted({*ledger.records, *self._records})
            untold = [
                (key, ledger.records.get(key)) for key in keys if ledger.records.get(key) != self._records.get(key)
            ]
            facts.append(self._changed(ledger.revision, tuple(untold)))
            self._records = dict(ledger.records)
        self._revision = ledger.revision
        return facts

    def save(self) -> object:
        return _copied(self._memory.ledger)

    def restore(self, copy: object) -> None:
        assert isinstance(copy, Ledger)  # noqa: S101 - it comes from `save`
        self.incarnation += 1
        before, ledger = self._memory.ledger, _copied(copy)
        # As on every engine, a restore does not set the next lease id back.
        ledger.incarnation, ledger.next_lease = self.incarnation, before.next_lease
        self._memory.ledger = ledger
        self._revision = -1
        self._memory.changed()

    def compact(self) -> None:
        ledger = self._memory.ledger
        ledger.compact(ledger.revision)

    def rearm(self) -> None:
        for held in self._memory.ledger.leases.values():
            held.ends_at = max(held.ends_at, self._clock.elapsed() + held.ttl_seconds)

    def close(self) -> None:
        """See `Backing`. A memory store leaves no remains."""

    def _began(self, ledger: Ledger) -> Began:
        self._revision, self._records = ledger.revision, dict(ledger.records)
        items = tuple(self._item(key, record) for key, record in sorted(ledger.records.items()))
        return Began(at=self._now(), incarnation=self.incarnation, revision=ledger.revision, items=items)

    def _changed(self, revision: int, records: tuple[tuple[bytes, Record | None], ...]) -> Changed:
        items = tuple(
            (self._space.text(key), None if record is None else self._item(key, record)) for key, record in records
        )
        return Changed(at=self._now(), incarnation=self.incarnation, revision=revision, items=items)

    def _item(self, key: bytes, record: Record) -> Item:
        return Item(key=self._space.text(key), value=record.value, revision=record.revision, lease=record.lease)

    def _follow(self, records: tuple[tuple[bytes, Record | None], ...]) -> None:
        for key, record in records:
            if record is None:
                self._records.pop(key, None)
            else:
                self._records[key] = record


def _copied(ledger: Ledger) -> Ledger:
    """Return a ledger that shares only immutable parts: a copy of everything takes a fifth of a seed's time."""
    leases = {lease: replace(held) for lease, held in ledger.leases.items()}
    return replace(ledger, records=dict(ledger.records), leases=leases, history=list(ledger.history))
