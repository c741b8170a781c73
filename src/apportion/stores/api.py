"""CoordinationStore: what everything that keeps an answer right over time stands on.

A store holds small items under keys, and every commit gives it the next revision. Its promises, which the conformance
suite (`apportion.sim.conformance`) holds every store to:

- A commit happens whole, at one revision, and only if every compare held; or it does not happen.
- Revisions grow with every change, also through restarts. An item carries the revision of the commit that wrote it.
- `scan` shows the state at one revision. `watch` shows every commit after one, in order, none left out, none twice.
- A lease ends once it was not renewed for its time to live, never before; its keys go with it, in one commit. Where
  reapers decide that (`lease_end`), they are the handles with an open watch: with none anywhere, no lease ends.
- A store that was restored from a copy has another incarnation, or `StoreWentBack` is raised where it can be seen.

Refuses: to write a key that was not compared, to split a commit, and to say that a commit failed when it cannot know.
Idea: etcd's key-value interface (Go, Apache-2.0), less its unconditional writes, its ranges and its older revisions.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from apportion.errors import UnknownOption

Need = Literal["durable", "fencing", "gapless_watch", "linearizable", "multi_host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A key with its value, the revision that wrote it, and the lease it goes with (None: it stays)."""

    key: str
    value: bytes
    revision: int
    lease: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a prefix held at one revision, sorted by the UTF-8 of the keys, and which life of the store that was."""

    items: tuple[Item, ...]
    revision: int
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """Compare: the key is still as the given revision wrote it."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Compare: there is no such key."""

    key: str


Compare = Unchanged | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Write a key; with a lease, until the lease ends."""

    key: str
    value: bytes
    lease: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """It happened, at this revision."""

    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A compare did not hold, at this revision of the store or later; nothing was changed."""

    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """No reply came: it may have happened, or may yet. Read back before anything else, best a nonce in the value."""

    reason: str


Outcome = Committed | Refused | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a commit did to one key: the value and lease it got, or None for a value when it was deleted."""

    key: str
    value: bytes | None
    lease: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChange:
    """All that one commit (or the end of one lease) did under a watched prefix, sorted by key.

    Keys that are no text, which another program wrote, are left out: of a commit of those alone there may be no event.
    """

    revision: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A right that ends when it is not renewed within its time to live."""

    id: int
    ttl_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store promises, and its limits; each field has a conformance case that fails when it is broken.

    linearizable      a scan sees every commit that was acknowledged before it began
    durable           what was acknowledged survives a kill and a power cut
    fencing           no revision is ever given twice, so that one can be a fencing token
    gapless_watch     no change is missed, also through restarts
    multi_host        members may run on several hosts
    restore_seen      an older copy that is restored under the same identity (the id of a cluster or system, a file) is
                      seen without a word; elsewhere by handles that saw more, and by all after `store restored`
    watch_delay_seconds   how late a change may be seen when nothing was pending
    lease_end         who decides that a lease has ended: the store itself, or a reaper that watches renewals
    max_operations    of compares, and of puts and deletes together, in one commit
    max_commit_bytes  of keys and values in one commit
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
    max_ttl_seconds: float = 86_400.0 * 7
    max_operations: int = 1_000
    max_value_bytes: int = 1_000_000
    max_commit_bytes: int = 16_000_000

    def lacking(self, needs: Iterable[Need]) -> Need | None:
        """Return the first need that is not met, None when all are; `UnknownOption` for what is no need."""
        for need in needs:
            if need not in get_args(Need):
                raise UnknownOption("need", need, get_args(Need))
            if not getattr(self, need):
                return need
        return None


class CoordinationStore(Protocol):
    """One handle of a store; used by one event loop. Every call is bounded in time.

    Where nothing else is said, a call that could not be done raises `StoreUnavailable` and has changed nothing,
    `StoreDenied` when the store refuses who asks, `StoreWentBack` when it is another than it was as the call was made
    (the next `scan` accepts what it finds), and `StoreClosed` on a handle that was closed or crossed a fork.
    """

    async def scan(self, prefix: str) -> Scan:
        """Return all items whose key starts with `prefix` ("" for all), at one revision."""
        ...

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        """Do all puts and deletes at the next revision if every compare holds, else nothing.

        Every key that is written must be compared, a deleted one by `Unchanged`. `LeaseLost` when a put names a lease
        that has ended (nothing is written); `InvalidInput` names the limit when it is too large, and it is never split.
        """
        ...

    def watch(self, prefix: str, *, after: int) -> AsyncGenerator[StoreChange, None]:
        """Yield every change under `prefix` with a revision above `after`, in order, each once, until closed.

        It goes on by itself when the store was away, or refused for a while. A consumer that is cancelled while it
        waits ends it, as any generator, and watches anew from the last revision it took. Raises `Compacted` when the
        history is gone: scan and watch anew.
        The consumer's pace is the pace: nothing is buffered without bound.
        """
        ...

    async def grant(self, *, ttl_seconds: float) -> Lease:
        """Make a lease. `InvalidInput` when the store cannot keep a lease of that time to live.

        A member that waits for others' leases to end must watch: polling by `scan` alone ends none on SQL stores.
        """
        ...

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """Renew many leases in one request; return those that are alive, in effect from the moment of sending."""
        ...

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys, in one commit; one that has ended already is no error."""
        ...

    def capabilities(self) -> Capabilities:
        """Return what this store promises, as it is set up."""
        ...

    async def close(self) -> None:
        """Give back connections and end the watches of this handle. Leases go on to their end. May be called twice."""
        ...
