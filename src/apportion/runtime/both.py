"""Both: awaits two calls at the same time.

Promises: no call goes on after `both` has ended. If one call fails, the other one is cancelled. If the caller is
cancelled, both are. Each of these cancels a call once, so that the call can clean up.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


async def both(first: Coroutine[object, None, First], second: Coroutine[object, None, Second]) -> tuple[First, Second]:
    """Return the results of two calls that run at the same time. Raise the first error of one of them."""
    calls = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        one, two = await asyncio.gather(*calls)
        return one, two
    finally:
        await _ended([call for call in calls if not call.done()])


async def _ended(calls: "Sequence[asyncio.Task[Any]]") -> None:
    """Cancel calls that were not cancelled yet, and wait until all have ended.

    A caller that is cancelled meanwhile cancels them once more. It learns of its cancellation when they have ended.
    """
    for call in calls:
        if not call.cancelling():
            call.cancel()
    again: asyncio.CancelledError | None = None
    while left := [call for call in calls if not call.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            again = error
            for call in left:
                call.cancel()
    if again is not None:
        raise again
