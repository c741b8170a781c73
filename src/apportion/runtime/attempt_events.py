"""Attempt events: the life of each attempt of a task, from its claim to its end, for logs, metrics and observers.

Promises: each observer gets the events of a worker in order, one at a time. Every claimed attempt has exactly one end:
done, failed, dead, released, crashed, cancelled, refused or lost. The worker tells an end after the store has answered.
An observer that raises costs one log line per event and nothing else.
Refuses: to wait. An observer is called on the I/O thread, between two renewals of the lease. An observer must not
block: hand long work to a queue or a thread of your own, as docs/tasks/events.md shows.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields

from apportion.errors.brief import brief
from apportion.runtime.events import Spared

logger: logging.Logger = logging.getLogger("apportion.work")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent:
    """An event of an attempt of a task; `at` is a time of the worker's elapsed clock, in seconds."""

    queue: str
    worker: str
    task: str
    name: str
    attempt: int
    at: float

    def as_dict(self) -> dict[str, object]:
        """Return the name of the event and its fields, as values that JSON can have."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: str(value) if isinstance(value, BaseException) else value for name, value in said.items()}
        return {"event": type(self).__name__} | plain


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptClaimed(AttemptEvent):
    """This worker has claimed the task. `is_retaken`: an earlier session had claimed the task and has ended.

    `waited_seconds` is the time since the task was ready, on the clock of the store.
    """

    waited_seconds: float
    is_retaken: bool


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(AttemptEvent):
    """The run of the task begins. `waited_seconds` is the time since the task was ready."""

    waited_seconds: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(AttemptEvent):
    """The attempt is over; the kind of the event says how. `run_seconds` is None for a run that did not begin."""

    run_seconds: float | None
    reason: str = ""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDone(AttemptEnded):
    """The task is done."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(AttemptEnded):
    """The run has failed, and the task waits for `retry_seconds`. `error` is None if another process ran the task."""

    error: BaseException | None
    retry_seconds: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDead(AttemptEnded):
    """The task is dead: its last run has failed, or its child processes died. `error` is as in `AttemptFailed`."""

    error: BaseException | None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReleased(AttemptEnded):
    """The worker has given the task back, and the attempt is not counted. The task waits for `retry_seconds`."""

    retry_seconds: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCrashed(AttemptEnded):
    """The child process that ran the task has ended without an answer; the task is ready again."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCancelled(AttemptEnded):
    """The task was cancelled on request, and its run has ended."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRefused(AttemptEnded):
    """The store has refused the end of the attempt, because the claim was no longer open.

    `fate` names the refused end.
    """

    fate: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost(AttemptEnded):
    """This worker lost its session before the store had the end of the run.

    The run is cancelled. Another worker, or a later session of this one, runs the task again.
    """


AttemptObserver = Callable[[AttemptEvent], None]


def tell(observers: tuple[AttemptObserver, ...], event: AttemptEvent) -> None:
    """Tell an event to observers, in order."""
    for observer in observers:
        with Spared(logger, event.queue, observer, event):
            observer(event)
