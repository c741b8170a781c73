"""A loop of the program over claimed tasks: the end of a block completes its task, and an exception fails it."""

import asyncio
from contextlib import aclosing
from datetime import timedelta

import pytest

import apportion
from apportion.errors import InvalidInput
from apportion.work.retry_budget import GiveUp
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


class _Base(BaseException):
    pass


@pytest.mark.parametrize("error", [StopAsyncIteration(1), StopIteration(1), asyncio.CancelledError("own")])
def test_a_block_that_raises_an_error_of_asyncio_has_failed_and_the_loop_goes_on(queue, error):
    @queue.task(failures=1)
    async def send() -> None: ...

    async def _play():
        handles = await queue.enqueue_many([send.call(), send.call()])
        taken = 0
        async with aclosing(queue.claims()) as tasks:
            async for task in tasks:
                taken += 1
                async with task:
                    if taken == 1:
                        raise error
                if taken == 2:
                    break
        assert ["dead", "missing"] == [await each.state() for each in handles]
        assert 0 == asyncio.current_task().cancelling()

    played(_play())


async def raise_in_block(queue, error):
    """Take one task, and raise an error in its block."""
    async for task in queue.claims():
        async with task:
            raise error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("own"), _Base("own")])
def test_a_block_that_exits_has_failed_and_the_program_hears_the_exit(tmp_path, error):
    queue = apportion.Queue(f"sqlite:///{tmp_path}/work.db", "mail")

    @queue.task(failures=1)
    async def send() -> None: ...

    async def ended():
        while await handle.state() in ("claimed", "ready"):
            await asyncio.sleep(0.01)
        return await handle.state()

    handle = played(queue.enqueue(send.call()))
    with pytest.raises(type(error)):
        played(raise_in_block(queue, error))
    assert "dead" == played(ended())


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "cancelled"])
def test_a_block_that_is_closed_or_cancelled_gives_its_task_back(queue, is_closed):
    @queue.task(failures=1)
    async def send() -> None: ...

    taken = []

    async def taking():
        async for task in queue.claims():
            async with task:
                taken.append(task)
                yield task
                await asyncio.sleep(30)

    async def first():
        async with aclosing(taking()) as tasks:
            async for _ in tasks:
                if is_closed:
                    return

    async def _play():
        handle = await queue.enqueue(send.call())
        running = asyncio.ensure_future(first())
        while not taken:
            await asyncio.sleep(0.01)
        if not is_closed:
            running.cancel()
        await asyncio.wait([running])
        assert is_closed != running.cancelled()
        while await handle.state() != "ready":
            await asyncio.sleep(0.01)

    played(_play())


def test_tasks_that_a_loop_has_not_begun_go_back_when_it_is_asked_to_end(queue, monkeypatch):
    @queue.task()
    async def send(number: int) -> None: ...

    begun, made = [], []
    monkeypatch.setattr(
        "apportion.work.claim_loop.LoopWorker.__aenter__",
        lambda self: made.append(self) or super(type(self), self).__aenter__(),
    )

    async def _play():
        handles = await queue.enqueue_many([send.call(each) for each in range(3)])
        async for task in queue.claims(concurrency=3):
            async with task:
                begun.append(task.arguments["number"])
                while len(made[0].running) < 3:
                    await asyncio.sleep(0.01)
                made[0]._end_block()
        assert [0] == begun
        assert ["missing", "ready", "ready"] == [await each.state() for each in handles]

    played(_play())


def test_a_block_that_ends_while_its_run_is_cancelled_raises_nothing(queue):
    @queue.task()
    async def send() -> None: ...

    async def _play():
        await queue.enqueue(send.call())
        async with aclosing(queue.claims()) as tasks:
            async for task in tasks:
                async with task:
                    task.handed.end.cancel()
                break

    played(_play())
