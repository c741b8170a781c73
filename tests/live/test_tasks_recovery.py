"""The tasks of a worker that was killed start elsewhere, though all others are busy and many tasks wait.

How soon they start where others have room is a figure of `bench`.
"""

import asyncio
import os
import statistics
import time

import pytest

from tests.live.task_fleet import LOOK_SECONDS, Feeder, Fleet
from tests.live.task_places import PLACES
from tests.live.task_verdict import open_at, read
from tests.stores.rigs import rig_of
from tests.work.killed_tasks import TTL

IS_LONG = os.environ.get("APPORTION_GROUP_RUNS") == "500"
WAITING, KILLS = (100_000, 100) if IS_LONG else (20_000, 6)
WORKERS = 4
SOON_SECONDS = TTL.total_seconds() + 1
SLACK_SECONDS = 12.0  # of workers that are all busy, on a machine that runs other tests too
PATIENCE_SECONDS = 60.0


def recoveries(lines, kills):
    """Return for each kill the time to the last start elsewhere of a first run: None while one has not started.

    A task that has died before waits on purpose after its second death.
    """
    return [_recovery(lines, pid, at) for pid, at in kills]


def _recovery(lines, pid, at):
    runs = open_at(lines, pid, at) - _tried(lines, pid, at)
    starts = [_next_start(lines, number) for number, attempt in runs if attempt == 1]
    return None if None in starts else max(starts, default=at) - at


def _tried(lines, pid, at):
    """Return the runs of a worker that may have been completed by the time of its end."""
    return {(line.number, line.attempt) for line in lines if (line.word, line.pid) == ("tried", pid) and line.at <= at}


def _next_start(lines, number):
    """Return the time of the second attempt of a task; it is past if the session of the first had lapsed."""
    later = (line.at for line in lines if (line.word, line.number) == ("begun", number) and line.attempt > 1)
    return min(later, default=None)


async def killed(place, fleet, feeder):
    """Kill workers one after another, each time when the tasks of the last one run again; return the recoveries."""
    for _ in range(WAITING // 5_000):
        await feeder.add(5_000)
    place.prepare()
    await fleet.start(WORKERS)
    for _ in range(KILLS):
        await fleet.kill()
        ends = time.monotonic() + PATIENCE_SECONDS
        while None in recoveries(read(fleet.log), fleet.kills):
            assert time.monotonic() < ends, "a task of a killed worker never starts again"
            await asyncio.sleep(LOOK_SECONDS)
    await feeder.queue.close()
    return recoveries(read(fleet.log), fleet.kills)


@pytest.mark.live
@pytest.mark.timeout(900 if IS_LONG else 240)
@pytest.mark.parametrize("name", list(PLACES))
def test_the_tasks_of_a_killed_worker_start_elsewhere_though_all_others_are_busy(name, tmp_path, record_property):
    rig = rig_of(name)()
    place = PLACES[name](rig)
    feeder = Feeder(place.url, tmp_path / "log")
    fleet = Fleet(place.url, tmp_path / "log", tmp_path / "errors")
    try:
        found = sorted(asyncio.run(killed(place, fleet, feeder)))
    finally:
        fleet.end()
        asyncio.run(rig.close())
    told = (
        f"{name}: tasks of {len(found)} killed workers, lease {TTL.total_seconds():g} s, {WAITING} tasks waiting:"
        f" started elsewhere after {statistics.median(found):.2f} s (median), {found[-1]:.2f} s (last)"
    )
    record_property("figures", told)
    measured = [seconds for seconds in found if seconds > 0]
    assert KILLS == len(found)
    assert 0.6 * KILLS <= len(measured), told
    assert TTL.total_seconds() / 2 < statistics.median(measured), told
    assert measured[int(0.99 * len(measured)) - 1] <= SOON_SECONDS + SLACK_SECONDS, told
