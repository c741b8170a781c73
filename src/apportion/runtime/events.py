"""Events: one stream of the events of a member of a group, for its log, its statistics and the user's observer.

Promises: each observer gets the events in order, one at a time. An observer that raises costs one log line per event
and nothing else.
Refuses: to wait. An observer is called on the I/O thread, between two renewals of the lease. An observer must not
block: hand long work to a queue or a thread of your own, as docs/groups/events.md shows.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.runtime.clock import Clock
from apportion.runtime.handler_calls import is_async, require_parameters
from apportion.runtime.log_report import report

logger: logging.Logger = logging.getLogger("apportion.group")
Heard = TypeVar("Heard", bound=Callable[[Any], None])


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """An event of a member of a group; `at` is a time of the member's elapsed clock, in seconds."""

    group: str = ""
    member_id: str = ""
    at: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """Return the name of the event and its fields, as values that JSON can have."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: str(value) if isinstance(value, BaseException) else value for name, value in said.items()}
        return {"event": type(self).__name__} | plain


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBegan(GroupEvent):
    """The process has a lease for the group; it may have to wait before it joins."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(GroupEvent):
    """The other members can see the member now; `session` is the revision of its record."""

    session: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Gained(GroupEvent):
    """A partition is ours under an epoch; `why` says how it became ours."""

    partition: int
    epoch: int
    why: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(GroupEvent):
    """We lose a partition: at once if `is_at_once`, else as soon as its work has ended.

    If the session ends before the work, a second event reports the same loss with `is_at_once`. Then another member may
    already be the owner.
    """

    partition: int
    why: str
    is_at_once: bool


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver(GroupEvent):
    """The work on a lost partition has ended, and we have given the partition to `receiver` (None: to nobody)."""

    partition: int
    receiver: str | None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TookOver(GroupEvent):
    """We have taken a partition from an owner without a live session. It had no owner for `orphan_seconds`."""

    partition: int
    owner: str
    orphan_seconds: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed(GroupEvent):
    """We delay taking a partition, because `deaths` owners died in a row.

    If `seconds` is None, the delay ends with a release.
    """

    partition: int
    deaths: int
    seconds: float | None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAgain(GroupEvent):
    """The store denied a request or did not answer, and we repeat the request. The same reason is told once."""

    why: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged(GroupEvent):
    """A record of the group is damaged. The member goes on with all other records."""

    key: str
    problem: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten(GroupEvent):
    """The record of the group was damaged, and we have written a new one; `found` is the beginning of the old bytes."""

    key: str
    found: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreed(GroupEvent):
    """The settings of the group have changed since we agreed to them; this process waits for the former settings."""

    why: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Unplanned(GroupEvent):
    """We are the controller, and the balancer refuses to choose owners. The target does not change."""

    why: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Unpublished(GroupEvent):
    """We are the controller and cannot publish the table of the owners; we try again every `seconds`."""

    why: str
    seconds: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailed(GroupEvent):
    """A handler of a partition raised an error, or did not end in time (None).

    The handler is called again after `seconds`. If `seconds` is None, it is not called again.
    """

    partition: int
    error: BaseException | None
    seconds: float | None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Unguarded(GroupEvent):
    """Work on partitions ended, and no guard saw their tokens.

    One event names the first of these partitions. An event at the end of the member names all of them.
    """

    partitions: tuple[int, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp(GroupEvent):
    """We end our session, because some work does not end or makes no progress."""

    why: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded(GroupEvent):
    """Our session is over, or could not begin because of an error. Another session begins unless `is_final`."""

    error: BaseException | None
    is_final: bool


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Departed(GroupEvent):
    """The member has left the group, and no further session begins."""


class Observer(Protocol):
    """The receiver of the events of a member: any function with one parameter, the event."""

    def __call__(self, event: GroupEvent, /) -> None:
        """Take one event, on the I/O thread, without blocking it."""


class EventStream:
    """The events of one member, for all its observers."""

    def __init__(self, *observers: Observer, group: str, member_id: str, clock: Clock) -> None:
        self._observers, self._clock = observers, clock
        self._group, self._member_id = group, member_id

    def tell(self, event: GroupEvent) -> None:
        """Tell all observers an event of this member, at this moment."""
        event = replace(event, group=self._group, member_id=self._member_id, at=self._clock.elapsed())
        for observer in self._observers:
            with Spared(logger, self._group, observer, event):
                observer(event)


class Spared:
    """A block that logs any error inside the block, even SystemExit, and does not raise it. Only Ctrl-C is raised."""

    def __init__(self, log: logging.Logger, who: str, observer: object, event: object) -> None:
        self._log, self._who, self._observer, self._event = log, who, observer, event

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> bool:
        if error is None or isinstance(error, KeyboardInterrupt):
            return False
        name = type(self._event).__name__
        words = "%s: observer %r failed on %s"
        report(self._log, logging.ERROR, words, self._who, self._observer, name, error=error)
        return True


def checked_observer(observer: Heard | None, call: str = "open_group(…") -> Heard | None:
    """Return an observer, or None; `InvalidInput` for an object that cannot be called with one event.

    `call` is the beginning of the call that takes the observer; the hint of the error shows it.
    """
    if observer is None:
        return None
    hint = f"Write {call}, observer=log) with: def log(event): ..."
    if not callable(observer) or is_async(observer):
        raise InvalidInput("observer", observer, "a plain function of one event, or None", hint)
    require_parameters("observer", observer, 1, "one event", hint)
    return observer
