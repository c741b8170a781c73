"""Tasks while workers are killed, stopped and woken, and stores cut and restarted: none lost, none completed twice."""

import asyncio
import os
import time
from collections import Counter

import pytest

from apportion.stores.catalog import connect_tasks
from apportion.stores.task_control import Listing
from tests.live.task_fleet import Feeder, Fleet
from tests.live.task_places import PLACES, effects
from tests.live.task_verdict import Said, read, verdict
from tests.stores.rigs import rig_of
from tests.work.killed_tasks import TTL

IS_LONG = os.environ.get("APPORTION_GROUP_RUNS") == "500"
LEAST_TRIED = 0.9 if IS_LONG else 0.5  # of ten workers on a machine that runs other tests too, chance may take some
KILLS, STOPS, CUTS, RESTARTS = (200, 100, 20, 5) if IS_LONG else (20, 10, 2, 1)
WORKERS, AT_ONCE = 5, 2
REST_SECONDS = 0.5  # between two acts, so that new workers have claims
PATIENCE_SECONDS = 60


async def storm(place, fleet, feeder):
    """Do all acts upon workers and store, in an order that is drawn, while the feeder feeds; then wait for the rest."""
    acts = ["kill"] * KILLS + ["cut"] * CUTS + ["restart"] * RESTARTS
    fleet.draw.shuffle(acts)
    await feeder.add(100)
    place.prepare()
    await fleet.start(WORKERS)
    feeding = asyncio.create_task(feeder.feed())
    stopping = [asyncio.create_task(stops(fleet)) for _ in range(AT_ONCE)]
    for act in acts:
        if act == "kill":
            await fleet.kill()
        elif act == "cut":
            await place.cut()
        else:
            await place.restart(fleet)
        await asyncio.sleep(REST_SECONDS)
    await asyncio.gather(*stopping)
    feeding.cancel()
    await asyncio.gather(feeding, return_exceptions=True)
    ends = time.monotonic() + PATIENCE_SECONDS
    while left := feeder.acknowledged - effects(place).keys():
        assert time.monotonic() < ends, f"{len(left)} tasks have no effect: {await open_tasks(place)}"
        await asyncio.sleep(0.2)
    await asyncio.sleep(TTL.total_seconds() / 4)  # a second completion would come now
    await feeder.queue.close()


async def open_tasks(place):
    """Return the states, deaths and crashes of the tasks that are open."""
    tasks = await connect_tasks(place.url)
    rows = await tasks.query(Listing(most=1_000))
    await tasks.close()
    return [(row.state, row.attempt, row.failures, row.deaths, row.crashes, row.reason) for row in rows]


async def stops(fleet):
    """Stop workers one after another, each for longer than its lease."""
    for _ in range(STOPS // AT_ONCE):
        await fleet.stop()


@pytest.mark.live
@pytest.mark.crowded
@pytest.mark.timeout(1_800 if IS_LONG else 240)
@pytest.mark.parametrize("name", list(PLACES))
def test_no_task_is_lost_or_completed_twice_under_kills_stops_cuts_and_restarts(name, tmp_path, record_property):
    rig = rig_of(name)()
    try:
        place = PLACES[name](rig)
        fleet = Fleet(place.url, tmp_path / "log", tmp_path / "errors")
        feeder = Feeder(place.url, tmp_path / "log")
        try:
            asyncio.run(storm(place, fleet, feeder))
        finally:
            fleet.end()
        found = verdict(feeder.acknowledged, effects(place), read(fleet.log), kills=fleet.kills, stops=fleet.stops)
    finally:
        asyncio.run(rig.close())
    told = (
        f"{name}: {len(feeder.acknowledged)} tasks, {found.runs} runs, {found.ran_twice} tasks ran more than once;"
        f" {len(fleet.kills)} kills, {found.kills_that_hit} with open claims; {len(fleet.stops)} stops,"
        f" {found.woken_that_tried} tried to settle after the wake; {CUTS} cuts, {RESTARTS} restarts"
    )
    record_property("figures", told)
    assert ([], []) == (found.lost, found.twice), told
    assert found.kills_that_hit >= 0.6 * len(fleet.kills), told
    assert found.woken_that_tried >= LEAST_TRIED * len(fleet.stops), told
    assert found.ran_twice >= 1, told


def test_the_verdict_finds_a_lost_task_a_double_effect_and_idle_acts():
    lines = [
        Said(word="begun", number=1, attempt=1, pid=7, at=1.0),
        Said(word="begun", number=2, attempt=1, pid=8, at=1.0),
        Said(word="done", number=2, attempt=1, pid=8, at=1.5),
        Said(word="tried", number=1, attempt=1, pid=7, at=5.0),
        Said(word="begun", number=1, attempt=2, pid=8, at=4.0),
    ]
    found = verdict({1, 2, 3}, Counter({1: 2, 2: 1}), lines, kills=[(8, 2.0), (8, 4.5)], stops=[(7, 2.0, 4.5)])
    assert ([3], [1]) == (found.lost, found.twice)
    assert (3, 1, 1, 1) == (found.runs, found.ran_twice, found.kills_that_hit, found.woken_that_tried)
