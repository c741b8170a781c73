"""Cancelling at every turn of the user's loop and of the I/O thread's; and the leftovers of a cancelled call."""

import asyncio
import gc
import threading
import time
from pathlib import Path

from apportion.runtime.io_thread import io_thread

PATIENCE_SECONDS = 10


class Turns:
    """Counts the turns of a loop, and calls something before the k-th."""

    def __init__(self, loop):
        self._loop, self._left, self._call = loop, None, None
        self._once = loop._run_once
        loop._run_once = self._turn

    def _turn(self):
        if self._left == 0:
            self._left, call = None, self._call
            call()
        elif self._left is not None:
            self._left -= 1
        self._once()

    def at(self, turn, call):
        """Call before this turn from now on."""
        self._left, self._call = turn, call

    def stop(self):
        """Count no more; whether it had come to the turn."""
        self._left, left = None, self._left
        return left is None

    def end(self):
        """Let the loop go on as before."""
        del self._loop._run_once


async def cancelled_at(turns, turn, work, *, is_here):
    """Run some work, and cancel it at a turn of a loop: of this one, or the I/O thread's; whether that turn came.

    The work begins to count.
    """
    here = asyncio.get_running_loop()
    passed = threading.Event()

    def cancel(more=4):
        """Cancel, and let this loop turn a few times, so that the other loop hears of it at that turn."""
        if more == 4:
            task.cancel()
        if more:
            here.call_soon(cancel, more - 1)
        else:
            passed.set()

    def there():
        here.call_soon_threadsafe(cancel)
        passed.wait(PATIENCE_SECONDS)

    task = here.create_task(work(lambda: turns.at(turn, cancel if is_here else there)))
    await asyncio.wait([task])
    came = turns.stop()
    if task.cancelled():
        return came
    task.result()
    return came


def tasks():
    """Return the names of the tasks on the I/O thread."""
    return sorted(str(task.get_coro()) for task in asyncio.all_tasks(io_thread()._loop))


def descriptors():
    """Return how many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def until_nothing_is_left(left, *, seconds=PATIENCE_SECONDS):
    """Wait until nothing is left behind; return the leftovers after so long.

    A collection holds the interpreter, for a second where thousands of tests have run. The I/O thread gets three times
    as long.
    """
    ends = time.monotonic() + seconds
    while found := left():
        begins = time.monotonic()
        if begins > ends:
            return found
        gc.collect()
        await asyncio.sleep(max(0.005, 3 * (time.monotonic() - begins)))
    return found
