"""Attempts: the open claims of one worker, and the events of these claims for its observers.

Promises: every claim gets one claimed event and one end event, in whatever order the methods are called. A claim that
the worker only found in the store gets the end event alone. The end event comes after the answer of the store. It is
`AttemptLost` if the session ended before that answer.
Refuses: to decide how a claim ends. The observers are called on the I/O thread. `begin`, `end`, `fail` and `complete`
only write notes, so any thread may call them.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypedDict

from apportion.runtime.attempt_events import (
    AttemptCancelled,
    AttemptClaimed,
    AttemptCrashed,
    AttemptDead,
    AttemptDone,
    AttemptEvent,
    AttemptFailed,
    AttemptLost,
    AttemptObserver,
    AttemptRefused,
    AttemptReleased,
    AttemptStarted,
    tell,
)
from apportion.runtime.clock import Clock
from apportion.stores.task_control import TaskRow
from apportion.stores.task_values import MOST_CRASHES, Claim, Receipt, Settlement
from apportion.work.observers.log import is_log_of_all, log
from apportion.work.observers.statistics import TaskStatistics

_NOT_TOLD = "the session ended before the worker had settled the attempt"


class _Who(TypedDict):
    """The fields that all events of an attempt have."""

    queue: str
    worker: str
    task: str
    name: str
    attempt: int
    at: float


@dataclass(slots=True)
class _UnderWay:
    """An attempt under way. Times are readings of the elapsed clock; None stands for a time that has not come yet."""

    name: str
    claimed_at: float
    waited_seconds: float = 0.0
    crashes: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    error: BaseException | None = None
    is_completed: bool = False

    def run_seconds(self, now: float) -> float | None:
        """Return the duration of the run, up to its end or up to now; None if the run has not begun."""
        if self.started_at is None:
            return None
        return (now if self.ended_at is None else self.ended_at) - self.started_at


class Attempts:
    """The attempts of one worker of one queue.

    The log and the `statistics` get each event first, then the observers of the program. A child process has no
    statistics: its worker counts and logs.
    """

    def __init__(
        self,
        *observers: AttemptObserver,
        statistics: TaskStatistics | None = None,
        queue: str,
        worker: str,
        clock: Clock,
    ) -> None:
        self._statistics, self._observers = statistics, observers
        self._queue, self._worker, self._clock = queue, worker, clock
        self._under_way: dict[Receipt, _UnderWay] = {}
        self._lost: set[Receipt] = set()

    def begin(self, receipt: Receipt) -> bool:
        """Note that the run of a claim begins; from any thread. Return whether it begins for the first time."""
        noted = self._under_way.get(receipt)
        if noted is None:
            return False
        is_first, noted.started_at = noted.started_at is None, self._clock.elapsed()
        return is_first

    def end(self, receipt: Receipt) -> None:
        """Note that the run of a claim has ended; from any thread."""
        if (noted := self._under_way.get(receipt)) is not None:
            noted.ended_at = self._clock.elapsed()

    def fail(self, receipt: Receipt, error: BaseException) -> None:
        """Note the error with which a run failed; from any thread."""
        if (noted := self._under_way.get(receipt)) is not None:
            noted.error = error

    def complete(self, receipt: Receipt) -> None:
        """Note that a run completes its task in a transaction of its own; from any thread."""
        if (noted := self._under_way.get(receipt)) is not None:
            noted.is_completed = True

    def is_completed(self, receipt: Receipt) -> bool:
        """Whether a run has completed its task in a transaction of its own."""
        noted = self._under_way.get(receipt)
        return noted is not None and noted.is_completed

    def claimed(self, claims: Iterable[Claim]) -> None:
        """Note new claims, and report their events."""
        now = self._clock.elapsed()
        for claim in claims:
            waited = claim.waited_ms / 1_000
            self._under_way[claim.receipt] = _UnderWay(claim.name, now, waited, claim.crashes)
            if self._observers or claim.is_retaken:  # the statistics count only retaken claims
                who = self._who(claim.receipt, claim.name, now)
                self._tell(AttemptClaimed(**who, waited_seconds=waited, is_retaken=claim.is_retaken))

    def found(self, row: TaskRow, receipt: Receipt) -> None:
        """Note a claim that is in the store, but was in no reply to this worker. The worker gives it back."""
        if receipt not in self._lost and receipt not in self._under_way:
            self._under_way[receipt] = _UnderWay(row.name, self._clock.elapsed())

    def started(self, receipts: Iterable[Receipt]) -> None:
        """Report the events of runs that have begun."""
        for receipt in receipts:
            noted = self._under_way.get(receipt)
            if noted is not None and noted.started_at is not None:
                waited = noted.waited_seconds + noted.started_at - noted.claimed_at
                if self._statistics is not None:
                    self._statistics.count_start(waited)
                if self._observers:
                    who = self._who(receipt, noted.name, noted.started_at)
                    tell(self._observers, AttemptStarted(**who, waited_seconds=waited))

    def settled(self, settlements: Iterable[Settlement], refused: Collection[Receipt]) -> None:
        """Report the events of ends that the store has answered; the store has `refused` some of them."""
        now, late = self._clock.elapsed(), frozenset(refused)
        counted = None if self._observers or late or is_log_of_all() else self._statistics
        for settlement in settlements:
            noted = self._under_way.pop(settlement.receipt, None)
            if noted is None:
                continue
            if counted is not None and settlement.fate == "done":  # no receiver needs the event, so only count it
                counted.count_done(noted.run_seconds(now))
            else:
                is_late = bool(late) and settlement.receipt in late
                is_refused = is_late and not (settlement.fate == "done" and noted.is_completed)
                who = self._who(settlement.receipt, noted.name, now)
                self._tell(_refused(settlement, noted, who) if is_refused else _end(settlement, noted, who))

    def lose(self, session: int | None = None) -> None:
        """Report lost claims. With None, all claims are lost; else those of a session, if their run has not ended."""
        now = self._clock.elapsed()
        self._lost = {each for each in self._lost if each.session == session}
        for receipt, noted in list(self._under_way.items()):
            if session is None or (receipt.session == session and noted.ended_at is None):
                del self._under_way[receipt]
                self._lost.add(receipt)
                who, took = self._who(receipt, noted.name, now), noted.run_seconds(now)
                self._tell(AttemptLost(**who, run_seconds=took, reason=_NOT_TOLD))

    def _tell(self, event: AttemptEvent) -> None:
        if self._statistics is not None:
            log(event)
            self._statistics.observe(event)
        if self._observers:
            tell(self._observers, event)

    def _who(self, receipt: Receipt, name: str, at: float) -> _Who:
        task, attempt = receipt.task, receipt.attempt
        return {"queue": self._queue, "worker": self._worker, "task": task, "name": name, "attempt": attempt, "at": at}


def _refused(settlement: Settlement, noted: _UnderWay, who: _Who) -> AttemptEvent:
    took = noted.run_seconds(who["at"])
    return AttemptRefused(**who, run_seconds=took, reason=settlement.reason, fate=settlement.fate)


def _end(settlement: Settlement, noted: _UnderWay, who: _Who) -> AttemptEvent:
    """Return the event of an end that took effect."""
    took, reason, again = noted.run_seconds(who["at"]), settlement.reason, settlement.delay_ms / 1_000
    match settlement.fate:
        case "done":
            return AttemptDone(**who, run_seconds=took)
        case "retry":
            return AttemptFailed(**who, run_seconds=took, reason=reason, error=noted.error, retry_seconds=again)
        case "released":
            return AttemptReleased(**who, run_seconds=took, reason=reason, retry_seconds=again)
        case "cancelled":
            return AttemptCancelled(**who, run_seconds=took, reason=reason)
        case "crashed" if noted.crashes + 1 < MOST_CRASHES:
            return AttemptCrashed(**who, run_seconds=took, reason=reason)
    return AttemptDead(**who, run_seconds=took, reason=reason, error=noted.error)
