"""The virtual loop: time leaps, a seed decides the order, a deadlock says so, and nothing leaves by the loop."""

import asyncio
from random import Random

import pytest

from apportion.sim import Deadlock, LeavesTheWorld, VirtualLoop


def run(coroutine, seed=1):
    loop = VirtualLoop(Random(seed))
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def test_an_hour_passes_at_once():
    async def wait():
        await asyncio.sleep(3600.0)
        return asyncio.get_running_loop().time()

    assert 3600.0 == run(wait())


async def _order_of_ten():
    order = []

    async def take(number):
        await asyncio.sleep(1.0)
        order.append(number)

    await asyncio.gather(*(take(number) for number in range(10)))
    return tuple(order)


def test_a_seed_gives_one_order_and_other_seeds_give_others():
    orders = {seed: run(_order_of_ten(), seed) for seed in range(20)}
    assert orders == {seed: run(_order_of_ten(), seed) for seed in range(20)}
    assert len(set(orders.values())) > 15
    assert all(set(order) == set(range(10)) for order in orders.values())


def test_timers_of_different_times_keep_their_order():
    async def main():
        order = []
        loop = asyncio.get_running_loop()
        for number in range(20):
            loop.call_later(number / 1000, order.append, number)
        await asyncio.sleep(1.0)
        return order

    assert list(range(20)) == run(main())


def test_a_cancelled_timer_does_not_run():
    async def main():
        ran = []
        asyncio.get_running_loop().call_later(1.0, ran.append, 1).cancel()
        await asyncio.sleep(2.0)
        return ran

    assert [] == run(main())


def test_a_timeout_comes_in_virtual_time():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert 5.0 == run(main())


def test_a_deadlock_names_who_waits():
    async def forever():
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="forever"):
        run(forever())


def test_sets_of_tasks_repeat():
    async def main():
        order = []

        async def end(number):
            try:
                await asyncio.sleep(60.0)
            finally:
                order.append(number)

        async def fail():
            await asyncio.sleep(1.0)
            raise KeyError

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(end(number))
                group.create_task(fail())
        except* KeyError:
            order.append("failed")
        return order

    first = run(main(), 3)
    assert "failed" == first[-1]
    kept = [object() for _ in range(1000)]  # addresses are others now
    assert first == run(main(), 3)
    assert len(kept) == 1000


@pytest.mark.parametrize(
    "leave",
    [
        lambda loop: loop.run_in_executor(None, print),
        lambda loop: loop.create_connection(None, "localhost", 1),
        lambda loop: loop.sock_recv(None, 1),
        lambda loop: loop.subprocess_exec(None, "true"),
        lambda loop: loop.add_signal_handler(1, print),
        lambda loop: loop.getaddrinfo("localhost", 1),
    ],
)
def test_the_loop_lets_nothing_out(leave):
    async def main():
        leave(asyncio.get_running_loop())

    with pytest.raises(LeavesTheWorld, match="Use "):
        run(main())
