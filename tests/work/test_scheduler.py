"""A worker's part in the schedules of its queues: it fires, it says what it cannot evaluate, it survives outages."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.runtime.schedule_events import SlotFired
from apportion.stores.catalog import connect_tasks
from apportion.stores.memory.schedules import MemorySchedules
from apportion.stores.memory.store import Memory
from apportion.stores.memory.tasks import MemoryTasks
from apportion.stores.schedules.values import DueSchedule, FireAnswer, TaskSchedule
from apportion.stores.task_control import Listing, StoreTime
from apportion.work.call import Call
from apportion.work.cron import scheduler
from apportion.work.cron.acts import kept
from apportion.work.cron.declaration import cron_schedule, every_schedule, placed
from apportion.work.cron.due_slots import decide, missed_slots
from apportion.work.cron.firing_events import FiringEvents
from apportion.work.cron.scheduler import ScheduledHere, Scheduler
from apportion.work.facade import Queue
from apportion.work.observers.schedule_log import log_schedule
from apportion.work.observers.schedule_statistics import ScheduleStatistics

NOW = 1_800_000_000_500
CALL = Call(name="f", arguments=b"{}")


def memory():
    """Return a store whose clock says `NOW`."""
    clock = SystemClock()
    return Memory(clock, began_ms=NOW - int(clock.elapsed() * 1_000))


def ticking(name="s", **policies):
    return every_schedule("q", name, CALL, timedelta(seconds=1), policies)


def overdue(**fields):
    """Return a schedule whose next slot has come."""
    return replace(ticking(), last_slot=NOW - 5_000, next_slot=NOW - 500, **fields)


async def until(condition):
    """Wait until a condition holds, for ten seconds at most."""
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.02)


def run(*declared, stored=(), until_tasks=1, observers=()):
    """Run a scheduler until so many tasks are there; return them and the schedules."""

    async def _run():
        tasks = MemoryTasks(memory())
        await tasks.schedules.register(stored)
        here = ScheduledHere(declared=declared, observers=(log_schedule, *observers))
        firing = Scheduler(tasks, ["q"], here, by="w")

        async def _enough():
            return len(await tasks.query(Listing(queue="q"))) >= until_tasks

        await until(_enough)
        await firing.end()
        return await tasks.query(Listing(queue="q")), await tasks.schedules.listed("q")

    return asyncio.run(_run())


def test_two_schedulers_trigger_one_job_once(tmp_path):
    async def _run():
        handles = [await connect_tasks(f"sqlite:///{tmp_path / 'work.db'}") for _ in range(2)]
        now = await handles[0].query(StoreTime())
        schedules = [
            replace(ticking(f"s{each:02}"), rule="every 3600000ms", last_slot=now - 7_000, next_slot=now - 6_000)
            for each in range(30)
        ]
        await handles[0].schedules.register(schedules)
        events = []
        here = ScheduledHere(declared=(), observers=(events.append,))
        firing = [Scheduler(each, ["q"], here, by=f"w{number}") for number, each in enumerate(handles)]

        async def _all():
            return len(await handles[0].query(Listing(queue="q", most=100))) >= 30

        await until(_all)
        await asyncio.gather(*[each.end() for each in firing])
        rows = await handles[0].query(Listing(queue="q", most=100))
        for each in handles:
            await each.close()
        return len(rows), sorted(each.schedule for each in events if isinstance(each, SlotFired))

    assert (30, [f"s{each:02}" for each in range(30)]) == asyncio.run(_run())


def test_a_declared_schedule_fires_its_next_slot_and_nothing_of_the_past():
    rows, (schedule,) = run(ticking())
    assert ["f"] == [row.name for row in rows]
    assert 1_000 == schedule.next_slot - schedule.last_slot


def test_a_starting_worker_changes_no_stored_schedule():
    stored = overdue(version=7)
    _, (schedule,) = run(ticking(), stored=[stored])
    assert 7 == schedule.version


@pytest.mark.parametrize(
    "damage",
    [
        {"rule": "30 2 * *"},
        {"rule": "@daily", "zone": "Mars/Olympus"},
        {"overlap": "often"},
        {"rule": "every soon"},
        {"rule": b"every"},
        {"jitter_ms": "soon"},
        {"version": -1},
        {"last_slot": NOW},
    ],
)
def test_a_schedule_that_cannot_be_evaluated_costs_itself_alone(damage, caplog):
    rows, schedules = run(stored=[overdue(), replace(overdue(), name="broken", **damage)])
    assert {"f"} == {row.name for row in rows}
    assert NOW - 500 == schedules[0].next_slot
    assert 1 == sum("broken" in line for line in caplog.messages)


def test_the_fate_of_each_slot_is_told_once_the_store_has_answered():
    events, counts = [], ScheduleStatistics()
    late = replace(ticking(missed="last"), name="late", last_slot=NOW - 60_500, next_slot=NOW - 10_500)
    old = replace(late, name="old", missed="skip", last_slot=NOW - 200_500, next_slot=NOW - 100_500)
    yearly = replace(old, name="yearly", rule="0 0 1 1 *")
    broken = replace(late, name="broken", rule="sometimes")
    run(stored=[late, yearly, broken], until_tasks=1, observers=(events.append, counts.observe))
    told = {(type(each).__name__, each.schedule) for each in events}
    assert {
        ("SlotFired", "late"),
        ("SlotsMissed", "late"),
        ("SlotsMissed", "yearly"),
        ("ScheduleDisagreed", "yearly"),
        ("ScheduleUnable", "broken"),
    } <= told
    missed = next(each for each in events if type(each).__name__ == "SlotsMissed" and each.schedule == "late")
    assert 10 <= missed.count <= 12
    fired = next(each for each in events if type(each).__name__ == "SlotFired")
    assert fired.late_seconds < 5
    assert ("SlotFired", "q", "w") == tuple(fired.as_dict()[name] for name in ("event", "queue", "worker"))
    assert fired.slot.isoformat() == fired.as_dict()["slot"]
    assert (1, 1) == (counts.disagreed, counts.unable)
    assert counts.missed >= 11
    assert counts.lateness.cumulative()[-1][1] >= 1


def test_a_slot_that_an_open_task_holds_back_is_told():
    events = []

    async def _run():
        tasks = MemoryTasks(memory())
        await tasks.schedules.register([overdue()])
        firing = Scheduler(tasks, ["q"], ScheduledHere(declared=(), observers=(events.append,)), by="w")

        async def _skipped():
            return "SlotSkipped" in {type(each).__name__ for each in events}

        await until(_skipped)
        await firing.end()

    asyncio.run(_run())
    kinds = [type(each).__name__ for each in events]
    assert kinds.index("SlotFired") < kinds.index("SlotSkipped")


def test_an_observer_that_raises_costs_one_line_and_no_slot(caplog):
    def _broken(event):
        raise ZeroDivisionError

    rows, _ = run(stored=[overdue()], observers=(_broken,))
    assert 1 <= len(rows)
    assert any("failed on SlotFired" in line for line in caplog.messages)


@pytest.mark.parametrize(("period", "expected"), [(timedelta(seconds=1), 99), (timedelta(hours=1), 1)])
def test_the_count_of_missed_slots_has_an_end(period, expected):
    schedule = replace(
        every_schedule("q", "s", CALL, period, {"missed": "skip"}), last_slot=NOW - 9_000_000, next_slot=NOW - 7_200_000
    )
    slot = NOW - NOW % 3_600_000 - 3_600_000
    placed_there = replace(schedule, next_slot=slot, last_slot=slot - 1)
    decision = decide(DueSchedule(schedule=placed_there), now=slot + 3_500_000, new_id=str, tzdata="")
    assert expected == missed_slots(placed_there, decision.firing)


def test_a_slot_of_other_zone_data_fires_and_the_disagreement_is_said(caplog):
    stored = replace(cron_schedule("q", "s", CALL, "0 0 1 1 *", {}), last_slot=NOW - 90_000, next_slot=NOW - 60_000)
    rows, _ = run(stored=[replace(stored, tzdata="1999a")])
    assert 1 == len(rows)
    named = [record for record in caplog.records if record.name == "apportion.work"]
    lines = [record.getMessage() for record in named if record.levelname == "WARNING"]
    assert ["schedule_disagrees" in line and "1999a" in line for line in lines] == [True]


def test_a_schedule_that_was_mended_fires_again(monkeypatch, caplog):
    monkeypatch.setattr(scheduler, "_BROKEN_SECONDS", 0.05)
    broken = replace(overdue(), rule="30 2 * *")

    async def _run():
        tasks = MemoryTasks(memory())
        await tasks.schedules.register([broken])
        firing = Scheduler(tasks, ["q"], ScheduledHere(declared=(), observers=(log_schedule,)), by="w")

        async def _is_told():
            return any("left to other workers" in line for line in caplog.messages)

        async def _has_fired():
            return bool(await tasks.query(Listing(queue="q")))

        await until(_is_told)
        await tasks.schedules.change(replace(overdue(), next_slot=NOW - 1), version=1)
        await until(_has_fired)
        await firing.end()

    asyncio.run(_run())
    assert 1 == sum("left to other workers" in line for line in caplog.messages)


def test_after_a_commit_that_took_too_long_fewer_schedules_fire_in_one(monkeypatch):
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 0.01)
    fire, asked = MemorySchedules.fire, []

    async def _slow(self, *values, most, **options):
        asked.append(most)
        if most > 10:
            raise StoreUnavailable("memory://", "no reply came")
        return await fire(self, *values, most=most, **options)

    monkeypatch.setattr(MemorySchedules, "fire", _slow)
    rows, _ = run(stored=[replace(overdue(), name=f"s{number:02}") for number in range(30)], until_tasks=30)
    assert (30, [100, 25, 6, 12, 3]) == (len(rows), asked[:5])


@pytest.mark.parametrize("has_schedule", [False, True])
def test_an_idle_scheduler_rests_between_its_looks(has_schedule, monkeypatch):
    fire, looks = MemorySchedules.fire, []

    async def _noted(self, *values, **options):
        looks.append(1)
        return await fire(self, *values, **options)

    async def _run():
        declared = [every_schedule("q", "s", CALL, timedelta(hours=1), {})] if has_schedule else []
        firing = Scheduler(MemoryTasks(memory()), ["q"], ScheduledHere(declared=declared), by="w")
        for _ in range(100):
            await asyncio.sleep(0)
        await firing.end()

    monkeypatch.setattr(MemorySchedules, "fire", _noted)
    asyncio.run(_run())
    assert len(looks) <= 3


def test_declared_schedules_are_added_in_each_life_of_the_store():
    async def _run():
        tasks, lives = MemoryTasks(memory()), [1]
        firing = Scheduler(tasks, ["q"], ScheduledHere(declared=[ticking()]), by="w", life=lambda: lives[-1])

        async def _is_there():
            return bool(await tasks.schedules.listed("q"))

        await until(_is_there)
        await tasks.schedules.remove("q", ["s"])
        await asyncio.sleep(1.2)  # a look and a half
        removed = not await _is_there()
        lives.append(2)
        await until(_is_there)
        await firing.end()
        return removed

    assert asyncio.run(_run())


@pytest.mark.parametrize("error", [StoreUnavailable("memory://", "gone"), TypeError("a damaged row")])
def test_a_scheduler_goes_on_after_an_outage_and_after_damage(monkeypatch, error):
    monkeypatch.setattr(scheduler, "_BROKEN_SECONDS", 0.01)
    fire, fails = MemorySchedules.fire, [2]

    async def _failing(self, *values, **options):
        if fails[0]:
            fails[0] -= 1
            raise error
        return await fire(self, *values, **options)

    monkeypatch.setattr(MemorySchedules, "fire", _failing)
    rows, _ = run(stored=[overdue()])
    assert (1, 0) == (len(rows), fails[0])


@pytest.mark.parametrize("column", ["name", "rule", "zone", "missed", "task", "codec", "tzdata"])
def test_a_schedule_in_a_file_with_a_text_that_is_no_utf_8_costs_itself_alone(tmp_path, column):
    url = f"sqlite:///{tmp_path / 'work.db'}"

    async def _run():
        tasks = await connect_tasks(url)
        now = await tasks.query(StoreTime())
        due = [replace(ticking(name), last_slot=now - 9_000, next_slot=now - 8_000) for name in ("a", "b")]
        await tasks.schedules.register(due)
        with closing(sqlite3.connect(tmp_path / "work.db")) as file, file:
            file.execute(f"UPDATE schedule SET {column} = CAST(x'61ff' AS TEXT) WHERE name = 'a'")
        events = []
        firing = Scheduler(tasks, ["q"], ScheduledHere(declared=(), observers=(events.append,)), by="w")

        async def _has_fired():
            return any(isinstance(each, SlotFired) for each in events)

        await until(_has_fired)
        await firing.end()
        fired = {each.schedule for each in events if isinstance(each, SlotFired)}
        damaged, sound = sorted(await tasks.schedules.listed("q"), key=lambda each: each.name == "b")
        await tasks.close()
        return fired, column in damaged.damage, sound.name

    assert ({"b"}, True, "b") == asyncio.run(_run())


def test_an_error_that_ends_the_firing_ends_the_worker(monkeypatch):
    async def _broken(self, *values, **options):
        raise RuntimeError("broken")

    async def _run():
        async with Queue("memory://broken-firing", "q").worker():
            await asyncio.sleep(10)

    monkeypatch.setattr(MemorySchedules, "fire", _broken)
    with pytest.raises(RuntimeError, match="broken"):
        asyncio.run(asyncio.wait_for(_run(), 10))


def test_a_schedule_begins_where_it_is_placed():
    schedule = placed(cron_schedule("q", "s", CALL, "0 * * * *", {}), NOW)
    assert (NOW, 0) == (schedule.last_slot, schedule.next_slot % 3_600_000)
    assert NOW < schedule.next_slot <= NOW + 3_600_000


BAD = [
    {"name": ""},
    {"name": "a\nb"},
    {"rule": "every 5000ms"},
    {"rule": "* * * * * *"},
    {"policies": {"zone": "Mars/Olympus"}},
    {"policies": {"missed": "some"}},
    {"policies": {"overlap": "never"}},
    {"policies": {"jitter": timedelta(days=2)}},
    {"policies": {"jitter": -timedelta(1)}},
    {"policies": {"gap": "jump"}},
    {"call": CALL.options(delay=timedelta(1))},
    {"call": CALL.options(unique="u")},
]


@pytest.mark.parametrize("wrong", BAD, ids=str)
def test_a_schedule_that_cannot_be_is_refused_where_it_is_given(wrong):
    given = {"queue": "q", "name": "s", "call": CALL, "rule": "0 * * * *", "policies": {}} | wrong
    with pytest.raises(InvalidInput):
        cron_schedule(**given)


@pytest.mark.parametrize("period", [timedelta(0), -timedelta(1), timedelta(days=400)])
def test_a_period_that_cannot_be_is_refused(period):
    with pytest.raises(InvalidInput, match="period"):
        every_schedule("q", "s", CALL, period, {})


def test_a_schedule_is_stored_with_its_policies():
    schedule = ticking(missed="all", overlap="allow", jitter=timedelta(seconds=9))
    assert isinstance(schedule, TaskSchedule)
    assert ("all", "allow", 9_000, "every 1000ms") == (
        schedule.missed, schedule.overlap, schedule.jitter_ms, schedule.rule
    )  # fmt: skip


def test_a_schedule_made_anew_mends_its_damaged_row():
    async def _run():
        tasks = MemoryTasks(memory())
        await tasks.schedules.register([replace(overdue(), last_slot="early")])
        is_new = await kept(tasks, ticking())
        return is_new, await tasks.schedules.listed("q")

    is_new, (schedule,) = asyncio.run(_run())
    assert (True, "") == (is_new, schedule.damage)


def test_a_schedule_that_cannot_be_evaluated_is_left_out_of_the_next_looks_and_told_once(monkeypatch):
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 0.01)
    fire, looks, events = MemorySchedules.fire, [], []

    async def _fire(self, *values, without, **options):
        looks.append(set(without))
        return await fire(self, *values, without=without, **options)

    monkeypatch.setattr(MemorySchedules, "fire", _fire)

    async def _run():
        tasks = MemoryTasks(memory())
        await tasks.schedules.register([replace(overdue(), name="broken", rule="sometimes")])
        firing = Scheduler(tasks, ["q"], ScheduledHere(declared=(), observers=(events.append,)), by="w")

        async def _looked():
            return len(looks) >= 4

        await until(_looked)
        await firing.end()

    asyncio.run(_run())
    assert [set(), {("q", "broken")}] == looks[:2]
    assert ["ScheduleUnable"] == [type(each).__name__ for each in events]


def test_a_disagreement_is_told_once_per_schedule():
    told = []
    events = FiringEvents((told.append,), worker="w")
    yearly = replace(overdue(), rule="0 0 1 1 *")
    for _ in range(3):
        decision = decide(DueSchedule(schedule=yearly), now=NOW, new_id=str, tzdata="x")
        events.note(yearly, decision)
        events.tell(FireAnswer(now=NOW, firings=(decision.firing,)))
    assert 1 == sum(type(each).__name__ == "ScheduleDisagreed" for each in told)
    assert 3 == sum(type(each).__name__ == "SlotFired" for each in told)


def test_a_firing_that_did_not_count_is_not_told():
    told = []
    events = FiringEvents((told.append,), worker="w")
    events.note(overdue(), decide(DueSchedule(schedule=overdue()), now=NOW, new_id=str, tzdata="x"))
    events.tell(FireAnswer(now=NOW))
    assert [] == told
