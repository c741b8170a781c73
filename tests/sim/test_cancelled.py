"""A caller is cancelled at every turn of the loop, and nothing of its group stays behind."""

import asyncio
from datetime import timedelta

import pytest

import apportion
from apportion.sim import World
from apportion.sim.remains import remains

URL = "sqlite:///work.db"
TTL_SECONDS = 2.0
SPARE_SECONDS = 1.0
EVERY = 13  # of the turns, in one test; `make soak` takes all


def opened(**options):
    return apportion.open_group(
        URL, "g", partitions=4, lease_ttl=timedelta(seconds=TTL_SECONDS), drain_timeout=timedelta(seconds=1), **options
    )


async def opens():
    async with opened():
        await asyncio.sleep(0.3)


async def holds():
    async with opened() as group:
        await group.wait_until_settled()
        async with group.hold(min(group.owned)):
            await asyncio.sleep(0.3)


async def listens():
    async with opened() as group:
        seen = 0
        async for change in group.changes():
            seen += len(change.gained)
            if seen >= 2:
                group.leave()


async def serves():
    async def gained(partition, token):
        await asyncio.sleep(0.05)
        if len(group.owned) >= 2:
            group.leave()

    async with opened() as group:
        await group.serve(on_gained=gained, on_lost=gained)


async def stays():
    async with opened() as group:
        await group.serve()


def played(program, seed, turn=None):
    """Run a program beside another member, cancelled at a turn; return how many it took, and what is left of it."""
    with World(seed) as world:
        world.spawn("b", stays())
        world.run(until=1.0)
        task = world.spawn("a", program())
        first = world.loop.steps
        last = []
        task.add_done_callback(lambda _: last.append(world.loop.steps))
        if turn is not None:
            world.loop.at_step(first + turn, task.cancel)
        while not task.done():
            world.run(until=world.now + 0.1)
            assert world.now < 30.0, "its caller waits for ever"
        turns = last[0] - first
        world.run(until=world.now + TTL_SECONDS + SPARE_SECONDS)
        members = [key for key in world.checker.history.items if "/member/" in key]
        return turns, [*remains(world, "a"), *(f"{len(members)} members" for _ in [0] if len(members) != 1)]


@pytest.mark.slow
@pytest.mark.parametrize("program", [opens, holds, listens, serves])
@pytest.mark.parametrize(
    ("seed", "every"),
    [(0, EVERY), *(pytest.param(seed, 1, marks=pytest.mark.soak) for seed in range(6))],
    ids=str,
)
def test_a_caller_that_is_cancelled_at_any_turn_leaves_nothing(program, seed, every):
    turns, left = played(program, seed)
    assert [] == left
    assert turns > 100
    found = {turn: left for turn in range(1 + seed % every, turns, every) if (left := played(program, seed, turn)[1])}
    assert {} == found
