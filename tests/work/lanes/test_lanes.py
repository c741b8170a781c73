"""The lanes of a worker: its claims hold them, and a lane that moves waits for its running tasks alone."""

import asyncio
import logging
import re
from datetime import timedelta
from itertools import count

import pytest

from apportion.errors import InvalidInput
from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.task_values import Claim, Receipt
from apportion.work.lanes.keys import checked_keys
from apportion.work.lanes.lane_member import LaneMember
from apportion.work.lanes.lane_statistics import LaneStatistics
from apportion.work.lanes.lanes import GroupLanes

PARTITIONS = 8
_numbers = count()


def played(play):
    return asyncio.run(asyncio.wait_for(play, 30))


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0.005)


class Stage:
    """The workers of one queue, each a member of its group in a memory store."""

    def __init__(self, *, drain_seconds=20.0):
        self._keys = checked_keys(f"memory://lanes-{next(_numbers)}", "apportion/q", PARTITIONS, None)
        self._drain, self.lost, self.mended = timedelta(seconds=drain_seconds), [], []
        self.statistics = LaneStatistics()

    async def worker(self, name):
        member = LaneMember(member_id=name, settle=timedelta(0), drain_timeout=self._drain)
        options = member.options(self._keys, ttl_seconds=2.0)
        failed = lambda: self.lost.append(("failed", name))  # noqa: E731
        return await GroupLanes.begin(
            self._keys.queue,
            self._keys.group_url,
            options,
            self.statistics,
            mend=self.mend,
            lost=lambda lanes: self.lost.append((name, lanes)),
            failed=failed,
        )

    async def mend(self, command):
        self.mended.append(command)
        return 1


def claim(partition, number=1):
    receipt = Receipt(task=f"t{partition}", attempt=number, session=1)
    return Claim(
        receipt=receipt,
        queue="apportion/q",
        lane=KEYED_LANES + partition,
        key=f"k{partition}",
        name="f",
        codec="json",
        arguments=b"{}",
        failures=0,
        deaths=0,
        crashes=0,
        enqueued=0,
        trace="",
    )


def partitions(lanes):
    return {each.partition for each in lanes.owned()}


def test_a_lane_that_moves_waits_for_its_running_task_and_the_others_do_not():
    async def story():
        stage = Stage()
        first = await stage.worker("a")
        await until(lambda: len(partitions(first)) == PARTITIONS)
        held = [claim(each) for each in range(PARTITIONS)]
        assert PARTITIONS == len(first.held(held)[0])
        first.release([each.receipt for each in held[:-1]])

        second = await stage.worker("b")
        await until(lambda: len(partitions(second)) >= PARTITIONS // 2 - 1)
        moving = next(lanes for name, lanes in stage.lost if name == "a")
        waits = {PARTITIONS - 1} & moving
        assert (moving - waits, moving) == (partitions(second), set(range(PARTITIONS)) - partitions(first))
        first.release([held[-1].receipt])
        await until(lambda: partitions(second) == moving)
        await asyncio.gather(first.end(), second.end())

    played(story())


def test_a_task_that_outlives_the_drain_runs_on_and_its_lane_moves():
    async def story():
        stage = Stage(drain_seconds=0.1)
        first = await stage.worker("a")
        await until(lambda: len(partitions(first)) == PARTITIONS)
        held, _ = first.held([claim(each) for each in range(PARTITIONS)])
        second = await stage.worker("b")
        await until(lambda: len(partitions(second)) == PARTITIONS // 2)
        tokens = {each.lane - KEYED_LANES: each.lane_token for each in held}
        assert all(each.token > tokens[each.partition] for each in second.owned())
        first.release([each.receipt for each in held])
        assert PARTITIONS // 2 == len(partitions(first))
        await asyncio.gather(first.end(), second.end())
        assert PARTITIONS // 2 <= stage.statistics.handovers.count

    played(story())


def test_a_claim_in_a_lane_that_has_moved_is_not_held():
    async def story():
        stage = Stage()
        first = await stage.worker("a")
        await until(lambda: len(partitions(first)) == PARTITIONS)
        second = await stage.worker("b")
        await until(lambda: len(partitions(second)) == PARTITIONS // 2)
        claims = [claim(each) for each in range(PARTITIONS)]
        held = {each.lane - KEYED_LANES: each.lane_token for each in first.held(claims)[0]}
        assert {each.partition: each.token for each in first.owned()} == held
        again, moved = first.held(claims)
        assert (len(held), {("released", "its lane has moved")}) == (len(again), {(e.fate, e.reason) for e in moved})
        first.release([each.receipt for each in claims])
        await asyncio.gather(first.end(), second.end())

    played(story())


def test_a_lane_that_the_store_refuses_is_told_once_and_shown_again(caplog):
    async def story():
        stage = Stage()
        first = await stage.worker("a")
        await until(lambda: len(partitions(first)) == PARTITIONS)
        refused = first.owned()[3]
        for fenced in ([refused], [refused], [refused, first.owned()[5]], []):
            await first.refused(fenced, 7)
        assert set(range(PARTITIONS)) == partitions(first)
        assert (2, []) == (stage.statistics.fenced, stage.mended)
        await first.end()

    caplog.set_level(logging.WARNING, "apportion.work")
    played(story())
    told = [each.getMessage() for each in caplog.records if "later owner" in each.getMessage()]
    assert ["lane 3 of apportion/q", "lane 5 of apportion/q"] == [
        re.search(r"lane \d of \S+", each)[0] for each in told
    ]


def test_the_statistics_count_lanes_without_an_owner_and_hand_overs():
    async def story():
        stage = Stage()
        assert stage.statistics.without_owner is None
        first = await stage.worker("a")
        await until(lambda: len(partitions(first)) == PARTITIONS)
        assert 0 == stage.statistics.without_owner
        second = await stage.worker("b")
        await until(lambda: len(partitions(second)) == PARTITIONS // 2)
        await second.end()
        await until(lambda: len(partitions(first)) == PARTITIONS)
        await first.end()
        assert PARTITIONS <= stage.statistics.handovers.count
        assert stage.statistics.without_owner is None

    played(story())


def test_the_wake_up_follows_a_gain():
    async def story():
        stage = Stage()
        first = await stage.worker("a")
        await asyncio.wait_for(first.woken.wait(), 10)
        await first.end()

    played(story())


@pytest.mark.parametrize("number", [4, 16])
def test_another_number_of_partitions_than_the_group_has_is_refused(number):
    async def story():
        stage = Stage()
        first = await stage.worker("a")
        keys = checked_keys(stage._keys.group_url, "apportion/q", number, None)
        options = LaneMember(member_id="b").options(keys, ttl_seconds=2.0)
        with pytest.raises(InvalidInput, match="partitions"):
            await GroupLanes.begin("q", keys.group_url, options, stage.statistics, mend=print, lost=print, failed=print)
        await first.end()

    played(story())
