"""Task functions that a child process can import."""

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import apportion

queue = apportion.Queue(
    os.environ.get("APPORTION_TEST_QUEUE", "memory://functions"), "functions", lease_ttl=timedelta(seconds=2)
)


@queue.task(keep_result=True)
def process() -> int:
    """Return the process that ran this."""
    return os.getpid()


@queue.task(keep_result=True)
async def awaited(number: int) -> int:
    """Return the next number."""
    return number + 1


@queue.task()
def poison() -> None:
    """Kill the process that runs this."""
    os.kill(os.getpid(), signal.SIGKILL)


@queue.task(failures=2)
def fail() -> None:
    """Fail."""
    raise ValueError("no")


@queue.task(failures=1, time_limit=timedelta(seconds=0.5))
def slow(path: str) -> None:
    """Take too long, and say so at the end."""
    time.sleep(3)
    Path(path).touch()


@queue.task()
def pay(amount: int) -> None:
    """Write an effect in the transaction that completes the task."""
    with apportion.current_task().transaction() as connection:
        connection.execute("INSERT INTO paid VALUES (?)", (amount,))
