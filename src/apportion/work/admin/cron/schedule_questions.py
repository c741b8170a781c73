"""Questions of an operator about schedules. None of them changes anything."""

from datetime import UTC, datetime, timedelta

from apportion.stores.schedules.values import SlotMark
from apportion.work.admin.arguments import checked_queue
from apportion.work.admin.inquiry import Inquiry, asked
from apportion.work.cron.acts import existing
from apportion.work.cron.due_slots import stored_rule
from apportion.work.cron.forecast import Forecast
from apportion.work.cron.forecast import forecast as rule_forecast
from apportion.work.cron.inspection import InspectedSchedule, inspected
from apportion.work.cron.zone_data import zone_data_version

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def schedules(url: str, queue: str | None) -> tuple[InspectedSchedule, ...]:
    """See `facade.schedules`."""
    if queue is not None:
        checked_queue(queue)

    async def _schedules(inquiry: Inquiry) -> tuple[InspectedSchedule, ...]:
        now, tzdata = await inquiry.now_ms(), zone_data_version()
        return tuple(inspected(each, now=now, tzdata=tzdata) for each in await inquiry.schedules(queue))

    return await asked(url, _schedules)


async def forecast(url: str, queue: str, name: str, *, after: datetime | None, most: int) -> Forecast:
    """See `facade.forecast`."""
    checked_queue(queue)

    async def _forecast(inquiry: Inquiry) -> Forecast:
        stored = await existing(inquiry.store, inquiry.full(queue), name)
        rule = stored_rule(stored)
        if after is not None:
            return rule_forecast(rule, after=after, most=most)
        first = _EPOCH + timedelta(milliseconds=stored.next_slot)
        return rule_forecast(rule, after=first - timedelta(milliseconds=1), most=most, stored=first)

    return await asked(url, _forecast)


async def history(url: str, queue: str, name: str) -> tuple[SlotMark, ...]:
    """See `facade.history`."""
    checked_queue(queue)

    async def _history(inquiry: Inquiry) -> tuple[SlotMark, ...]:
        stored = await existing(inquiry.store, inquiry.full(queue), name)
        return await inquiry.marks(stored)

    return await asked(url, _history)
