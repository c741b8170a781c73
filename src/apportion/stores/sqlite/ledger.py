"""The rules of `ledger.py` in SQL: the effect of each request on an SQLite file, in the caller's transaction.

Promises: each function leaves items, history and the counter of revisions in agreement.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from apportion.errors import LeaseLost
from apportion.stores.reaper import Counter
from apportion.stores.requests import CommitRequest, lease_id
from apportion.stores.sqlite import statements as sql
from apportion.stores.sqlite.connection import Connection, value_of

KEPT_REVISIONS = 10_000
KEPT_BYTES = 64_000_000
_FORGOTTEN_AT_ONCE = 500
_FORGOTTEN_BYTES_AT_ONCE = 3_000_000
Write = tuple[bytes, bytes | None, int | None]
Row = tuple[bytes, bytes, int, int | None]


class LedgerState(NamedTuple):
    """The incarnation of the store, its last revision, and the revision up to which its history is gone."""

    incarnation: int
    revision: int
    compacted: int


def state(connection: Connection) -> LedgerState:
    """Return the state of the store. One row."""
    return LedgerState(*connection.execute(sql.META).fetchall()[0])


def within(connection: Connection, start: bytes, end: bytes, most: int = -1) -> list[Row]:
    """Return key, value, revision and lease of the first `most` items (-1: all) in [start, end), sorted by key."""
    return connection.execute(sql.ITEMS, (start, end, most)).fetchall()


def changed_since(connection: Connection, start: bytes, end: bytes, revision: int) -> list[tuple[Any, ...]]:
    """Return key, value (None for deleted), revision and lease of each change in [start, end) after a revision."""
    return connection.execute(sql.EVENTS_SINCE, (revision, start, end)).fetchall()


def commit(connection: Connection, before: LedgerState, request: CommitRequest) -> int | None:
    """Do all of a commit and return its revision; None when a compare fails. `LeaseLost` for a dead lease."""
    for key, expected in request.compares:
        if value_of(connection, sql.ITEM_REVISION, (key,)) != expected:
            return None
    for lease in dict.fromkeys(lease for _, _, lease in request.puts if lease is not None):
        if value_of(connection, sql.LEASE, (lease,)) is None:
            raise LeaseLost(lease)
    deletes: list[Write] = [(key, None, None) for key in request.deletes]
    return _write(connection, before, [*request.puts, *deletes])


def next_change(connection: Connection, start: bytes, end: bytes, after: int) -> tuple[int, list[Write]] | None:
    """Return the first later revision that changed keys in [start, end), with the new state of each key."""
    rows = connection.execute(sql.NEXT_EVENTS, (start, end, after)).fetchall()
    return (rows[0][0], [row[1:] for row in rows]) if rows else None


def grant(connection: Connection, ttl_seconds: float, lease: int | None = None) -> int:
    """Make a lease and return its id. A live lease with a given id stays as it is."""
    lease = lease_id() if lease is None else lease
    connection.execute(sql.ADD_LEASE, (lease, ttl_seconds))
    return lease


def renew(connection: Connection, leases: Collection[int]) -> frozenset[int]:
    """Raise the counters of the leases that are alive, and return these leases."""
    alive = [lease for lease in leases if value_of(connection, sql.LEASE, (lease,)) is not None]
    for lease in alive:
        connection.execute(sql.RENEW, (lease,))
    return frozenset(alive)


def counters(connection: Connection, most: int | None = None) -> tuple[Counter, ...]:
    """Return the counters of the leases with the `most` lowest ids, or of all leases."""
    rows = connection.execute(sql.COUNTERS, (-1 if most is None else most,)).fetchall()
    return tuple(Counter(lease=lease, renewals=renewals, ttl_seconds=ttl) for lease, renewals, ttl in rows)


def reap(connection: Connection, ended: Iterable[Counter]) -> None:
    """End the leases with counters that have not changed since the read, each at a revision of its own."""
    for each in ended:
        if value_of(connection, sql.LEASE, (each.lease,)) == each.renewals:
            end(connection, each.lease)


def end(connection: Connection, lease: int) -> None:
    """End a lease, if it is alive, and delete its keys in one revision."""
    connection.execute(sql.END_LEASE, (lease,))
    keys = connection.execute(sql.KEYS_OF_LEASE, (lease,)).fetchall()
    if keys:
        _write(connection, state(connection), [(key, None, None) for (key,) in keys])


def touched(connection: Connection, after: int, most: int) -> list[bytes]:
    """Return keys that were changed after a revision, at most `most` of them."""
    return [key for (key,) in connection.execute(sql.TOUCHED, (after, most)).fetchall()]


def forget(connection: Connection, through: int) -> None:
    """Forget the history up to and including a revision."""
    forgotten_bytes = int(value_of(connection, sql.BYTES_THROUGH, (through,)))
    connection.execute(sql.FORGET_EVENTS, (through,))
    connection.execute(sql.COMPACT, (through, forgotten_bytes))


def _write(connection: Connection, before: LedgerState, writes: Sequence[Write]) -> int:
    revision = before.revision + 1
    for key, value, lease in writes:
        if value is None:
            connection.execute(sql.DELETE_ITEM, (key,))
        else:
            connection.execute(sql.PUT_ITEM, (key, value, revision, lease))
        connection.execute(sql.ADD_EVENT, (revision, key, value, lease))
    written_bytes = sum(len(key) + len(value or b"") for key, value, _ in writes)
    connection.execute(sql.ADVANCE, (revision, written_bytes))
    if revision - before.compacted >= KEPT_REVISIONS + _FORGOTTEN_AT_ONCE:
        forget(connection, revision - KEPT_REVISIONS)
    if int(value_of(connection, sql.HISTORY_BYTES)) > KEPT_BYTES + _FORGOTTEN_BYTES_AT_ONCE:
        forget(connection, _oldest_kept(connection, revision) - 1)
    return revision


def _oldest_kept(connection: Connection, newest: int) -> int:
    """Return the oldest revision of a history within the size limit. The newest revision is always kept."""
    left_bytes = int(value_of(connection, sql.HISTORY_BYTES))
    for revision, size_bytes in connection.execute(sql.BYTES_BY_REVISION).fetchall():
        if left_bytes <= KEPT_BYTES:
            return int(revision)
        left_bytes -= size_bytes
    return newest
