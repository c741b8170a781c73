"""Holdings: the partitions that this process may work on right now, for any thread.

Promises: every access checks the session's deadline on this process's own clock. A process that was paused or cut off
therefore stops by itself before another may start. A forked child owns nothing. A partition is quiet when no hold on it
is open and the consumer of changes has asked for the next change. A lost partition is therefore given away after the
work on it has ended.
Refuses: to wait, and to take a lock. A finalizer may end or begin a hold, and can interrupt any code, also a method of
this file. So each change sets one attribute, or changes one entry of a dict. A hold is counted before its partition is
checked; a partition is withdrawn before its holds are checked. The driver fills the holdings on the I/O thread; any
thread reads them.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass, field

from apportion.errors import InvalidInput, NotOwner
from apportion.errors.brief import brief
from apportion.groups.open_holds import Hold, Holds
from apportion.guards import checked
from apportion.model.epoch import FencingToken
from apportion.runtime.clock import Clock
from apportion.runtime.handle import Handle
from apportion.runtime.simulated import WorkObserver


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A partition that is ours: the token to show at each write, and its start on this machine's elapsed clock."""

    token: FencingToken
    since: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """The partitions that this member gained and lost since the change before, sorted."""

    gained: tuple[int, ...]
    lost: tuple[int, ...]


_NOTHING: Mapping[int, Holding] = {}


@dataclass(slots=True)
class _Tellings:
    """Partitions reported to the consumer of changes: those in `has` as its own, those in `heard` as lost.

    The work on a partition in `heard` may not have ended; a partition in `lapsed` may come back. `claims` lists the
    callers that want to consume; the first one is the consumer.
    """

    claims: list[object] = field(default_factory=list)
    has: Mapping[int, Holding] = field(default_factory=dict)
    heard: Set[int] = frozenset()
    lapsed: Set[int] = frozenset()
    lapses: int = 0
    even: Mapping[int, Holding] | None = None

    def waits_for(self, partition: int) -> bool:
        """Whether the consumer may still work on a partition. A lost partition is in `heard` before it leaves `has`."""
        return bool(self.claims) and (partition in self.has or partition in self.heard)


class _Owned(Mapping[int, Holding]):
    """A mapping that other threads change. Each call answers for one moment, and `items` and `values` return copies."""

    @abstractmethod
    def _now(self) -> Mapping[int, Holding]:
        """Return the present holdings, in a mapping that never changes."""

    def __getitem__(self, partition: int) -> Holding:
        return self._now()[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._now()))

    def __len__(self) -> int:
        return len(self._now())

    def items(self) -> ItemsView[int, Holding]:
        """Return the present pairs, in the order of the partitions."""
        return dict(sorted(self._now().items())).items()

    def values(self) -> ValuesView[Holding]:
        """Return the present holdings, in the order of their partitions."""
        return dict(self.items()).values()


