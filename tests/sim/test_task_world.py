"""Queues and their workers in a world: what a worker does when its store, its process or its caller fails."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from apportion.errors import OutcomeUnknown, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.sim import World
from apportion.sim.facts import Calm
from apportion.sim.remains import remains
from apportion.sim.world.losses import Way
from apportion.sim.world.network import Weather
from apportion.sim.world.process import BEGIN_OF_TIME, running_name
from apportion.stores.task_values import NewTask
from apportion.work import admin
from apportion.work.facade import Queue
from tests.sim.scenarios.sqlite_backing import SqliteBacking

URL, TTL_SECONDS = "sqlite:///work.db", 2.0
OUTAGES = (OutcomeUnknown, StoreDenied, StoreUnavailable, StoreWentBack)
EVERY = 17  # of the turns, in one test; `make soak` takes all
RUNS: list[tuple[str, int]] = []
DECLARED = Queue(URL, "q")


@pytest.fixture(autouse=True)
def _no_runs():
    RUNS.clear()


@DECLARED.task()
async def quick(number: int) -> None:
    """Note the process that runs it."""
    RUNS.append((running_name(), number))


@DECLARED.task()
def plain(number: int) -> None:
    """Note the process that runs it, without a loop."""
    RUNS.append((running_name(), number))


@DECLARED.task()
async def slow(number: int) -> None:
    """Take a second."""
    RUNS.append((running_name(), number))
    await asyncio.sleep(1.0)


@DECLARED.task()
async def long(number: int) -> None:
    """Take several times to live."""
    RUNS.append((running_name(), number))
    await asyncio.sleep(4 * TTL_SECONDS)


@DECLARED.task()
async def tidy(number: int) -> None:
    """Clean up for some seconds when it is cancelled."""
    RUNS.append((running_name(), number))
    try:
        await asyncio.sleep(60.0)
    finally:
        await asyncio.sleep(3.0)
        RUNS.append((running_name(), -number))


def queue(name="q"):
    """Return a queue for one process; it knows the functions of this file."""
    made = Queue(URL, name, lease_ttl=timedelta(seconds=TTL_SECONDS))
    made._functions.update(DECLARED._functions)
    return made


async def works(concurrency=2, name="q"):
    """Work for ever."""
    async with queue(name).worker(concurrency=concurrency):
        await asyncio.Event().wait()


async def enqueues(*calls, name="q"):
    """Enqueue calls, each until it is acknowledged."""
    here = queue(name)
    for call in calls:
        while True:
            with suppress(*OUTAGES):
                await here.enqueue(call)
                break
            await asyncio.sleep(0.05)
    await here.close()


def opened(world):
    return sorted(world.checker.history.tasks.open.values(), key=lambda task: task.position)


def until(world, condition, most=30.0):
    """Run until a condition holds; return the seconds that it took."""
    began = world.now
    while not condition():
        assert world.now - began < most, opened(world)
        world.run(until=world.now + 0.05)
    return world.now - began


def started(seed, *, workers=1, **options):
    """Return a world with workers that have found nothing to do yet."""
    world = World(seed, **options)
    for number in range(workers):
        world.spawn(f"w{number}", works())
    world.run(until=0.5)
    return world


@pytest.mark.parametrize("store", [{}, {"store": SqliteBacking}], ids=["memory", "sqlite"])
@pytest.mark.parametrize("function", [quick, plain])
def test_a_task_runs_in_a_world_as_elsewhere(function, store):
    with started(1, **store) as world:
        world.spawn("e", enqueues(function.call(7)))
        until(world, lambda: RUNS and not opened(world))
        assert [("w0", 7)] == RUNS


def test_the_task_of_a_killed_worker_runs_in_a_child_of_another_one():
    with started(1, workers=2) as world:
        world.spawn("e", enqueues(slow.call(1)))
        until(world, lambda: RUNS)
        killed = RUNS[0][0]
        world.kill(killed)
        took = until(world, lambda: len(RUNS) == 2 and not opened(world))
        assert RUNS[1][0].startswith("(child 1 of w")
        assert killed not in RUNS[1][0]
        assert took < TTL_SECONDS + 1.0 + 1.2


def test_a_child_that_is_killed_costs_its_task_one_crash_and_ends_no_worker():
    with started(1, workers=2) as world:
        world.spawn("e", enqueues(slow.call(1)))
        until(world, lambda: RUNS)
        world.kill(RUNS[0][0])
        until(world, lambda: len(RUNS) == 2)
        world.kill(RUNS[1][0])
        until(world, lambda: len(RUNS) == 3)
        (task,) = opened(world)
        assert (1, 1) == (task.crashes, len(task.deaths_of))
        until(world, lambda: not opened(world))


def test_a_child_ends_with_its_worker():
    with started(1, workers=2) as world:
        world.spawn("e", enqueues(slow.call(1)))
        until(world, lambda: RUNS)
        world.kill(RUNS[0][0])
        until(world, lambda: len(RUNS) == 2)
        (child,) = world.children.names
        world.kill(child.removesuffix(")").rpartition(" ")[2])
        assert [] == world.children.names
        assert child not in world.processes.names


@pytest.mark.parametrize("place", ["store", "tasks"])
def test_the_store_and_its_tasks_are_cut_off_separately(place):
    with started(1) as world:
        before = len(world.checker.history.leases)
        world.partition("w0", place, 6.0)
        world.spawn("e", enqueues(quick.call(1)))
        world.run(until=world.now + 1.0)
        assert (place == "store") == bool(RUNS)
        world.run(until=world.now + 4.0)
        assert before == 1
        assert (place == "tasks") == (1 in world.backing._memory.ledger.leases)
        until(world, lambda: RUNS)


@pytest.mark.parametrize("store", [{}, {"store": SqliteBacking}], ids=["memory", "sqlite"])
def test_a_queue_goes_on_after_its_store_went_back(store):
    with started(1, **store) as world:
        copy, here = world.backing.save(), queue()

        async def _enqueue_twice():
            await here.enqueue(quick.call(1))
            await asyncio.sleep(1.0)
            await here.enqueue(quick.call(2))

        world.spawn("e", _enqueue_twice())
        until(world, lambda: RUNS)
        world.restore(copy, "is restored")
        until(world, lambda: len(RUNS) == 2)
        assert ("w0", 2) == RUNS[1]


def test_a_file_that_is_older_than_the_first_task_is_taken_up():
    with World(1, store=SqliteBacking) as world:
        copy = world.backing.save()
        world.spawn("w0", works())
        world.run(until=0.5)
        world.restore(copy, "is restored to a time before the first task")
        world.run(until=1.0)
        world.spawn("e", enqueues(quick.call(1)))
        until(world, lambda: RUNS)


def test_a_store_that_went_back_ends_the_session_of_a_worker():
    with started(1) as world:
        first = set(world.checker.history.tasks.alive)
        world.partition("w0", "store", 1.0)  # so the worker learns it from its tasks
        world.restore(world.backing.save(), "is restored")
        world.spawn("e", enqueues(slow.call(1)))
        until(world, lambda: RUNS)
        (task,) = opened(world)
        assert 1 == len(first)
        assert task.session not in first


def test_a_worker_leaves_though_its_store_went_back():
    async def _leaves():
        async with queue().worker():
            await asyncio.sleep(1.0)

    with started(1) as world:
        world.spawn("e", enqueues(slow.call(1), slow.call(2)))
        leaving = world.spawn("w1", _leaves())
        world.run(until=world.now + 0.9)
        world.restore(world.backing.save(), "is restored")
        world.partition("w1", "store", 0.5)
        until(world, leaving.done, most=10.0)


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_whichever_turn_is_lost_everything_is_served_within_a_lease_and_a_second(way, seed):
    took = {}
    for number in range(1, 9):
        RUNS.clear()
        with started(seed, workers=2) as world:
            world.record(Calm(at=world.now))
            world.task_troubles.losses.lose(number, way)
            world.spawn("e", enqueues(*(quick.call(each) for each in range(3))))
            took[number] = until(world, lambda: len(RUNS) >= 3 and not opened(world))
            assert {0, 1, 2} == {each for _, each in RUNS}
    assert {} == {number: seconds for number, seconds in took.items() if seconds > TTL_SECONDS + 1.0}


def test_claims_of_a_turn_that_happens_long_after_its_worker_gave_it_up_are_given_back():
    for seed in range(12):
        RUNS.clear()
        with started(seed) as world:
            world.spawn("e", enqueues(quick.call(1)))
            world.network.clog("w0", "tasks", 1.0)
            took = until(world, lambda: RUNS)
            assert took < 1.0 + TTL_SECONDS + 1.0


def test_two_workers_of_a_process_keep_their_claims_whoever_reads_them_back():
    async def _both():
        async with queue("a").worker(concurrency=1), queue("b").worker(concurrency=1):
            await asyncio.Event().wait()

    with World(1) as world:
        world.spawn("w", _both())
        world.spawn("e", enqueues(long.call(1), long.call(2), name="a"))
        world.spawn("f", enqueues(long.call(3), long.call(4), name="b"))
        until(world, lambda: len(RUNS) >= 4 and not opened(world), most=60.0)
        assert [1, 2, 3, 4] == sorted(number for _, number in RUNS)


def test_a_run_that_is_cancelled_again_and_again_is_settled_once_it_has_cleaned_up():
    with started(1) as world:
        world.spawn("e", enqueues(tidy.call(1)))
        until(world, lambda: RUNS)
        (task,) = opened(world)
        world.spawn("o", admin.cancel(URL, task.id))
        until(world, lambda: not opened(world))
        assert [("w0", 1), ("w0", -1)] == RUNS


def test_claims_that_come_when_a_worker_leaves_are_given_back_unbegun():
    async def _leaves():
        async with queue().worker():
            await asyncio.sleep(0.5)

    for seed in range(12):
        RUNS.clear()
        with World(seed) as world:
            world.spawn("w0", _leaves())
            world.run(until=0.4)
            world.network.weather = Weather(least_seconds=0.09, most_seconds=0.11)
            world.spawn("e", enqueues(slow.call(1)))
            world.run(until=3.0)
            left = [task.state for task in opened(world)]
            assert (["ready"] if not RUNS else []) == left


def test_past_its_deadline_a_worker_claims_nothing():
    with started(1) as world:
        world.partition("store", "w0", 5.0, one_way=True)  # its renewals arrive, and it does not hear so
        world.run(until=world.now + TTL_SECONDS)
        world.spawn("e", enqueues(quick.call(1)))
        world.run(until=world.now + 1.0)
        assert [] == RUNS
        until(world, lambda: RUNS)


def test_a_worker_that_waits_for_work_ends_the_leases_of_the_dead():
    with World(1) as world:
        world.run(world.store("b").grant(ttl_seconds=1.0))
        tasks = world.tasks("a")
        world.spawn("a", tasks.wait(3.0))
        world.run(until=1.5)
        assert frozenset() == world.checker.history.tasks.alive


def test_an_expiry_counts_by_the_clock_of_the_store():
    async def _enqueue():
        await queue().enqueue(quick.call(1), expires=timedelta(seconds=1))

    for seed in range(6):
        with World(seed) as world:
            world.backing.step_clock(-7_200_000)
            world.spawn("e", _enqueue())
            world.run(until=0.3)
            (task,) = opened(world)
            assert 0 <= task.new.expires_at - 1_000 - (round(BEGIN_OF_TIME * 1_000) - 7_200_000) < 300


async def _works_for(seconds):
    with suppress(TimeoutError):
        await asyncio.wait_for(works(), seconds)


def played(seed, turn=None):
    """Let a worker run tasks, cancelled at a turn; return how many it took, and what is left of it."""
    with World(seed) as world:
        world.spawn("e", enqueues(*(slow.call(number) for number in range(3)), quick.call(4)))
        world.spawn("b", works())
        world.run(until=0.3)
        task = world.spawn("a", _works_for(3.0))
        first, last = world.loop.steps, []
        task.add_done_callback(lambda _: last.append(world.loop.steps))
        if turn is not None:
            world.loop.at_step(first + turn, task.cancel)
        while not task.done():
            world.run(until=world.now + 0.1)
            assert world.now < 40.0, "its caller waits for ever"
        world.run(until=world.now + TTL_SECONDS + 1.0)
        return last[0] - first, [*remains(world, "a"), *(f"task {each.id} is open" for each in opened(world))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "every"), [(0, EVERY), *(pytest.param(seed, 1, marks=pytest.mark.soak) for seed in range(4))], ids=str
)
def test_a_worker_that_is_cancelled_at_any_turn_leaves_nothing(seed, every):
    turns, left = played(seed)
    assert [] == left
    assert turns > 100
    found = {turn: left for turn in range(1 + seed % every, turns, every) if (left := played(seed, turn)[1])}
    assert {} == found


def test_a_world_shows_tasks_once_they_are_opened():
    with World(1) as world:
        world.run(until=0.1)
        assert world.checker.history.tasks is None

        async def _add():
            await world.tasks("a").enqueue([NewTask(id="t", queue="q", name="f", arguments=b"")])

        world.spawn("a", _add())
        world.run(until=0.2)
        assert ["t"] == [task.id for task in opened(world)]
