# Generated from work/admin/cron/facade.py by `python -m generate`; change that file, and generate anew.
"""Admin of schedules as programs use it, without an event loop: questions and acts of an operator, from any process.

    from apportion.sync import cron_admin

    print(cron_admin.schedules("sqlite:///work.db", "reports"))
    cron_admin.pause("sqlite:///work.db", "reports", "report")

Each call opens the store of a URL on the I/O thread, and closes it at the end. All calls raise the errors of
`stores.catalog.connect_tasks`, and `InvalidInput` for an unknown schedule. If no store was made yet, `apply` makes it,
and `plan` without a `url` returns all declared schedules as new. All other calls then raise `InvalidInput`.
The async twin of this file is `work/admin/cron/facade.py`.
"""

from datetime import datetime

from apportion.runtime.io_thread import io_thread
from apportion.stores.schedules.values import SlotMark
from apportion.work.admin.cron import deployments, schedule_acts, schedule_questions
from apportion.work.cron.deployment import ScheduleChange
from apportion.work.cron.forecast import Forecast
from apportion.work.cron.inspection import InspectedSchedule
from apportion.work.queue import TaskQueue


def schedules(url: str, queue: str | None = None) -> tuple[InspectedSchedule, ...]:
    """Return the schedules of a queue, or of all queues, sorted. Each has its trouble, as this process sees it."""
    return io_thread().wait(schedule_questions.schedules(url, queue))


def forecast(url: str, queue: str, name: str, *, after: datetime | None = None, most: int = 5) -> Forecast:
    """Return the next slots of a schedule, in UTC: the stored one, and those that this process computes after it.

    - `after`: a datetime with a zone. The slots after it are returned, without regard to the stored slot.
    - `most`: the number of slots. Default: 5.
    """
    return io_thread().wait(schedule_questions.forecast(url, queue, name, after=after, most=most))


def history(url: str, queue: str, name: str) -> tuple[SlotMark, ...]:
    """Return the last 100 slots of a schedule at most, oldest first, each with its time, its worker and its task."""
    return io_thread().wait(schedule_questions.history(url, queue, name))


def plan(program: TaskQueue, *, url: str | None = None) -> tuple[ScheduleChange, ...]:
    """Return the changes that `apply` would make, sorted by name. Writes nothing.

    If the program declares the name of a schedule that `queue.schedule` made, the change is "keep". `apply` leaves such
    a schedule as it is.

    - `url`: another store to compare with. Default: the store of the program.
    """
    return io_thread().wait(deployments.plan(program, url=url))


def apply(program: TaskQueue) -> tuple[ScheduleChange, ...]:
    """Make the stored schedules equal to those that the queue of a program declares; return the changes.

    The last slots stay, and a new rule fires no slot of the past. Schedules that `queue.schedule` made stay as they
    are.
    """
    return io_thread().wait(deployments.apply(program))


def pause(url: str, queue: str, name: str) -> bool:
    """Stop the firing of a schedule; its open tasks continue. Return False if it was paused before."""
    return io_thread().wait(schedule_acts.pause(url, queue, name))


def resume(url: str, queue: str, name: str) -> bool:
    """Let a schedule fire again, from its next slot on; no slot of the pause fires. False if it was not paused."""
    return io_thread().wait(schedule_acts.resume(url, queue, name))


def run_now(url: str, queue: str, name: str) -> str:
    """Enqueue the task of the slot that is due, or else a task for this moment; return its id.

    Later slots stay as they are. `AlreadyTriggered` if the last fired slot lies in the future.
    """
    return io_thread().wait(schedule_acts.run_now(url, queue, name))


def remove(url: str, queue: str, name: str) -> None:
    """Remove a schedule and its history; its tasks stay.

    A worker that declares the schedule adds it again when the worker starts.
    """
    io_thread().wait(schedule_acts.remove(url, queue, name))
