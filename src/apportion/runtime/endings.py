"""Endings: work that runs to its end even if no caller waits for it, for example a leave, a close or an undo.

A caller may be cancelled while it closes or opens something. The caller learns of the cancellation at once. The
ending goes on where it was begun: on the I/O thread, or on the loop of a simulated process.

Promises: no caller cancels an ending. A process that ends waits for the endings under way, for a bounded time. The
event loop reports an ending that raises while no caller waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakSet

from apportion.runtime.simulated import Undo, simulated

Result = TypeVar("Result")
Kept = TypeVar("Kept", bound="asyncio.Future[Any]")


async def to_its_end(work: Coroutine[object, object, None]) -> None:
    """Run work to its end, even if the caller is cancelled. The caller learns of the cancellation at once."""
    await outlasting(begun(work))


async def whole(work: Awaitable[Result], undo: Undo[Result]) -> Result:
    """Run work that opens something. If the caller is cancelled meanwhile, `undo` gets the result."""
    opening = asyncio.ensure_future(work)
    try:
        return await outlasting(opening)
    except asyncio.CancelledError:
        begun(_undone(opening, undo))
        raise


async def outlasting(work: "asyncio.Future[Result]") -> Result:
    """Wait for work that goes on when the caller is cancelled; return its result.

    From Python 3.14 on, `asyncio.shield` logs an error that comes after the cancellation. This function does not.
    """
    if not work.done():
        await asyncio.wait([work])
    return work.result()


@asynccontextmanager
async def or_undo(undo: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Call `undo` if the block, which opens something, raises or is cancelled."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(undo)
        yield
        stack.pop_all()


def begun(work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
    """Begin an ending in the running loop; return its task."""
    try:
        ending = asyncio.get_running_loop().create_task(work)
    except RuntimeError:  # the loop has ended, and the ending cannot run without a loop
        work.close()
        raise
    if simulated() is None:  # the endings of a simulated process end with its world
        _under_way.add(ending)
        ending.add_done_callback(_under_way.discard)
    return ending


def uncancelled(work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
    """Begin work that no caller cancels, and return its task. The end of the process does not wait for this work."""
    return kept_from_cancellation(asyncio.get_running_loop().create_task(work))


def kept_from_cancellation(work: Kept) -> Kept:
    """Mark a running task as one that no caller cancels, and return the task."""
    _uncancelled.add(work)
    return work


def is_uncancelled() -> bool:
    """Whether the current task is one that no caller cancels."""
    return asyncio.current_task() in _uncancelled


def under_way(loop: asyncio.AbstractEventLoop) -> "list[asyncio.Task[None]]":
    """Return the endings that run in a loop."""
    return [ending for ending in list(_under_way) if ending.get_loop() is loop]


async def _undone(opening: "asyncio.Future[Result]", undo: Undo[Result]) -> None:
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await undo(opening.result())


_under_way: "set[asyncio.Task[None]]" = set()
_uncancelled: "WeakSet[asyncio.Future[Any]]" = WeakSet()
