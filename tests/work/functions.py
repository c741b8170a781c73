"""Task functions that a child process can import."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path

import apportion

queue = apportion.Queue(
    os.environ.get("APPORTION_TEST_QUEUE", "memory://functions"), "functions", lease_ttl=timedelta(seconds=2)
)


WRAPPED: ContextVar[int] = ContextVar("wrapped", default=0)


@queue.around
def wrapped() -> Iterator[None]:
    """Note the process that runs a task."""
    WRAPPED.set(os.getpid())
    yield


@queue.task(keep_result=True)
def within() -> list[int]:
    """Note the progress by a plain call; return this process, and that of the wrapper."""
    apportion.sync.current_task().progress(0.5, "half")
    return [os.getpid(), WRAPPED.get()]


@queue.task(keep_result=True)
def process() -> int:
    """Return the process that ran this."""
    return os.getpid()


@queue.task(keep_result=True)
async def awaited(number: int) -> int:
    """Return the next number."""
    return number + 1


@queue.task()
def cut_off() -> None:
    """Close all files of this process, and go on."""
    os.closerange(0, 4096)
    time.sleep(3600)


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


@queue.task()
def leave_a_process_and_die() -> None:
    """Fork a process that lives on for a while, and kill this one."""
    if os.fork() == 0:
        time.sleep(8)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


@queue.task(keep_result=True, time_limit=timedelta(seconds=0.5))
def extended(seconds: float) -> str:
    """Take longer than the limit, which is moved before."""
    apportion.current_task().extend(timedelta(seconds=seconds))
    time.sleep(1)
    return "in time"


@queue.task(failures=1, time_limit=timedelta(seconds=0.5))
def stubborn() -> None:
    """Let no other thread of this process run, for a long time."""
    re.match("(a*)*b", 28 * "a")


@queue.task()
async def note() -> None:
    """Note how far this is."""
    await apportion.current_task().progress(0.5, "half")


@queue.task()
async def note_at_once() -> None:
    """Make two notes at once, leave a third before it is written, and make a last one."""
    progress = apportion.current_task().progress
    await asyncio.gather(progress(0.1), progress(0.2))
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            await progress(0.3)
    await progress(0.4)


@queue.task()
def tell() -> None:
    """Print something, without a flush."""
    print("printed in a child")


@queue.task(keep_result=True)
def seconds_left() -> float:
    """Return how long the session of the worker lasts."""
    return apportion.current_task().seconds_left


@queue.task()
def tell_and_wait(path: str) -> None:
    """Write the number of this process to a file, and go on for a minute."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


@queue.task()
def tell_and_hang(path: str) -> None:
    """Write the number of this process to a file, and let no other thread run for a long time."""
    Path(path).write_text(str(os.getpid()))
    re.match("(a*)*b", 34 * "a")


@queue.task()
def tell_and_work(folder: str, number: int) -> None:
    """Work for a moment, and write the number of this process to a file."""
    time.sleep(0.1)
    Path(folder, f"{number}.pid").write_text(str(os.getpid()))


@queue.task()
def pause(seconds: float) -> None:
    """Take some time."""
    time.sleep(seconds)
