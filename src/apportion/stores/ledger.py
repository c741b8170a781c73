"""Ledger: the rules of a store as plain data, without I/O.

The memory store keeps a ledger, and tests compare other stores with one. A ledger takes requests that `requests.py`
has checked, and times from its caller. It answers at once. The code is deliberately simple: it is the specification
for the stores on real engines, one request at a time.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter

from apportion.errors import Compacted, LeaseLost
from apportion.stores.requests import CommitRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A key's value, the revision that wrote it, and its lease."""

    value: bytes
    revision: int
    lease: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One revision of the history: the new record of each changed key, None for deleted; sorted by key."""

    revision: int
    records: tuple[tuple[bytes, Record | None], ...]


@dataclass(slots=True, kw_only=True)
class Held:
    """A lease, and the time at which it ends on the caller's clock."""

    ttl_seconds: float
    ends_at: float


@dataclass(slots=True, kw_only=True)
class Ledger:
    """Keys, leases and history of one store.

    >>> from apportion.stores.requests import CommitRequest
    >>> ledger = Ledger(incarnation=1)
    >>> ledger.commit(CommitRequest(((b"a", None),), ((b"a", b"1", None),), ()))
    1
    >>> ledger.commit(CommitRequest(((b"a", None),), ((b"a", b"2", None),), ()))  # a is no longer absent
    >>> ledger.commit(CommitRequest(((b"a", 1),), (), (b"a",)))
    2
    >>> [entry.revision for entry in ledger.since(0)], ledger.records
    ([1, 2], {})
    """

    incarnation: int
    revision: int = 0
    compacted: int = 0
    next_lease: int = 1
    records: dict[bytes, Record] = field(default_factory=dict)
    leases: dict[int, Held] = field(default_factory=dict)
    history: list[Entry] = field(default_factory=list)

    def within(self, start: bytes, end: bytes) -> list[tuple[bytes, Record]]:
        """Return all keys in [start, end), sorted."""
        return [(key, self.records[key]) for key in sorted(self.records) if start <= key < end]

    def commit(self, request: CommitRequest) -> int | None:
        """Do all of a commit and return its revision; None when a compare fails. `LeaseLost` for a dead lease."""
        for key, expected in request.compares:
            record = self.records.get(key)
            if expected != (None if record is None else record.revision):
                return None
        for _, _, lease in request.puts:
            if lease is not None and lease not in self.leases:
                raise LeaseLost(lease)
        return self._write(
            [(key, (value, lease)) for key, value, lease in request.puts] + [(key, None) for key in request.deletes]
        )

    def since(self, after: int) -> list[Entry]:
        """Return the history after a revision; `Compacted` when a part of that history is gone."""
        if after < self.compacted:
            raise Compacted(after, self.compacted)
        return self.history[bisect_right(self.history, after, key=attrgetter("revision")) :]

    def compact(self, through: int) -> None:
        """Forget the history up to and including a revision."""
        self.compacted = max(self.compacted, min(through, self.revision))
        self.history = self.history[bisect_right(self.history, self.compacted, key=attrgetter("revision")) :]

    def grant(self, ttl_seconds: float, now: float, lease: int | None = None) -> int:
        """Make a lease and return its id. A live lease with a given id stays as it is."""
        if lease is None:
            lease, self.next_lease = self.next_lease, self.next_lease + 1
        self.leases.setdefault(lease, Held(ttl_seconds=ttl_seconds, ends_at=now + ttl_seconds))
        return lease

    def renew(self, leases: Collection[int], now: float) -> frozenset[int]:
        """Renew the given leases that are alive, and return these."""
        alive = frozenset(leases) & self.leases.keys()
        for lease in alive:
            held = self.leases[lease]
            held.ends_at = now + held.ttl_seconds
        return alive

    def expire(self, now: float) -> None:
        """End every lease that has reached the end of its time. Each lease and its keys end in one revision."""
        for lease in [lease for lease, held in self.leases.items() if held.ends_at <= now]:
            self.end(lease)

    def end(self, lease: int) -> None:
        """End one lease, if it is alive, and delete its keys in one revision."""
        if self.leases.pop(lease, None) is not None:
            self._write([(key, None) for key, record in self.records.items() if record.lease == lease])

    def _write(self, writes: Iterable[tuple[bytes, tuple[bytes, int | None] | None]]) -> int:
        written = sorted(writes, key=itemgetter(0))
        if not written:
            return self.revision
        self.revision += 1
        records = tuple(
            (key, None if put is None else Record(value=put[0], revision=self.revision, lease=put[1]))
            for key, put in written
        )
        for key, record in records:
            if record is None:
                del self.records[key]
            else:
                self.records[key] = record
        self.history.append(Entry(revision=self.revision, records=records))
        return self.revision
