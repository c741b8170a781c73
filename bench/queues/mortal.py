"""A queue with tasks that say when they begin and end, by a clock that all processes share, in one log.

`apportion tasks worker bench.queues.mortal:queue` works on it. The environment names the store and the log, a line of
which is `began` or `ended`, the task, its attempt, the process and the seconds.
"""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from time import monotonic

import apportion

URL, LOG = "APPORTION_BENCH_QUEUE", "APPORTION_BENCH_LOG"
TTL_SECONDS, WORK_SECONDS = 2.0, 0.05

queue = apportion.Queue(os.environ.get(URL, "memory://mortal"), "mortal", lease_ttl=timedelta(seconds=TTL_SECONDS))


@queue.task(deaths=None)
async def work(number: int) -> int:
    """Say that the task begins, work a little, and say that it ends."""
    _say("began")
    await asyncio.sleep(WORK_SECONDS)
    _say("ended")
    return number


def _say(word: str) -> None:
    task = apportion.current_task()
    with Path(os.environ[LOG]).open("ab", buffering=0) as log:  # one write is one line
        log.write(f"{word} {task.id} {task.attempt} {os.getpid()} {monotonic():.6f}\n".encode())
