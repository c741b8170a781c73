"""CoordinationStore: the protocol of a store, on which groups, published tables and the leases of workers rest.

A store holds small items under keys. Every commit gives the store a higher revision. The conformance suite
(`apportion.sim.conformance`) checks that every store keeps these promises:

- A commit happens whole, at one revision, and only if every compare holds. Otherwise nothing changes.
- Revisions grow with every change, also through restarts. An item carries the revision of the commit that wrote it.
- `scan` shows the state at one revision. `watch` shows every commit after a given revision, in order and exactly once.
- A lease ends when it is revoked, or has not been renewed for its time to live. The same commit deletes its keys. On
  some stores, reapers end the leases (`lease_end`). A reaper is a handle with an open watch: without an open watch, no
  lease expires.
- After a restore from a copy, the store has another incarnation, or its calls raise `StoreWentBack` where the handle
  can detect the restore.

Refuses: to write a key that was not compared; to split a commit; to say that a commit failed when the store cannot
know.
Idea: etcd's key-value interface (Go, Apache-2.0), without its unconditional writes, its ranges and its older revisions.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from apportion.errors import InvalidInput, UnknownOption
from apportion.errors.brief import brief

Need = Literal["durable", "fencing", "gapless_watch", "linearizable", "multi_host"]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A key with its value, the revision that wrote it, and its lease (None: no lease ends the item)."""

    key: str
    value: bytes
    revision: int
    lease: int | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The items under a prefix at one revision, sorted by the UTF-8 of the keys, and the store's incarnation."""

    items: tuple[Item, ...]
    revision: int
    incarnation: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """Compare: the key is unchanged since the given revision wrote it."""

    key: str
    revision: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Compare: the key does not exist."""

    key: str


Compare = Unchanged | Absent


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Write a key. With a lease, the key exists until the lease ends."""

    key: str
    value: bytes
    lease: int | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The commit happened, at this revision."""

    revision: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A compare did not hold, at this revision of the store or later; nothing was changed."""

    revision: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """No reply came: the commit may have happened, or may still happen.

    Read the key before you do anything else. The surest sign of the commit is a nonce in the value.
    """

    reason: str


Outcome = Committed | Refused | Unknown


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The change of one key by a commit: its new value and lease. The value is None when the key was deleted."""

    key: str
    value: bytes | None
    lease: int | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChange:
    """All changes of one commit (or of the end of one lease) under a watched prefix, sorted by key.

    Keys that are not text were written by another program and are left out. A commit that wrote only such keys may
    give no event.
    """

    revision: int
    events: tuple[Event, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A right that ends when it is not renewed within its time to live."""

    id: int
    ttl_seconds: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The promises of a store and its limits. Each field has a conformance case that fails when the field is broken.

    linearizable      a scan sees every commit that was acknowledged before the scan began
    durable           an acknowledged commit survives a kill and a power cut
    fencing           no revision is ever given twice, so a revision can be a fencing token
    gapless_watch     no change is missed, also through restarts
    multi_host        members may run on several hosts
    one_revision      all keys share one order of revisions, and a commit may hold any of them
    restore_seen      the store notices by itself that an older copy was restored under the same identity (id of a
                      cluster or system, a file). On other stores, a handle notices the restore only if it saw a
                      later state than that of the copy. After the command `store restored`, all handles notice it
    watch_delay_seconds   the longest delay until a watch shows a change after a quiet time
    lease_end         the party that ends an expired lease: the store itself, or a reaper that watches renewals
    max_operations    the most compares in one commit, and also the most puts and deletes together
    max_commit_bytes  the most bytes of keys and values in one commit
    """

    linearizable: bool
    durable: bool
    fencing: bool
    gapless_watch: bool
    multi_host: bool
    watch_delay_seconds: float
    lease_end: Literal["store", "reaper"]
    min_ttl_seconds: float
    restore_seen: bool = False
    one_revision: bool = True
    max_ttl_seconds: float = 86_400.0 * 7
    max_operations: int = 1_000
    max_value_bytes: int = 1_000_000
    max_commit_bytes: int = 16_000_000

    def lacking(self, needs: Iterable[Need]) -> Need | None:
        """Return the first need that is not met, None when all are met. `UnknownOption` for an unknown need."""
        return next((need for need in check_needs(needs) if not getattr(self, need)), None)


def check_needs(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Return the needs; `UnknownOption` for an unknown need, `InvalidInput` for a value that is no list."""
    if isinstance(needs, (str, bytes)) or not isinstance(needs, Iterable):
        raise InvalidInput("needs", needs, "a list of guarantees", 'Write needs=["durable"], also for a single one.')
    listed = tuple(needs)
    for need in listed:
        if need not in get_args(Need):
            raise UnknownOption("need", need, get_args(Need))
    return listed


class CoordinationStore(Protocol):
    """One handle of a store, used by one event loop. Every call is bounded in time.

    These errors apply to every call, unless the method says otherwise:

    - `StoreUnavailable`: the call could not be done and has changed nothing.
    - `StoreDenied`: the store refuses this user.
    - `StoreWentBack`: the store was restored, or lost data, after the handle last read it. The next `scan` accepts the
      new state.
    - `StoreClosed`: the handle was closed or crossed a fork.
    """

    async def scan(self, prefix: str) -> Scan:
        """Return all items with keys that start with `prefix` ("" for all), at one revision."""

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        """Do all puts and deletes at the next revision if every compare holds, else nothing.

        Every written key must be compared; a deleted key must be compared by `Unchanged`. `LeaseLost` when a put
        names a lease that has ended: nothing is written. `InvalidInput` names the limit when the commit is too large;
        a commit is never split.
        """

    def watch(self, prefix: str, *, after: int) -> AsyncGenerator[StoreChange, None]:
        """Yield every change under `prefix` with a revision above `after`, in order, each once, until closed.

        The watch resumes by itself after the store was unavailable, or refused the user for a while. If the consumer
        is cancelled while it waits, the watch ends, as with any generator. Then start another watch after the last
        revision that you received. Raises `Compacted` when the history is gone: scan, then start another watch.
        The consumer sets the pace: nothing is buffered without bound.
        """

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> Lease:
        """Make a lease. `InvalidInput` when the store cannot keep a lease with that time to live.

        `lease` is the id of the new lease, for a lease that several stores keep (see `by_prefix`). Take a random number
        that no lease has had. If a lease with this id is alive, nothing changes. By default, the store chooses the id.

        A process that waits for the end of another process's lease must keep a watch open. In a store with reapers, a
        process that only polls with `scan` ends no lease.
        """

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """Renew many leases in one request; return the live ones. A renewal counts from the moment of sending."""

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys, in one commit. A lease that has ended already is no error."""

    def capabilities(self) -> Capabilities:
        """Return the promises of this store, as it is set up."""

    async def close(self) -> None:
        """Close the connections and the watches of this handle. It revokes no lease. May be called twice."""
