"""Nodes in processes of their own, which stop themselves between two steps, as a machine does that sleeps.

    python -m tests.live.cron_leader lead URL RECORD COUNT [STOP_AT]
    python -m tests.live.cron_leader fire URL STOPS

`lead` runs the example with a record in a file: from the recorded slot on, COUNT slots in all. It stops itself after
the trigger of slot STOP_AT, before its record. `fire` is a node that fires schedules; STOPS is yes or no.
"""

import asyncio
import os
import runpy
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apportion import cron_slots
from apportion.stores.catalog import connect_tasks, parsed_url
from apportion.sync import Queue
from apportion.work.cron import scheduler
from apportion.work.cron.scheduler import ScheduledHere, Scheduler

EXAMPLE = Path(__file__).parents[2] / "examples" / "cron_with_leader.py"
RULE, BEGIN, TTL = "0 9 * * *", datetime(2036, 1, 1, tzinfo=UTC), timedelta(seconds=2)


def slots(count):
    """Return the first slots of the year."""
    found = cron_slots(RULE, after=BEGIN)
    return [next(found) for _ in range(count)]


def lead(url, record, count, stop_at=""):
    """Lead from the recorded slot on."""
    file = Path(record)
    done = int(file.read_text())

    def _record(slot):
        place = slots(int(count)).index(slot)
        print("triggered", place, flush=True)
        if str(place) == stop_at:
            os.kill(os.getpid(), signal.SIGSTOP)
        file.write_text(str(place + 1))

    queue = Queue(url, "reports", lease_ttl=TTL)
    runpy.run_path(str(EXAMPLE))["lead"](queue, slots(int(count))[done:], _record)
    queue.close()


def fire(url, stops):
    """Fire the schedules of a queue; a node that `stops` does so within its first decision."""
    decide = scheduler.decide

    def _stopped(due, **options):
        scheduler.decide = decide
        os.kill(os.getpid(), signal.SIGSTOP)
        return decide(due, **options)

    if stops == "yes":
        scheduler.decide = _stopped

    async def _fire():
        tasks = await connect_tasks(url)
        Scheduler(tasks, [f"{parsed_url(url).namespace}/reports"], ScheduledHere(declared=()), by=f"pid {os.getpid()}")
        print("ready", flush=True)
        await asyncio.Event().wait()

    asyncio.run(_fire())


if __name__ == "__main__":
    {"lead": lead, "fire": fire}[sys.argv[1]](*sys.argv[2:])
