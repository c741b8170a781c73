"""Worker processes for tests that kill: python -m tests.work.task_worker LOG CONCURRENCY, with the URL on its input

Each further line of the input starts one more worker, a fork of this process: so a start costs little. A worker prints
`ready PID`. It ends with this process, which ends with its input.

Each run writes lines `WORD NUMBER ATTEMPT PID SECONDS` to LOG, in one write each: `begun`, then `tried` before it
settles, then `done` or `refused`. It works a little, and inserts its effect in the transaction that completes the
task. The table of effects has no unique key, so a second completion would be seen.
"""

import asyncio
import ctypes
import os
import random
import signal
import sys
import time
from datetime import timedelta

import apportion
from apportion.errors import ApportionError, ClaimLost, LeaseLost

TTL = timedelta(seconds=2)
_SET_PARENT_DEATH_SIGNAL = 1


def made(url, log, *, deaths=None):
    """Return the queue of the test, with its task function."""
    queue = apportion.Queue(url, "kills", lease_ttl=TTL)
    mark = "?" if url.startswith("sqlite") else "%s"

    def _say(word, number):
        task = apportion.current_task()
        os.write(log, f"{word} {number} {task.attempt} {os.getpid()} {time.monotonic()}\n".encode())

    @queue.task(
        first_delay=timedelta(milliseconds=50), longest_delay=timedelta(seconds=1), deaths=deaths, failures=1_000
    )
    def effect(number: int, seconds: float) -> None:
        _say("begun", number)
        time.sleep(seconds * random.random())
        _say("tried", number)
        try:
            with apportion.current_task().transaction() as connection:
                values = (number, apportion.current_task().attempt)
                connection.execute(f"INSERT INTO effect VALUES ({mark}, {mark})", values)
        except (ClaimLost, LeaseLost):
            _say("refused", number)
            raise
        except ApportionError:
            _say("failed", number)
            raise
        _say("done", number)

    return queue, effect


async def work(url, path, concurrency):
    """Work until killed."""
    queue, _ = made(url, os.open(path, os.O_APPEND | os.O_WRONLY | os.O_CREAT))
    async with queue.worker(concurrency=concurrency):
        print("ready", os.getpid(), flush=True)
        await asyncio.Event().wait()


def main(path, concurrency):
    """Fork a worker for each line."""
    url = sys.stdin.readline().strip()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
    while sys.stdin.readline():
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            random.seed()
            asyncio.run(work(url, path, int(concurrency)))


if __name__ == "__main__":
    main(*sys.argv[1:])
