"""Work that opens something is never left behind, and its caller learns of its own cancellation."""

import asyncio

import pytest

from apportion.runtime.endings import whole


def test_a_caller_that_is_cancelled_is_told_so_and_what_opens_meanwhile_is_closed():
    async def main():
        opens, closed = asyncio.Event(), []

        async def opened():
            await opens.wait()
            return "handle"

        async def undo(result):
            closed.append(result)

        caller = asyncio.create_task(whole(opened(), undo))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        opens.set()
        async with asyncio.timeout(5):
            while not closed:
                await asyncio.sleep(0)
        return closed

    assert ["handle"] == asyncio.run(main())


def test_a_caller_that_waits_gets_what_was_opened():
    async def main():
        async def opened():
            return "handle"

        return await whole(opened(), None)

    assert "handle" == asyncio.run(main())
