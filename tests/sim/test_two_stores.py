"""Two stores in a world: one has the tasks, the other one the group of their workers, and each fails alone."""

import asyncio
from datetime import timedelta

import pytest

import apportion
from apportion.errors import StoreUnavailable
from apportion.sim import LeavesTheWorld, World
from apportion.sim.facts import Calm
from apportion.sim.invariants.keys import GO_ON_SECONDS
from apportion.sim.remains import remains
from apportion.sim.world.losses import Way
from apportion.sim.world.network import GROUP, STORE, TASKS
from apportion.sim.world.process import running_name
from apportion.work.facade import Queue
from apportion.work.lanes.lane_member import LaneMember

URL, GROUP_URL, TTL_SECONDS = "sqlite:///work.db", "etcd://group:2379", 2.0
LONG_SECONDS = 6 * TTL_SECONDS
RUNS: list[tuple[str, int, str]] = []
DECLARED = Queue(URL, "q")


@pytest.fixture(autouse=True)
def _no_runs():
    RUNS.clear()


@DECLARED.task()
async def quick(number: int) -> None:
    """Note its process."""
    RUNS.append((running_name(), number, "ends"))


@DECLARED.task()
async def long(number: int) -> None:
    """Take several times to live."""
    RUNS.append((running_name(), number, "begins"))
    await asyncio.sleep(LONG_SECONDS)
    RUNS.append((running_name(), number, "ends"))


def queue(partitions=1):
    """Return a queue for one process: its lanes are those of a group in the other store."""
    made = Queue(URL, "q", lease_ttl=timedelta(seconds=TTL_SECONDS), partitions=partitions, group_url=GROUP_URL)
    made._functions.update(DECLARED._functions)
    return made


async def works(leaving=None, **options):
    member = LaneMember(settle=timedelta(seconds=0.1), drain_timeout=timedelta(seconds=0.2))
    async with queue(**options).worker(member=member):
        await (asyncio.Event() if leaving is None else leaving).wait()


async def enqueues(*calls):
    here = queue()
    for call in calls:
        await here.enqueue(call, key="k")
    await here.close()


def started(*workers, partitions=1, **options):
    """Return a world whose workers have joined."""
    world = World(1, group_url=GROUP_URL, **options)
    for each in workers:
        world.spawn(each, works(partitions=partitions))
        world.run(until=world.now + 1.0)
    return world


def until(world, condition, most=30.0):
    """Run until a condition holds; return the seconds that it took."""
    began = world.now
    while not condition():
        assert world.now - began < most, RUNS
        world.run(until=world.now + 0.05)
    return world.now - began


def owner(world, lane=0):
    """Return the worker that holds a lane by the records of the group."""
    items = world.group_checker.history.items
    return items[f"live/work.q/own/{lane}"].value.decode()


def owns(world, worker, lanes):
    """Return how many lanes a worker holds by the records of the group."""
    return sum(f'"owner":"{worker}' in owner(world, each) for each in range(lanes))


def test_each_store_of_a_world_has_a_history_of_its_own():
    with started("a") as world:
        world.spawn("e", enqueues(quick.call(1)))
        until(world, lambda: RUNS)
        tasks, group = world.checker.history, world.group_checker.history
        assert group is tasks.group
        assert [] == [*tasks.items]
        assert "live/work.q/own/0" in group.items
        assert (1, 1) == (len(tasks.leases), len(group.leases))
        assert None is group.tasks


@pytest.mark.parametrize("gone", ["the group", "the tasks"])
def test_a_store_that_goes_back_leaves_the_other_one_alone(gone):
    with started("a") as world:
        site, other = (world.group, world.site) if gone == "the group" else (world.site, world.group)
        lives = (site.backing.incarnation, other.backing.incarnation)
        site.restore(site.backing.save(), "is restored")
        world.run(until=world.now + 3.0)
        assert (lives[0] + 1, lives[1]) == (site.backing.incarnation, other.backing.incarnation)
        assert [2, 1] == [each.troubles[0].life for each in (site, other)]
        world.spawn("e", enqueues(quick.call(1)))
        until(world, lambda: RUNS)


def test_a_worker_without_the_store_of_its_group_loses_its_lane_and_its_run_goes_on():
    with started("a") as world:
        world.spawn("e", enqueues(long.call(1), quick.call(2)))
        until(world, lambda: RUNS)
        world.spawn("b", works())
        world.run(until=world.now + 1.0)
        world.partition(RUNS[0][0], GROUP, 2 * LONG_SECONDS)
        (first,) = {process for process, _, _ in RUNS}
        (second,) = {"a", "b"} - {first}
        until(world, lambda: second in owner(world))
        assert [(first, 1, "begins")] == RUNS  # its key waits for the open claim
        until(world, lambda: len(RUNS) == 3)
        assert [(first, 1, "begins"), (first, 1, "ends"), (second, 2, "ends")] == RUNS


