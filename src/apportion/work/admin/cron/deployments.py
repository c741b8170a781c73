"""Deployments: the schedules that the queue of a program declares, compared with those in a store."""

from apportion.errors import InvalidInput
from apportion.work.admin.inquiry import Inquiry, asked
from apportion.work.cron.deployment import ScheduleChange, compared, deployed
from apportion.work.queue import TaskQueue


async def plan(program: TaskQueue, *, url: str | None) -> tuple[ScheduleChange, ...]:
    """See `facade.plan`."""
    declared = _checked(program).declared_schedules

    async def _plan(inquiry: Inquiry) -> tuple[ScheduleChange, ...]:
        return compared(declared, await inquiry.schedules(program.name))

    try:
        return await asked(program.url if url is None else url, _plan)
    except InvalidInput as error:
        if error.field != "store" or url is not None:
            raise
        return compared(declared, ())  # no store was made yet


async def apply(program: TaskQueue) -> tuple[ScheduleChange, ...]:
    """See `facade.apply`."""
    declared = _checked(program).declared_schedules

    async def _apply(inquiry: Inquiry) -> tuple[ScheduleChange, ...]:
        return await deployed(inquiry.store, inquiry.full(program.name), declared)

    return await asked(program.url, _apply, makes=True)


def _checked(program: TaskQueue) -> TaskQueue:
    if not isinstance(program, TaskQueue):
        raise InvalidInput("program", program, "a queue with its schedules", "Pass the queue of the program.")
    return program
