"""Blocks: a cancellation of ours ends a hold with `NotOwner`, and leaves no trace; that of anybody else goes on."""

import asyncio

import pytest

from apportion.errors import NotOwner
from apportion.groups.holdings import Holdings
from apportion.groups.holds import block
from apportion.model.epoch import FencingToken
from apportion.runtime.clock import SystemClock


def held():
    """Return holdings of one partition."""
    holdings = Holdings(SystemClock(), quiet=lambda partitions: None, told=lambda: None)
    holdings.deadline = float("inf")
    holdings.grant({1: FencingToken(resource="g/1", holder="me", incarnation=1, epoch=1)})
    return holdings


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def forever():
    await asyncio.Event().wait()


def test_a_task_whose_hold_was_cancelled_again_and_again_is_not_being_cancelled_afterwards():
    async def story():
        holdings, ends = held(), []

        async def work():
            async with block(holdings, 1):
                try:
                    await forever()
                finally:
                    await turns()
                    ends.append("cleaned up")

        async def whole():
            with pytest.raises(NotOwner, match="the session ended"):
                await work()
            ends.append(asyncio.current_task().cancelling())
            await turns()
            return ends

        task = asyncio.create_task(whole())
        for _ in range(4):
            await asyncio.sleep(0)
            holdings.cancel()
        return await task

    assert ["cleaned up", 0] == asyncio.run(story())


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_a_task_that_is_cancelled_together_with_its_hold_is_cancelled(first):
    async def story():
        holdings = held()

        async def work():
            async with block(holdings, 1):
                await forever()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        if first == "ours":
            holdings.cancel()
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            task.cancel()
            holdings.cancel()
        await asyncio.wait([task])
        return task.cancelled(), task.cancelling()

    assert (True, 1) == asyncio.run(story())


def test_a_time_out_around_a_hold_whose_session_ends_hears_that_it_was_lost_and_is_not_over():
    async def story():
        holdings = held()
        asyncio.get_running_loop().call_later(0.01, holdings.cancel)
        with pytest.raises(NotOwner):  # noqa: PT012 - the whole block is what raises
            async with asyncio.timeout(20) as limit:
                async with block(holdings, 1):
                    await forever()
        return limit.expired(), asyncio.current_task().cancelling()

    assert (False, 0) == asyncio.run(story())


def test_a_time_out_around_a_hold_that_comes_together_with_its_end_is_a_time_out():
    async def story():
        holdings, loop = held(), asyncio.get_running_loop()
        with pytest.raises(TimeoutError):  # noqa: PT012 - the whole block is what raises
            async with asyncio.timeout(None) as limit:
                async with block(holdings, 1):
                    holdings.cancel()
                    limit.reschedule(loop.time())
                    await asyncio.sleep(20)
        return asyncio.current_task().cancelling()

    assert 0 == asyncio.run(story())


def test_a_time_out_within_a_hold_is_a_time_out_and_the_hold_goes_on():
    async def story():
        holdings = held()
        async with block(holdings, 1):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await forever()
            await turns()
        return asyncio.current_task().cancelling(), len(holdings._holds)

    assert (0, 0) == asyncio.run(story())


def test_tasks_of_a_group_within_a_hold_end_with_it():
    async def story():
        holdings, ended = held(), []

        async def child():
            try:
                await forever()
            finally:
                ended.append(1)

        asyncio.get_running_loop().call_later(0.01, holdings.cancel)
        with pytest.raises(NotOwner):  # noqa: PT012 - the whole block is what raises
            async with block(holdings, 1), asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(child())
        return ended, asyncio.current_task().cancelling()

    assert ([1, 1, 1], 0) == asyncio.run(story())


def test_an_error_of_the_block_is_its_own_also_when_the_hold_was_cancelled():
    async def story():
        holdings = held()
        asyncio.get_running_loop().call_soon(holdings.cancel)
        with pytest.raises(OSError, match="disk"):  # noqa: PT012 - the whole block is what raises
            async with block(holdings, 1):
                try:
                    await forever()
                finally:
                    raise OSError("disk")
        return asyncio.current_task().cancelling(), len(holdings._holds)

    assert (0, 0) == asyncio.run(story())


def test_a_hold_whose_loop_was_closed_ends_where_it_would_be_cancelled():
    """Nobody works there any more, and no finalizer of an asynchronous generator is run by a loop that is closed."""
    holdings, loop = held(), asyncio.new_event_loop()
    kept = block(holdings, 1)
    loop.run_until_complete(kept.__aenter__())
    loop.close()
    assert not holdings.all_quiet
    holdings.withdraw([1])
    holdings.cancel(1)
    assert holdings.all_quiet
