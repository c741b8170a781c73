"""Holds: a task or a thread keeps a partition for as long as a block lasts.

Promises: the block begins only on a partition that is ours. If the session ends within the block, or the drain times
out, the block's task is cancelled, once. The block then ends with `NotOwner`. A cancellation by any other caller is
passed on, even if it comes together with the cancellation from here. If the loop is closed within the block, the block
cannot be cancelled. Then its hold ends when the cancellation would come. A thread cannot be cancelled: long work in a
thread must ask for the token again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from apportion.errors import NotOwner
from apportion.groups.holdings import Holdings
from apportion.groups.open_holds import Hold
from apportion.groups.participation import Participation
from apportion.model.epoch import FencingToken


@asynccontextmanager
async def block(holdings: Holdings, partition: int) -> AsyncIterator[tuple[FencingToken, Hold]]:
    """Hold a partition within the block, in the task that enters it; errors are those of `AsyncGroup.hold`."""
    inside = _Inside(asyncio.current_task(), asyncio.get_running_loop())
    token, hold = holdings.enter(partition, inside.cancel)
    inside.abandoned = partial(holdings.leave, hold)
    try:
        yield token, hold
    except asyncio.CancelledError:
        if inside.end():
            raise NotOwner(partition, "the session ended, or the drain timed out, while it was held") from None
        raise
    finally:
        inside.end()
        holdings.leave(hold)


@asynccontextmanager
async def holding(participation: Participation, partition: int | str) -> AsyncIterator[FencingToken]:
    """Hold a partition within the block, in the task that enters it; errors are those of `AsyncGroup.hold`."""
    async with block(participation.holdings, participation.require_own(partition)) as (token, _):
        yield token


@contextmanager
def held(participation: Participation, partition: int | str) -> Iterator[FencingToken]:
    """Hold a partition within the block, from a thread; it cannot be cancelled."""
    token, hold = participation.holdings.enter(participation.require_own(partition))
    try:
        yield token
    finally:
        participation.holdings.leave(hold)


class _Inside:
    """The task inside a block; another thread can cancel the task, but only within the block."""

    abandoned: Callable[[], None]

    def __init__(self, task: "asyncio.Task[object] | None", loop: asyncio.AbstractEventLoop) -> None:
        self._task, self._loop = task, loop
        self._cancelled_before = 0 if task is None else task.cancelling()
        self._was_cancelled = False

    def cancel(self) -> None:
        """Cancel the block's task at its await; from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # the loop was closed within the block, so its work has stopped
            self.abandoned()

    def end(self) -> bool:
        """Note that the block has ended; return whether its task was cancelled only by this object."""
        task, self._task = self._task, None
        if task is None or not self._was_cancelled:
            return False
        return task.uncancel() <= self._cancelled_before

    def _cancel(self) -> None:
        if self._task is not None and not self._was_cancelled:
            self._was_cancelled = True
            self._task.cancel()