class Holdings(Handle, _Owned):
    """The partitions that are ours now. Empty once the deadline has passed.

    `unguarded` are the partitions on which work has ended although no guard had seen their token. `first_unguarded` is
    called with the first of them, at once, because a process that is killed tells nothing at its end.
    """

    deadline: float

    def __init__(self, clock: Clock, *, quiet: Callable[[frozenset[int]], None], told: Callable[[], None]) -> None:
        self.deadline = float("-inf")
        self._clock, self._quiet, self._told = clock, quiet, told
        self._process = os.getpid()
        self._held: Mapping[int, Holding] = {}
        self._holds = Holds()
        self._tellings, self._lapses = _Tellings(), 0
        self.unguarded: set[int] = set()
        self.first_unguarded: Callable[[int], None] | None = None
        self.observer: WorkObserver | None = None

    @property
    def is_current(self) -> bool:
        """Whether the session's deadline lies ahead. Never in a forked child, because the child learns of no loss."""
        return self._clock.elapsed() < self.deadline and self._process == os.getpid()

    @property
    def seconds_left(self) -> float:
        """Seconds until the session's deadline."""
        return self.deadline - self._clock.elapsed()

    def moment(self) -> Mapping[int, Holding]:
        """Return the present holdings as an immutable mapping. It is the same object until the holdings change."""
        return self._held if self.is_current else _NOTHING

    _now = moment

    def confirm(self, deadline: float) -> None:
        """Set the deadline. If the earlier one has passed, the consumer of changes first hears that all was lost."""
        has_lapsed = not self.is_current
        self.deadline = deadline
        if has_lapsed:
            self._lapses += 1
            self._told()

    def grant(self, tokens: Mapping[int, FencingToken]) -> None:
        """Add partitions that are ours from now on. O(partitions held)."""
        since = self._clock.elapsed()
        new = {partition: Holding(token=token, since=since) for partition, token in tokens.items()}
        self._held = {**self._held, **new}
        self._told()

    def withdraw(self, partitions: Collection[int]) -> None:
        """Let no more work begin on some partitions; `quiet` is called with those on which all work has ended."""
        self._held = {each: held for each, held in self._held.items() if each not in partitions}
        self._told()
        self._settle(partitions)

    def cancel(self, partition: int | None = None) -> None:
        """Cancel the open holds on a partition, or all open holds."""
        for hold in self._holds:
            if partition in (None, hold.partition):
                hold.cancel()

    def oldest(self) -> tuple[float, int] | None:
        """Return the start and the partition of the hold that has worked longest; None when no hold is open."""
        return min(((hold.since, hold.partition) for hold in self._holds), default=None)

    def enter(self, partition: int, cancel: Callable[[], None] | None = None) -> tuple[FencingToken, Hold]:
        """Begin a hold, which `leave` ends; return it with the token. `NotOwner` when the partition is not ours now."""
        if self._process != os.getpid():
            raise NotOwner(partition, "it belongs to the parent of this forked process")
        held = _owned(self._held, partition, is_current=self.is_current)
        hold = Hold(
            partition=partition,
            resource=held.token.resource,
            cancel=cancel or _nothing,
            clock=self._clock,
            since=self._clock.elapsed(),
        )
        self._holds.begin(hold)
        # The hold is counted first; then the partition is checked again. So a withdrawal in between either waits for
        # this hold, or is noticed here.
        is_kept = False
        try:
            is_kept = _owned(self._held, partition, is_current=self.is_current) is held
        finally:
            if not is_kept:
                self._holds.end(hold)
                self._settle([partition])
        if not is_kept:
            raise NotOwner(partition, "it was given away and taken again a moment ago")
        if self.observer is not None:
            self.observer.entered(hold, held.token, held.since)
        return held.token, hold

    def leave(self, hold: Hold) -> None:
        """End a hold."""
        if self._process != os.getpid():
            return
        if self.observer is not None:
            self.observer.left(hold)
        is_first = not self.unguarded
        if not checked(hold.resource):
            self.unguarded.add(hold.partition)
        if is_first and self.unguarded and self.first_unguarded is not None:
            self.first_unguarded(hold.partition)
        self._holds.end(hold)
        self._settle([hold.partition])
        if hold.partition in self._tellings.lapsed:
            self._told()

    def consume(self) -> None:
        """Begin to consume changes; `InvalidInput` for a second consumer."""
        claims, claim = self._tellings.claims, object()
        claims.append(claim)
        if claims[0] is not claim:
            claims.remove(claim)
            hint = "Let one task consume the changes and pass them on."
            raise InvalidInput("consumer of changes()", "a second one", "one per group", hint)

    def next_change(self) -> GroupChange | None:
        """Return the next change; None if there is none. The call confirms that the work on earlier changes is done.

        While the store has not confirmed our session in time, no partition is ours. After the confirmation, a partition
        that was ours is told as gained again, once the earlier work on that partition has ended. O(1) if nothing has
        changed, else O(partitions held).
        """
        if self._process != os.getpid():
            return None
        tellings, change = self._tellings, None
        done, tellings.heard = tellings.heard, frozenset()
        if not tellings.has:
            tellings.lapses = self._lapses
        there = self._held if self.is_current and tellings.lapses == self._lapses else _NOTHING
        if there is not tellings.even:
            gained = {each for each, held in there.items() if tellings.has.get(each) is not held}
            lost = [each for each, held in tellings.has.items() if there.get(each) is not held]
            tellings.even = None if gained or lost else there
            gained.difference_update(each for each in tellings.lapsed if self._holds.on(each))
            change = GroupChange(gained=tuple(sorted(gained)), lost=tuple(sorted(lost))) if gained or lost else None
        self._settle(done)
        return change

    def tell(self, change: GroupChange) -> bool:
        """Note that the consumer has received a change. Return False if no part of the change is still true."""
        tellings, held = self._tellings, self._held
        lost = tellings.has.keys() & change.lost
        gained = {each: held[each] for each in change.gained if each in held}
        tellings.heard = tellings.heard | lost
        tellings.lapsed = (tellings.lapsed | (lost & held.keys())) - gained.keys()
        tellings.has = {each: has for each, has in tellings.has.items() if each not in lost} | gained
        # The change is noted first, then checked again, as in `enter`.
        gone = {each for each, has in gained.items() if self._held.get(each) is not has}
        if gone:
            tellings.has = {each: has for each, has in tellings.has.items() if each not in gone}
            self._settle(gone)
        return len(gained) > len(gone) or bool(lost)

    def abandon(self) -> None:
        """Stop consuming changes. The work on all delivered changes counts as done."""
        if self._process != os.getpid():
            return
        tellings, self._tellings = self._tellings, _Tellings()
        self._settle(tellings.heard | tellings.has.keys())

    @property
    def all_quiet(self) -> bool:
        """Whether no partition is held, and all work that was begun has ended."""
        tellings = self._tellings
        return not (self._held or self._holds or (tellings.claims and (tellings.has or tellings.heard)))

    def is_quiet(self, partition: int) -> bool:
        """Whether a partition is not ours, and all work on it has ended. A quiet partition stays quiet until a grant.

        The order of the checks matters: once a partition is not held, no more work begins on it.
        """
        return partition not in self._held and not self._holds.on(partition) and not self._tellings.waits_for(partition)

    def _settle(self, partitions: Iterable[int]) -> None:
        quiet = frozenset(filter(self.is_quiet, partitions))
        if quiet:
            self._quiet(quiet)


def _owned(held: Mapping[int, Holding], partition: int, *, is_current: bool) -> Holding:
    if partition not in held:
        raise NotOwner(partition, "another member owns it, or nobody does")
    if not is_current:
        raise NotOwner(partition, "the store has not confirmed our session in time")
    return held[partition]


def _nothing() -> None:
    """Do nothing for a hold that cannot be cancelled: its thread goes on, and only a guard protects against it."""
