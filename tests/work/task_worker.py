"""A worker process for tests that kill: python -m tests.work.task_worker URL LOG CONCURRENCY

Each run writes a line `begun TASK ATTEMPT PID` to LOG, works a little, and inserts its effect in the transaction that
completes the task. The table of effects has no unique key, so a second completion would be seen.
"""

import asyncio
import os
import random
import sys
import time
from datetime import timedelta

import apportion

TTL = timedelta(seconds=2)


def made(url, log):
    """Return the queue of the test, with its task functions."""
    queue = apportion.Queue(url, "kills", lease_ttl=TTL)

    def _say(word):
        task = apportion.current_task()
        os.write(log, f"{word} {task.id} {task.attempt} {os.getpid()}\n".encode())

    @queue.task(first_delay=timedelta(milliseconds=50), deaths=None)
    def effect(number: int, seconds: float) -> None:
        _say("begun")
        time.sleep(seconds * random.random())
        try:
            with apportion.current_task().transaction() as connection:
                connection.execute("INSERT INTO effect VALUES (?, ?)", (number, apportion.current_task().attempt))
        except apportion.errors.ClaimLost:
            _say("refused")
            raise
        _say("done")

    return queue, effect


async def main(url, path, concurrency):
    """Work until killed."""
    log = os.open(path, os.O_APPEND | os.O_WRONLY | os.O_CREAT)
    queue, _ = made(url, log)
    async with queue.worker(concurrency=int(concurrency)):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