@pytest.mark.slow
def test_a_worker_that_was_long_without_the_store_of_its_group_has_its_share_again_at_once():
    lanes, seconds = 6, 60.0
    with started("a", "b", "c", partitions=lanes) as world:
        until(world, lambda: owns(world, "a", lanes) == 2)
        healed = world.now + seconds
        world.partition("a", GROUP, seconds)
        until(world, lambda: owns(world, "a", lanes) == 0)
        world.run(until=healed)
        assert 0 == owns(world, "a", lanes)
        until(world, lambda: owns(world, "a", lanes) == 2, most=TTL_SECONDS)


def test_a_worker_without_the_store_of_its_tasks_keeps_its_lane_and_its_key_waits_for_its_session():
    with started("a", "b") as world:
        world.spawn("e", enqueues(long.call(1), quick.call(2)))
        until(world, lambda: RUNS)
        (first,) = {process for process, _, _ in RUNS}
        for place in (STORE, TASKS):
            world.partition(first, place, 2 * TTL_SECONDS)
        world.run(until=world.now + 2 * TTL_SECONDS)
        assert [(first, 1, "begins")] == RUNS
        assert first in owner(world)
        until(world, lambda: len(RUNS) == 2)
        assert {1} == {number for _, number, _ in RUNS}  # the same task is claimed again before the next of its key
        until(world, lambda: (first, 2, "ends") in RUNS)


def test_keys_go_on_soon_after_the_store_of_the_group_is_back():
    with started("a", "b") as world:
        world.group.troubles[0].away_until = world.now + 5 * TTL_SECONDS
        world.run(until=world.now + 4 * TTL_SECONDS)
        world.spawn("e", enqueues(quick.call(1)))
        world.run(until=world.now + TTL_SECONDS)
        assert [] == RUNS  # nobody owns the lane
        world.record(Calm(at=world.now))
        assert until(world, lambda: RUNS) <= GO_ON_SECONDS


def test_a_worker_that_leaves_leaves_nothing_in_either_store():
    with World(1, group_url=GROUP_URL) as world:
        leaving = asyncio.Event()
        ended = world.spawn("a", works(leaving))
        world.run(until=1.0)
        assert {"an open handle of the group", "an open handle of the tasks"} < set(remains(world, "a"))
        leaving.set()
        until(world, ended.done)
        assert [] == remains(world, "a")


def test_a_third_store_is_refused():
    async def opens():
        async with apportion.open_store(URL), apportion.open_store(GROUP_URL), apportion.open_store("sqlite:///x.db"):
            raise AssertionError("opened")

    with World(1, group_url=GROUP_URL) as world:
        world.spawn("a", opens())
        with pytest.raises(LeavesTheWorld, match=r"a second store, sqlite:///x\.db"):
            world.run(until=1.0)


def test_a_world_with_one_store_refuses_that_of_a_group():
    async def opens():
        async with apportion.open_store(URL), apportion.open_store(GROUP_URL):
            raise AssertionError("opened")

    with World(1) as world:
        world.spawn("a", opens())
        with pytest.raises(LeavesTheWorld, match="a second store, etcd://group:2379"):
            world.run(until=1.0)


def test_the_invariants_of_groups_are_held_in_the_store_of_the_group():
    with started("a") as world:
        of_group, of_tasks = [
            {type(each).__name__ for each in checker._checks} for checker in (world.group_checker, world.checker)
        ]
        assert {"HoldsAreOwned", "WritesAreHeld"} < of_group
        assert {"OneOfAKey", "KeyGoesOn"} < of_tasks
        assert set() == {"OneOfAKey", "KeyGoesOn"} & of_group


def test_a_seed_of_two_stores_repeats_and_its_story_names_the_store_of_the_group():
    stories = []
    for _ in range(2):
        with started("a", "b", story=True) as world:
            world.spawn("e", enqueues(quick.call(1)))
            until(world, lambda: RUNS)
            stories.append(list(world.trace.lines))
        RUNS.clear()
    assert stories[0] == stories[1]
    assert any("group: store life 1 begins" in line for line in stories[0])


def test_a_producer_agrees_anew_with_an_old_copy_that_knows_no_partitions_though_its_first_try_is_lost():
    async def produces(restored):
        here = queue()
        await here.enqueue(quick.call(1), key="k")
        await restored.wait()
        with pytest.raises(StoreUnavailable):
            await here.enqueue(quick.call(2), key="k")
        await here.enqueue(quick.call(3), key="k")
        await here.close()

    with World(1, group_url=GROUP_URL) as world:
        copy, restored = world.backing.save(), asyncio.Event()
        produced = world.spawn("e", produces(restored))
        world.run(until=1.0)
        world.restore(copy, "is restored to a time before its first queue")
        world.task_troubles.losses.lose(2, Way.ERROR)  # the first request is refused, the second one agrees
        restored.set()
        until(world, produced.done)
        world.spawn("a", works())
        until(world, lambda: RUNS)
        assert [("a", 3, "ends")] == RUNS
