"""Facts: what happened in and around a store, in the order of true time; what the invariants are held against.

A simulated world writes them at every transition. A test of real processes can write the same into a log of its own,
kept outside of what it tests: no fact needs more than a caller and a watcher of the store can know.
"""

from dataclasses import dataclass

from apportion.stores import Compare, Event, Item, Outcome, Put


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that happened at a true time, in seconds."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Began(Fact):
    """A life of the store began, with these items: the first, or one after a crash or a restore."""

    incarnation: int
    revision: int
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Fact):
    """The store went to a revision: what each key became, None for deleted."""

    incarnation: int
    revision: int
    items: tuple[tuple[str, Item | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Fact):
    """A process sent a commit. `incarnation` is the one it believes in."""

    call: int
    process: str
    incarnation: int
    when: tuple[Compare, ...]
    puts: tuple[Put, ...]
    deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Fact):
    """A commit came to its outcome at the caller; None when it raised, which says that nothing was changed."""

    call: int
    outcome: Outcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Fact):
    """The store made a lease, at the latest at this time, for a process; "" when that is dead, or was never noted."""

    incarnation: int
    lease: int
    ttl_seconds: float
    process: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed(Fact):
    """The store was asked at `since` to renew leases, and had done so for those in `alive` at this time."""

    since: float
    incarnation: int
    asked: frozenset[int]
    alive: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked(Fact):
    """A process sent the end of a lease: from now on it may end; or it was `done`: from now on it has."""

    incarnation: int
    lease: int
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned(Fact):
    """The store answered a scan that was sent at `since`; `stale` when a fault gave an older answer on purpose."""

    since: float
    process: str
    prefix: str
    items: tuple[Item, ...]
    revision: int
    incarnation: int
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching(Fact):
    """A watch began after a revision."""

    watch: int
    process: str
    prefix: str
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Fact):
    """A watch gave its consumer a change."""

    watch: int
    revision: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing(Fact):
    """A process sends a write to a guarded sink."""

    process: str
    resource: str
    holder: str
    incarnation: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote(Fact):
    """A guarded sink accepted a write to a resource."""

    resource: str
    holder: str
    incarnation: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered(Fact):
    """A process began to work on a resource that it has held since `since` of its own clock, under a token."""

    hold: int
    process: str
    resource: str
    holder: str
    incarnation: int
    epoch: int
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Fact):
    """The work that a process began has ended."""

    hold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Died(Fact):
    """A process was killed: nothing of it runs any more. A process of the same name is another one."""

    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Fact):
    """An error left the program of a process, or one of its callbacks, and ended it."""

    process: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed(Fact):
    """A lease with keys ended, though its process lives on and had not given it back."""

    process: str
    incarnation: int
    lease: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm(Fact):
    """No more faults from now on: what was to come to rest must do so within its bounds."""
