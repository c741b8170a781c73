"""What a user does with an open group, right and wrong: groups of one process on one file of SQLite."""

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import apportion
from apportion import sync
from apportion.errors import DuplicateMember, InvalidInput, NotOwner
from apportion.runtime.clock import SystemClock

pytestmark = pytest.mark.live
PATIENCE_SECONDS = 30
CLOCK = SystemClock()


@pytest.fixture
def opened(tmp_path):
    """Return what opens a member of one group."""

    def open_one(member_id, *, opening=apportion.open_group, partitions=8, ttl=5.0, **options):
        url, lease = f"sqlite:///{tmp_path / 'store.db'}", timedelta(seconds=ttl)
        return opening(url, "work", partitions=partitions, member_id=member_id, lease_ttl=lease, **options)

    return open_one


def run(work):
    """Run a coroutine, for so long."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE_SECONDS))


async def until(is_so):
    """Wait until something is so."""
    while not is_so():
        await asyncio.sleep(0.005)


def test_what_stays_keeps_its_holding_object(opened):
    async def story():
        async with opened("ann") as ann:
            await ann.wait_until_settled()
            before = dict(ann.owned)
            async with opened("bob") as bob:
                await asyncio.gather(ann.wait_until_settled(), bob.wait_until_settled())
                assert 4 == len(ann.owned) == len(bob.owned)
                assert all(ann.owned[each] is before[each] for each in ann.owned)

    run(story())


def test_a_second_consumer_of_changes_is_refused_and_the_first_goes_on(opened):
    async def story():
        async with opened("ann") as ann:
            changes = ann.changes()
            seen = set((await anext(changes)).gained)
            with pytest.raises(InvalidInput, match="a second one"):
                await anext(ann.changes())
            while len(seen) < 8:
                seen.update((await anext(changes)).gained)
            async with opened("bob"):
                assert 4 == len((await anext(changes)).lost)
                await changes.aclose()

    run(story())


def test_a_live_id_is_refused_after_a_lease_and_a_second(opened):
    async def story():
        async with opened("ann", ttl=1.0) as ann:
            await ann.wait_until_settled()
            before = dict(ann.owned)
            with pytest.raises(DuplicateMember, match="'ann' is there already"):
                await opened("ann", ttl=1.0).__aenter__()
            assert before == dict(ann.owned)

    run(story())


def test_a_live_id_that_is_replaced_hands_over_and_leaves(opened):
    async def story():
        async with opened("ann") as old:
            await old.wait_until_settled()
            async with opened("ann", replace=True) as new:
                await new.wait_until_settled()
                assert (8, 0) == (len(new.owned), len(old.owned))

    run(story())


def test_a_partition_that_is_not_ours_cannot_be_held(opened):
    async def story():
        async with opened("ann") as ann, opened("bob") as bob:
            await asyncio.gather(ann.wait_until_settled(), bob.wait_until_settled())
            for partition in bob.owned:
                with pytest.raises(NotOwner, match="another member owns it"):
                    await ann.hold(partition).__aenter__()
                with pytest.raises(NotOwner, match="bob owns it"):
                    ann.token(partition)
            with pytest.raises(InvalidInput):
                ann.token(8)

    run(story())


def test_a_handler_that_raises_is_called_again_and_the_others_are_served(opened):
    tries = []

    async def on_gained(partition, token):
        if partition == 3:
            tries.append(partition)
            if len(tries) < 3:
                raise RuntimeError("not yet")
        served.add(partition)

    async def story():
        async with opened("ann") as ann:
            serving = asyncio.create_task(ann.serve(on_gained=on_gained))
            await until(lambda: ann.failing)
            assert {3: "RuntimeError: not yet"} == dict(ann.failing)
            await until(lambda: served == set(range(8)))
            ann.leave()
            await serving
            assert {} == dict(ann.failing)

    served = set()
    run(story())
    assert 3 == len(tries)


def test_a_handler_that_hangs_is_cancelled_when_the_drain_is_over(opened):
    async def on_lost(partition, token):
        await asyncio.Event().wait()

    async def story():
        async with opened("ann", drain_timeout=timedelta(seconds=0.5)) as ann:
            serving = asyncio.create_task(ann.serve(on_lost=on_lost))
            await ann.wait_until_settled()
            async with opened("bob") as bob:
                await bob.wait_until_settled()
                assert (4, 4) == (len(ann.owned), len(bob.owned))
            ann.leave()
            await serving

    run(story())


def test_handlers_serve_again_after_a_lapse_of_the_session(opened):
    """The deadline passes, but the record is still there: the session goes on, and so must the handlers."""
    gained = []

    async def on_gained(partition, token):
        gained.append((partition, token))

    async def story():
        async with opened("ann", ttl=1.0) as ann:
            serving = asyncio.create_task(ann.serve(on_gained=on_gained))
            await until(lambda: len(gained) == 8)
            before = sorted(gained, key=str)
            holdings, driver = ann._participation.holdings, ann._participation.driver
            driver.parts.inbox._loop.call_soon_threadsafe(lapse, holdings, driver)
            await until(lambda: len(gained) == 16)
            assert before == sorted(gained[8:], key=str)
            ann.leave()
            await serving

    def lapse(holdings, driver):
        holdings.deadline = float("-inf")
        driver.parts.inbox.hear(None)

    run(story())


def test_work_that_ends_between_two_sessions_holds_up_neither(opened, tmp_path):
    async def held_until_revoked(group):
        async with group.hold(3):
            lease = (await group.members())["ann"].lease
            async with apportion.open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
                await store.revoke(lease)
            await asyncio.Event().wait()

    async def story():
        async with opened("ann", ttl=1.0, drain_timeout=timedelta(seconds=0.5)) as ann:
            await ann.wait_until_settled()
            with pytest.raises(NotOwner, match="while it was held"):
                await held_until_revoked(ann)
            await until(lambda: 8 == len(ann.owned))
            before, back = dict(ann.owned), CLOCK.elapsed()
            await until(lambda: CLOCK.elapsed() > back + 3.0)  # two drains and leases
            assert before == dict(ann.owned)

    run(story())


def test_work_without_progress_costs_the_session_and_is_told(opened):
    def work(group, partition, done):
        with group.hold(partition):  # of a thread: nobody can cancel it
            assert done.wait(PATIENCE_SECONDS)

    async def story():
        done, limit = threading.Event(), timedelta(seconds=0.5)
        async with opened("bob", ttl=1.0) as bob:
            with opened("ann", opening=sync.open_group, ttl=1.0, progress_deadline=limit) as ann:
                await until(lambda: 4 == len(ann.owned) == len(bob.owned))
                partition, counted = next(iter(ann.owned)), ann.statistics
                worker = asyncio.create_task(asyncio.to_thread(work, ann, partition, done))
                await until(lambda: counted.given_up)
                given_up = CLOCK.elapsed()
                await until(lambda: 8 == len(bob.owned))  # by expiry: the work goes on, and nothing was handed over
                assert CLOCK.elapsed() - given_up >= 0.5  # of a lease of 1 s, however late we noticed
                assert (1, f"stuck: work on partition {partition} makes no progress") == (
                    counted.given_up,
                    counted.stuck,
                )
                done.set()
                await worker
                await until(lambda: 4 == len(ann.owned))

    run(story())


FORKING = """
import os, sys
from datetime import timedelta
from apportion import sync
from apportion.errors import ApportionError, NotOwner

