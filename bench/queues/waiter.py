"""`python -m bench.queues.waiter KIND URL`: an idle worker in a process of its own; it says how late each task starts.

KIND is `ours`, or `by-hand` for a LISTEN in PostgreSQL whose hints lead to a claim. The argument of a task is the time
of its enqueue, in nanoseconds of the clock that all processes of a machine share. A line of output is `ready`, or a
number of microseconds.
"""

import asyncio
import json
import sys
from time import monotonic_ns

import psycopg

from bench.queues import postgres_by_hand as by_hand
from bench.queues.ours import OurQueue


class _Numbers(list[int]):
    """Says how late a task has started, when its argument is appended."""

    def append(self, number: int) -> None:
        print((monotonic_ns() - number) // 1_000, flush=True)


async def ours(url: str) -> None:
    """Work with our queue."""
    waiting = OurQueue(url, tasks=0)
    waiting.handled = _Numbers()
    queue, _ = waiting.opened()
    async with queue.worker():
        print("ready", flush=True)
        await asyncio.Event().wait()


async def hand(dsn: str) -> None:
    """Work by hand."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("LISTEN by_hand")
        print("ready", flush=True)
        numbers = _Numbers()
        while True:
            async for _ in connection.notifies(stop_after=1):
                pass
            claimed = await connection.execute(by_hand.CLAIM, (0, 1, by_hand.SESSION), binary=True)
            for _, task, attempt, _, arguments in await claimed.fetchall():
                numbers.append(*json.loads(arguments))
                await connection.execute(by_hand.DONE, ([task], [attempt], by_hand.SESSION))


if __name__ == "__main__":
    asyncio.run({"ours": ours, "by-hand": hand}[sys.argv[1]](sys.argv[2]))
