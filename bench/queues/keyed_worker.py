"""`python -m bench.queues.keyed_worker URL NAME LOG`: a worker of a queue with keys, until SIGTERM.

It prints `ready`. Each run appends a line `KEY PID BEGIN END` to the log, in seconds of the clock that all processes of
a machine share.
"""

import asyncio
import os
import sys
from datetime import timedelta
from time import monotonic

import apportion
from apportion.work.function import AnyTaskFunction

PARTITIONS, RUN_SECONDS = 64, 0.2


def opened(url: str, log: str = os.devnull) -> tuple[apportion.Queue, AnyTaskFunction]:
    """Return the queue, and its task function."""
    queue = apportion.Queue(url, "bench", partitions=PARTITIONS)
    lines = os.open(log, os.O_APPEND | os.O_WRONLY | os.O_CREAT, 0o600)

    @queue.task()
    async def work(key: str) -> None:
        began = monotonic()
        await asyncio.sleep(RUN_SECONDS)
        os.write(lines, f"{key} {os.getpid()} {began} {monotonic()}\n".encode())

    return queue, work


async def main(url: str, name: str, log: str) -> None:
    """Work until SIGTERM."""
    queue, _ = opened(url, log)
    member = apportion.LaneMember(member_id=name, settle=timedelta(0))
    async with queue.worker(concurrency=PARTITIONS, member=member):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