with sync.open_group(sys.argv[1], "work", partitions=4, member_id="ann", lease_ttl=timedelta(seconds=30)) as group:
    group.wait_until_settled()
    child = os.fork()
    if child == 0:
        try:
            assert 0 == len(group.owned), "owns"
            try:
                group.hold(0).__enter__()
                os._exit(2)
            except NotOwner:
                pass
            try:
                group.members()
                os._exit(3)
            except ApportionError:
                os._exit(0)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(4)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(group.owned), flush=True)
"""


def test_a_forked_child_owns_nothing_and_its_parent_goes_on(tmp_path):
    command = [sys.executable, "-c", FORKING, f"sqlite:///{tmp_path / 'store.db'}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert "0 4" == done.stdout.strip(), done.stdout + done.stderr


def test_a_sync_group_does_the_same(opened):
    with opened("ann", opening=sync.open_group) as ann, opened("bob", opening=sync.open_group) as bob:
        ann.wait_until_settled()
        bob.wait_until_settled()
        assert list(range(8)) == sorted([*ann.owned, *bob.owned])
        assert {"ann", "bob"} == ann.members().keys()
        partition = min(ann.owned)
        with ann.hold(partition) as token:
            assert token == ann.token(partition)
        for change in bob.changes():
            assert 4 == len(change.gained)
            break
