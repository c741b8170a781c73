"""A progress deadline where handlers serve: one that hangs is found, and what was served by others goes on for ever."""

import asyncio
import functools
import threading
from datetime import timedelta

import pytest

import apportion
from apportion import sync
from apportion.runtime.clock import SystemClock

pytestmark = pytest.mark.live
PATIENCE_SECONDS = 30
LIMIT = timedelta(seconds=0.5)
LONG_SECONDS = 10.0  # a lease that a busy machine does not lose
CLOCK = SystemClock()


@pytest.fixture
def opened(tmp_path):
    """Return what opens a member of one group, with a progress deadline of half a second."""
    url, given = f"sqlite:///{tmp_path / 'store.db'}", {"partitions": 4, "member_id": "ann", "progress_deadline": LIMIT}
    return lambda opening, *, ttl=1.0: opening(url, "work", lease_ttl=timedelta(seconds=ttl), **given)


def run(work):
    """Run a coroutine, for so long."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE_SECONDS))


async def until(is_so):
    """Wait until something is so."""
    while not is_so():
        await asyncio.sleep(0.005)


async def go_on(group, gained):
    """Serve for six deadlines: as long as three sessions that are given up would last."""
    await until(lambda: len(gained) == 4)
    before, began = dict(group.owned), CLOCK.elapsed()
    await until(lambda: CLOCK.elapsed() > began + 6 * LIMIT.total_seconds())
    assert (0, "") == (group.statistics.given_up, group.statistics.stuck)
    assert before == dict(group.owned)
    assert [0, 1, 2, 3] == sorted(gained)


def test_partitions_whose_handlers_have_returned_cost_no_session(opened):
    gained = []

    async def on_gained(partition, token):
        gained.append(partition)

    async def story():
        async with opened(apportion.open_group, ttl=LONG_SECONDS) as ann:
            serving = asyncio.create_task(ann.serve(on_gained=on_gained))
            await go_on(ann, gained)
            ann.leave()
            await serving

    run(story())


def test_partitions_whose_handlers_have_returned_in_threads_cost_no_session(opened):
    gained = []

    def on_gained(partition, token):
        gained.append(partition)

    async def story(ann):
        serving = asyncio.create_task(asyncio.to_thread(ann.serve, on_gained=on_gained))
        await go_on(ann, gained)
        ann.leave()
        await serving

    with opened(sync.open_group, ttl=LONG_SECONDS) as ann:
        run(story(ann))


@pytest.mark.parametrize("name", ["on_gained", "on_lost"])
def test_a_handler_that_hangs_costs_the_session_and_is_told(opened, name):
    called = []

    async def hang(partition, token):
        called.append(partition)
        if partition == 2 and called.count(2) == 1:
            await asyncio.Event().wait()

    async def story():
        async with opened(apportion.open_group) as ann:
            serving = asyncio.create_task(ann.serve(**{name: hang}))
            await ann.wait_until_settled()
            if name == "on_lost":
                ann.leave()
            await until(lambda: ann.statistics.given_up)
            assert (1, "stuck: work on partition 2 makes no progress") == (
                ann.statistics.given_up,
                ann.statistics.stuck,
            )
            if name == "on_gained":
                await until(lambda: called.count(2) == 2)  # in another session
            ann.leave()
            await serving

    run(story())


def test_a_handler_that_hangs_in_a_thread_costs_the_session_which_begins_anew_when_it_has_ended(opened):
    called, done = [], threading.Event()

    def on_gained(partition, token):
        called.append((partition, token.epoch))
        if (partition, token.epoch) == (2, 1):
            assert done.wait(PATIENCE_SECONDS)

    async def story(ann):
        serve = functools.partial(ann.serve, on_gained=on_gained)
        serving = asyncio.create_task(asyncio.to_thread(serve))
        await until(lambda: ann.statistics.given_up)
        assert (1, "stuck: work on partition 2 makes no progress") == (ann.statistics.given_up, ann.statistics.stuck)
        await until(lambda: [] == list(ann.owned))
        done.set()
        await until(lambda: 2 in [partition for partition, epoch in called if epoch > 1])
        ann.leave()
        await serving

    with opened(sync.open_group) as ann:
        run(story(ann))
