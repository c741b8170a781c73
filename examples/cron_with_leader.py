"""A leader triggers the slots of a schedule and records each; after a lost record, no slot is triggered again."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from apportion import cron_slots, current_task, errors
from apportion.sync import Queue, leader


def lead(queue: Queue, slots: Iterable[datetime], record: Callable[[datetime], object]) -> None:
    """Trigger the slots that are not recorded yet, while this process leads. A real leader waits for each slot."""
    with leader(queue.url, "cron", lease_ttl=timedelta(seconds=2)) as election:
        election.wait_until_elected()
        for slot in slots:
            if not election.is_leader:
                return
            with suppress(errors.AlreadyTriggered):  # by a leader that ended before its record
                queue.trigger("report", slot)
            record(slot)


if __name__ == "__main__":
    queue = Queue("sqlite:///cron.db", "reports")

    @queue.task()
    async def report() -> None:
        print("report of", current_task().slot.date())

    queue.schedule("report", report.call(), cron="0 9 * * *")
    slots = cron_slots("0 9 * * *", after=datetime(2036, 1, 1, tzinfo=UTC))
    first, second = next(slots), next(slots)
    lead(queue, [first], lambda _: None)  # its record is lost,
    lead(queue, [first, second], lambda _: None)  # so the next leader begins anew
    print(queue.drain())

# Prints:
# report of 2036-01-01
# report of 2036-01-02
# Drained(done=2, failed=0, dead=0)
