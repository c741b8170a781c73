"""Options of the commands of tasks: states, limits, and the tasks that an act is for."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from apportion.errors import InvalidInput, UnknownOption
from apportion.stores.task_control import QueueStats
from apportion.stores.task_values import TaskState
from apportion.work.admin.arguments import STATES

QueueName = Annotated[str, Parameter(name="QUEUE", help="Name of the queue.")]
TaskId = Annotated[str, Parameter(name="ID", help="Id of a task, or its first four or more digits.")]
GroupUrl = Annotated[
    str | None, Parameter(help="URL of the store of the workers' group, if the queue has its group in another store.")
]
_SECONDS = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3_600, "hour": 3_600}
_RATE = re.compile(r"(?P<count>[1-9][0-9]{0,8})/(?P<times>[1-9][0-9]{0,4})?(?P<unit>[a-z]+)")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Tasks that are chosen by their queue in place of their ids."""

    queue: Annotated[str | None, Parameter(help="All tasks of this queue, in place of ids.")] = None
    state: Annotated[str | None, Parameter(help="With --queue: only tasks in these states, separated by commas.")] = (
        None
    )
    name: Annotated[str | None, Parameter(help="With --queue: only tasks of this task function.")] = None

    def ids_or_queue(self, ids: tuple[str, ...]) -> str | None:
        """Return the queue, None where tasks are named by id; `InvalidInput` for both, or neither."""
        if self.queue is not None and ids:
            raise InvalidInput("--queue", self.queue, "no ids beside it", "Name ids, or a queue.")
        if self.queue is None and (self.state or self.name):
            field, value = ("--state", self.state) if self.state else ("--name", self.name)
            raise InvalidInput(field, value, "--queue beside it", "Write --queue NAME, or ids alone.")
        if self.queue is None:
            named(ids)
        return self.queue


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a queue; None: no limit."""

    running: int | None
    rate: int | None
    per: timedelta

    @classmethod
    def of(cls, stats: QueueStats) -> "Limits":
        """Return the limits that a queue has now."""
        return cls(running=stats.open_claims, rate=stats.rate, per=timedelta(milliseconds=stats.per_ms))

    def __str__(self) -> str:
        parts = []
        if self.running is not None:
            parts.append(f"runs at most {self.running} at a time")
        if self.rate is not None:
            parts.append(f"starts at most {self.rate} per {self.per.total_seconds():g} s")
        return " and ".join(parts) or "has no limit"


def named(ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return ids of tasks, at least one."""
    if not ids:
        raise InvalidInput("ID", None, "the id of a task", "List them with: apportion tasks ls URL QUEUE")
    return ids


def parsed_states(text: str) -> tuple[TaskState, ...]:
    """Return the states of a list with commas; `UnknownOption` for any other word."""
    words = text.split(",")
    for each in words:
        if each not in STATES:
            raise UnknownOption("--state", each, STATES)
    return tuple(each for each in STATES if each in words)


def parsed_limits(running: int | None, rate: str | None, *, off: bool) -> Limits:
    """Return the limits of the options; `InvalidInput` where they name none, or one that no queue can have."""
    if off == (running is not None or rate is not None):
        hint = "Write for example --running 5 --rate 100/min, or --off to take both away."
        raise InvalidInput("--off" if off else "--running", off or None, "--running, --rate, or --off alone", hint)
    if running is not None and running < 1:
        raise InvalidInput("--running", running, "a whole number, at least 1", "To stop a queue: apportion tasks pause")
    found = None if rate is None else _RATE.fullmatch(rate)
    seconds = 60 if rate is None else _SECONDS.get(found["unit"], 0) * int(found["times"] or 1) if found else 0
    if not seconds:
        raise InvalidInput("--rate", rate, "starts per time, such as 100/min", "Units are s, min and h: 5/10s, 9/h")
    return Limits(running=running, rate=int(found["count"]) if found else None, per=timedelta(seconds=seconds))
