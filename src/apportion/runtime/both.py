"""Both: awaits two calls at the same time.

Promises: no call goes on after `both` has ended. If one call fails, the other one is cancelled. If the caller is
cancelled, both are.
"""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


async def both(first: Coroutine[object, None, First], second: Coroutine[object, None, Second]) -> tuple[First, Second]:
    """Return the results of two calls that run at the same time. Raise the first error of one of them."""
    calls = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        one, two = await asyncio.gather(*calls)
        return one, two
    finally:
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
