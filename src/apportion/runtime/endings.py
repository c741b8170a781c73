"""Endings: work that goes on to its end although nobody waits for it: to leave, to close, to take back.

A caller may be cancelled while it closes something, or while it opens something. It is told at once, and the ending
goes on where it was begun: on the I/O thread, or on the loop of a simulated process.

Promises: an ending is cancelled by nobody; a process that ends waits for those under way, for a bounded time. An ending
that raises while nobody waits for it is reported by its event loop.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

from apportion.runtime.simulated import Undo, simulated

Result = TypeVar("Result")


async def to_its_end(work: Coroutine[object, object, None]) -> None:
    """Run work that goes on when the caller is cancelled; the caller hears of the cancellation at once."""
    await asyncio.shield(begun(work))


async def whole(work: Awaitable[Result], undo: Undo[Result]) -> Result:
    """Run work that opens something; when the caller is cancelled meanwhile, `undo` gets the result."""
    opening = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        begun(_undone(opening, undo))
        raise


def begun(work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
    """Begin an ending in the running loop; return its task."""
    try:
        ending = asyncio.get_running_loop().create_task(work)
    except RuntimeError:  # the loop is gone, and with it all that could go on
        work.close()
        raise
    if simulated() is None:  # what a simulated process leaves behind ends with its world
        _under_way.add(ending)
        ending.add_done_callback(_under_way.discard)
    return ending


def under_way(loop: asyncio.AbstractEventLoop) -> "list[asyncio.Task[None]]":
    """Return the endings that go on in a loop."""
    return [ending for ending in list(_under_way) if ending.get_loop() is loop]


async def _undone(opening: "asyncio.Future[Result]", undo: Undo[Result]) -> None:
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await undo(opening.result())


_under_way: "set[asyncio.Task[None]]" = set()
