"""Statistics: a member's counts of its events since it began, and its present view of the group; for metrics."""

from dataclasses import dataclass, field

from apportion.errors.brief import brief
from apportion.groups.crash_loops import next_try
from apportion.groups.settled import is_settled
from apportion.groups.view.view import View
from apportion.runtime.events import Gained, GaveUp, GroupEvent, HandedOver, Lost, SessionBegan, TookOver


@brief
@dataclass(slots=True)
class Durations:
    """A number of events, and their total length in seconds."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one more event."""
        self.count += 1
        self.seconds += seconds


@brief
@dataclass(slots=True)
class Statistics:
    """Counts of one member.

    A hand-over lasts from the loss of a partition to the commit that gives it away. A partition is an orphan from the
    end of its owner's session, as we saw it, to the commit that makes it ours. `given_up` counts the sessions that this
    process ended, because some work could not be stopped otherwise. `stuck` names the work that ended the last of them,
    and the reason.
    """

    gained: int = 0
    lost: int = 0
    sessions: int = 0
    given_up: int = 0
    stuck: str = ""
    handovers: Durations = field(default_factory=Durations)
    orphans: Durations = field(default_factory=Durations)
    _owned: set[int] = field(default_factory=set)
    _lost_at: dict[int, float] = field(default_factory=dict)

    def observe(self, event: GroupEvent) -> None:
        """Count an event."""
        match event:
            case SessionBegan():
                self.sessions += 1
            case Gained(partition=partition):
                self.gained += 1
                self._owned.add(partition)
            # If the session ends before the work, a planned loss is reported a second time, now as an immediate one.
            case Lost(partition=partition) if partition in self._owned:
                self.lost += 1
                self._owned.remove(partition)
                self._lost_at[partition] = event.at
            case HandedOver(partition=partition) if partition in self._lost_at:
                self.handovers.add(event.at - self._lost_at.pop(partition))
            case TookOver(orphan_seconds=seconds):
                self.orphans.add(seconds)
            case GaveUp(why=why):
                self.given_up += 1
                self.stuck = why


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A member's view of its group; drifting partitions do not belong to the owner that the target names.

    Crash-looping partitions have no owner because of deaths: their next owner waits. Quarantined partitions wait for
    `apportion group release`.
    """

    members: int
    owned: int
    generation: int
    drifting: int
    orphaned: int
    crash_looping: int
    quarantined: int
    is_controller: bool


def sight(view: View, *, owned: int, is_controller: bool, now: float) -> GroupSummary:
    """Return a member's present view of its group. O(partitions)."""
    target = view.target
    wanted = (None,) * view.partitions if target is None or target.is_paused else target.owners
    records = [view.owned(partition).ownership for partition in range(view.partitions)]
    waits = [next_try(view, partition) for partition, record in enumerate(records) if record.ended]
    return GroupSummary(
        members=len(view.members),
        owned=owned,
        generation=0 if target is None else target.generation,
        drifting=sum(not is_settled(view, *each) for each in enumerate(wanted)),
        orphaned=sum(not view.is_live(record) for record in records),
        crash_looping=sum(now < until < float("inf") for until in waits),
        quarantined=sum(until == float("inf") for until in waits),
        is_controller=is_controller,
    )
