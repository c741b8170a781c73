"""A node that runs the schedules of a store, in a process of its own: python -m bench.queues.timetable URL.

Its queue is paused, so that the tasks of all firings stay. It prints a line once it is ready, and ends with its input.
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import apportion
from apportion.work.call import Call

NAME, TTL = "timetable", timedelta(seconds=10)
CALL = Call(name="note", arguments=b"{}")
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def queue_at(url: str) -> apportion.Queue:
    """Return the queue at a URL."""
    return apportion.Queue(url, NAME, lease_ttl=TTL)


async def main(url: str) -> None:
    """Fire schedules until the input ends."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    async with queue_at(url).worker(concurrency=1):
        print("ready", flush=True)
        loop.add_reader(sys.stdin.fileno(), over.set)
        await over.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
