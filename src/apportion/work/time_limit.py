"""Time limit: the longest time of a run, which the run itself may move.

Promises: a run can move its limit from any thread, until the limit has passed.
Refuses: to stop a plain function in a thread. Its run ends at the limit, and its thread goes on.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from typing import Protocol


class RunLimit(Protocol):
    """The time limit of one run."""

    def kept(self) -> AbstractAsyncContextManager[object]:
        """Return a block that raises TimeoutError at the limit."""

    def move(self, length: timedelta) -> None:
        """Move the limit to this length of time from now."""


class TimeLimit:
    """A limit that the event loop of the run enforces."""

    def __init__(self, length: timedelta) -> None:
        self._timeout = asyncio.timeout(None)
        self._length, self._loop = length, asyncio.get_running_loop()

    def kept(self) -> AbstractAsyncContextManager[object]:
        """See `RunLimit`."""
        self._timeout = asyncio.timeout(self._length.total_seconds())
        return self._timeout

    def move(self, length: timedelta) -> None:
        """See `RunLimit`."""
        self._loop.call_soon_threadsafe(self._move, length.total_seconds())

    def _move(self, seconds: float) -> None:
        with suppress(RuntimeError):  # the run has just ended, or its limit has passed
            self._timeout.reschedule(self._loop.time() + seconds)
