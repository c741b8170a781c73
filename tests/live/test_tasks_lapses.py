"""Lapses and mass kills: neither makes a dead letter, for a worker that lives has killed nobody."""

import asyncio
import os
import signal
import time
from contextlib import asynccontextmanager

import pytest

from apportion.stores.catalog import connect_tasks
from apportion.stores.task_control import Listing
from tests.live.task_fleet import LOOK_SECONDS, Feeder, Fleet
from tests.live.task_places import PLACES
from tests.live.task_verdict import open_at, read
from tests.stores.rigs import rig_of

pytestmark = [pytest.mark.live, pytest.mark.crowded, pytest.mark.timeout(240)]
DEATHS = LAPSES = 5
WORKERS, MANY = 3, 24
PATIENCE_SECONDS, WOKEN_SECONDS = 40.0, 2.0
FOREVER_SECONDS = 1e6
EVERY_STATE = ("ready", "delayed", "claimed", "dead", "cancelled")


@pytest.fixture(params=list(PLACES))
def place(request):
    """A file, or a server."""
    rig = rig_of(request.param)()
    yield PLACES[request.param](rig)
    asyncio.run(rig.close())


@asynccontextmanager
async def crew(place, tmp_path, *, tasks, longest_seconds):
    """Enqueue tasks; yield a fleet without workers, and the handle of a reader."""
    feeder = Feeder(place.url, tmp_path / "log", deaths=DEATHS, longest_seconds=longest_seconds)
    await feeder.add(tasks)
    await feeder.queue.close()
    place.prepare()
    reader = await connect_tasks(place.url)
    fleet = Fleet(place.url, tmp_path / "log", tmp_path / "errors", deaths=DEATHS)
    try:
        yield fleet, reader
    finally:
        fleet.end()
        await reader.close()


async def rows(reader):
    """Return all tasks that are kept."""
    return await reader.query(Listing(states=EVERY_STATE, most=1_000))


async def until(condition, *, within=PATIENCE_SECONDS):
    """Wait for a condition; return what it returned."""
    ends = time.monotonic() + within
    while not (found := await condition()):
        assert time.monotonic() < ends, f"it does not hold within {within:g} s"
        await asyncio.sleep(LOOK_SECONDS)
    return found


async def runner(fleet):
    """Return the worker that began the last run, once it is one of the fleet that is awake."""

    async def _last():
        begun = [line.pid for line in read(fleet.log) if line.word == "begun"]
        return begun[-1] if begun and begun[-1] in fleet.workers else None

    return await until(_last)


def put_to_sleep(fleet, worker):
    """Stop a worker."""
    fleet.workers.remove(worker)
    os.killpg(worker, signal.SIGSTOP)


def test_a_task_whose_workers_lapse_one_after_another_does_not_die(place, tmp_path):
    async def _run():
        async with crew(place, tmp_path, tasks=1, longest_seconds=FOREVER_SECONDS) as (fleet, reader):
            await fleet.start(2)
            for _ in range(LAPSES):
                sleeper = await runner(fleet)
                put_to_sleep(fleet, sleeper)
                await runner(fleet)
                os.killpg(sleeper, signal.SIGCONT)
                await until(lambda: _is_struck(reader), within=WOKEN_SECONDS + 1)
                fleet.workers.append(sleeper)

    asyncio.run(_run())


async def _is_struck(reader):
    """Whether the task is claimed, without a death."""
    return [("claimed", 0)] == [(row.state, row.deaths) for row in await rows(reader)]


def test_a_task_that_sleeping_workers_condemned_lives_two_seconds_after_they_woke(place, tmp_path):
    async def _run():
        async with crew(place, tmp_path, tasks=1, longest_seconds=FOREVER_SECONDS) as (fleet, reader):
            asleep = []
            for _ in range(LAPSES):
                await fleet.start(1)
                asleep.append(await runner(fleet))
                put_to_sleep(fleet, asleep[-1])
            await fleet.start(1)
            await until(lambda: _is_dead(reader))
            for each in asleep:
                os.killpg(each, signal.SIGCONT)
            await asyncio.sleep(WOKEN_SECONDS)  # the promise has this time
            assert [] == [row.id for row in await rows(reader) if row.state == "dead"]

    asyncio.run(_run())


async def _is_dead(reader):
    return ["dead"] == [row.state for row in await rows(reader)]


def test_two_mass_kills_make_no_dead_letter(place, tmp_path):
    async def _run():
        async with crew(place, tmp_path, tasks=MANY, longest_seconds=2.0) as (fleet, reader):
            await fleet.start(WORKERS)
            for _ in range(2):
                await until(lambda: _most_are_busy(fleet))
                await fleet.kill(WORKERS)
            await until(lambda: _is_empty(reader))
        lines = read(fleet.log)
        assert set(range(MANY)) == {line.number for line in lines if line.word == "done"}
        assert 2 * (WORKERS - 1) <= sum(bool(open_at(lines, *kill)) for kill in fleet.kills)

    asyncio.run(_run())


async def _most_are_busy(fleet):
    lines = read(fleet.log)
    return WORKERS - 1 <= sum(bool(open_at(lines, each, time.monotonic())) for each in fleet.workers)


async def _is_empty(reader):
    found = await rows(reader)
    assert "dead" not in [row.state for row in found]
    return not found
