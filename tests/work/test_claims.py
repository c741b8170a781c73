"""A loop of the program over claimed tasks: the end of a block completes its task, and an exception fails it."""

import asyncio
from contextlib import aclosing
from datetime import timedelta

import pytest

import apportion
from apportion.errors import InvalidInput
from apportion.work.budget import GiveUp
from tests.work.test_queue import played, queue, url

__all__ = ["queue", "url"]


def test_the_end_of_a_block_completes_and_an_exception_fails(queue):
    @queue.task(failures=2, first_delay=timedelta(0))
    async def send(to: str) -> None: ...

    seen = []

    async def _play():
        handles = await queue.enqueue_many([send.call("ann"), send.call(to="bob"), send.call("cid")])
        async with aclosing(queue.claims()) as tasks:
            async for task in tasks:
                async with task:
                    seen.append((task.call.name, task.arguments["to"], task.attempt))
                    assert apportion.current_task().receipt == task.receipt
                    if task.arguments["to"] == "bob":
                        raise GiveUp("no such address")
                    if len(seen) == 3:
                        raise ValueError("once more")
                if len(seen) == 4:
                    break
        assert ["missing", "dead", "missing"] == [await each.state() for each in handles]
        names = [("send", "ann", 1), ("send", "bob", 1), ("send", "cid", 1), ("send", "cid", 2)]
        assert names == seen

    played(_play())


async def forget_blocks(queue):
    async for _ in queue.claims():
        pass


def test_a_loop_that_is_left_gives_back_its_tasks_and_a_forgotten_block_is_named(queue):
    @queue.task()
    async def send(to: str) -> None: ...

    async def _play():
        handles = await queue.enqueue_many([send.call("ann"), send.call("bob")])
        with pytest.raises(InvalidInput, match="async with task"):
            await forget_blocks(queue)
        for _ in range(500):
            states = [await each.state() for each in handles]
            if states == ["ready", "ready"]:
                break
            await asyncio.sleep(0.01)
        assert ["ready", "ready"] == states

    played(_play())


def test_a_cancelled_task_ends_its_block_and_the_loop_goes_on(queue):
    @queue.task()
    async def send(to: str) -> None: ...

    ends = []

    async def _play():
        handles = await queue.enqueue_many([send.call("ann"), send.call("bob")])
        async with aclosing(queue.claims()) as tasks:
            async for task in tasks:
                async with task:
                    if task.id == handles[0].id:
                        await handles[0].cancel()
                        await asyncio.sleep(30)
                    ends.append(task.id)
                if ends:
                    break
        assert [handles[1].id] == ends
        assert ["cancelled", "missing"] == [await each.state() for each in handles]

    played(_play())
