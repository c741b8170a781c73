"""The schedules in an SQLite file follow the ledger, and a slot fires once."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import count

import pytest

from apportion.runtime.clock import SystemClock
from apportion.stores.catalog import connect_tasks
from apportion.stores.memory.store import Memory
from apportion.stores.memory.tasks import MemoryTasks
from apportion.stores.schedules.values import KEPT_MARKS, Firing, TaskSchedule
from apportion.stores.task_control import Listing
from apportion.work.cron.due_slots import decide
from tests.stores.schedule_twins import ScheduleTwins, SqliteFile

LONG_AGO = 1_700_000_000_000
HOURLY = TaskSchedule(
    queue="q", name="s", rule="0 * * * *", task="f", arguments=b"{}", last_slot=LONG_AGO, next_slot=LONG_AGO + 3_600_000
)


@pytest.fixture(params=["memory", "sqlite"])
def tasks(request, tmp_path):
    """Return a function that opens a handle of one store."""
    memory = Memory(SystemClock(), began_ms=1_800_000_000_000)

    async def _opened():
        if request.param == "memory":
            return MemoryTasks(memory)
        return await connect_tasks(f"sqlite:///{tmp_path / 'work.db'}")

    return _opened


def deciding(ids=None):
    numbers = ids or count()
    return lambda due, now: decide(due, now=now, new_id=lambda: f"t{next(numbers)}", tzdata="").firing


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_schedules_in_sqlite_answer_as_the_ledger_does(seed):
    twins = ScheduleTwins(seed, SqliteFile())
    for _ in range(250):
        twins.step()
    assert twins.fired > 5


def test_many_nodes_that_fire_at_once_fire_each_slot_once(tasks):
    async def _run():
        nodes = [await tasks() for _ in range(3)]
        schedules = [replace(HOURLY, name=f"s{number}") for number in range(40)]
        assert 40 == len(await nodes[0].schedules.register(schedules))
        ids, fired = count(), []
        while due := await asyncio.gather(*[node.schedules.fire(["q"], deciding(ids), by="n") for node in nodes]):
            firings = [firing for answer in due for firing in answer.firings]
            fired += [firing.name for firing in firings]
            if not firings:
                break
        listed = await nodes[0].query(Listing(queue="q", most=1_000))
        for node in nodes:
            await node.close()
        return fired, listed

    fired, listed = asyncio.run(_run())
    assert sorted(f"s{number}" for number in range(40)) == sorted(fired)
    assert 40 == len(listed)


def test_a_late_node_fires_no_old_slot(tasks):
    async def _run():
        store = await tasks()
        await store.schedules.register([HOURLY])
        (before,) = await store.schedules.listed("q")
        (firing,) = (await store.schedules.fire(["q"], deciding(), by="n")).firings
        late = [
            await store.schedules.trigger(replace(firing, last_slot=each, slot=slot), by="late")
            for each, slot in [
                (before.last_slot, firing.slot),
                (firing.slot, firing.slot),
                (firing.slot, before.next_slot),
            ]
        ]
        history = await store.schedules.history("q", "s")
        await store.close()
        return late, [each.mark for each in history]

    assert ([False] * 3, ["fired"]) == asyncio.run(_run())


def test_a_change_whose_next_slot_a_firing_has_passed_is_refused(tasks):
    async def _run():
        store = await tasks()
        await store.schedules.register([HOURLY])
        late = replace(HOURLY, rule="30 * * * *", next_slot=HOURLY.next_slot + 1_800_000)
        (firing,) = (await store.schedules.fire(["q"], deciding(), by="n")).firings
        counts = [await store.schedules.change(each, version=1) for each in (late, replace(late, next_slot=1 << 42))]
        (row,) = await store.schedules.listed("q")
        await store.close()
        return counts, row.version, row.last_slot == firing.slot

    assert ([False, True], 2, True) == asyncio.run(_run())


def test_a_decision_that_raises_leaves_the_schedule_as_it_was(tasks):
    def _broken(due, now):
        raise ZeroDivisionError

    async def _run():
        store = await tasks()
        await store.schedules.register([HOURLY])
        with pytest.raises(ZeroDivisionError):
            await store.schedules.fire(["q"], _broken, by="n")
        listed = await store.schedules.listed("q")
        await store.close()
        return listed

    assert (HOURLY,) == asyncio.run(_run())


def test_a_schedule_that_a_node_cannot_evaluate_is_left_out_of_its_next_look(tasks):
    async def _run():
        store = await tasks()
        await store.schedules.register([HOURLY, replace(HOURLY, name="other")])
        first = await store.schedules.fire(
            ["q"], lambda due, now: None if due.schedule.name == "s" else deciding()(due, now), by="n"
        )
        second = await store.schedules.fire(["q"], deciding(), by="n", without=first.unable)
        third = await store.schedules.fire(["q"], deciding(count(100)), by="other node")
        await store.close()
        return [[firing.name for firing in answer.firings] for answer in (first, second, third)], first.unable

    assert ([["other"], [], ["s"]], (("q", "s"),)) == asyncio.run(_run())


def test_the_history_keeps_the_last_slots_alone(tasks):
    async def _run():
        store = await tasks()
        await store.schedules.register([HOURLY])
        last = HOURLY.last_slot
        for slot in range(last + 1, last + KEPT_MARKS + 21):
            firing = Firing(
                queue="q", name="s", version=1, last_slot=slot - 1, slot=slot, next_slot=slot + 1, tzdata=""
            )
            assert await store.schedules.trigger(firing, by="n")
        history = await store.schedules.history("q", "s")
        await store.close()
        return [each.slot - last for each in history]

    assert list(range(21, KEPT_MARKS + 21)) == asyncio.run(_run())


def test_the_tasks_of_a_firing_and_its_slot_are_one_commit(tmp_path):
    path = tmp_path / "work.db"

    async def _run():
        store = await connect_tasks(f"sqlite:///{path}")
        await store.schedules.register([HOURLY])
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TRIGGER no BEFORE INSERT ON task BEGIN SELECT RAISE(ABORT, 'no'); END")
        with pytest.raises(Exception, match="no"):
            await store.schedules.fire(["q"], deciding(), by="n")
        listed, history = await store.schedules.listed("q"), await store.schedules.history("q", "s")
        await store.close()
        return listed, history

    assert ((HOURLY,), ()) == asyncio.run(_run())


@pytest.mark.parametrize(
    "damage", ["next_slot = 'soon'", "last_slot = 'early'", "version = 'new'", "rule = x'00'", "paused = 'no'"]
)
def test_a_damaged_row_in_a_file_costs_itself_alone(tmp_path, damage):
    path = tmp_path / "work.db"

    def _decide(due, now):
        return None if due.schedule.damage else deciding()(due, now)

    async def _run():
        store = await connect_tasks(f"sqlite:///{path}")
        await store.schedules.register([HOURLY, replace(HOURLY, name="broken")])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"UPDATE schedule SET {damage} WHERE name = 'broken'")
        answer = await store.schedules.fire(["q"], _decide, by="n")
        again = await store.schedules.fire(["q"], _decide, by="n", without=answer.unable)
        listed = await store.schedules.listed("q")
        await store.close()
        return [each.name for each in answer.firings], answer.unable, again.firings, [each.name for each in listed]

    unable = () if damage.startswith("paused") else (("q", "broken"),)
    assert (["s"], unable, (), ["broken", "s"]) == asyncio.run(_run())


@pytest.mark.parametrize("damage", ["name = x'00ff'", "queue = x'00ff'"])
def test_a_damaged_row_without_a_place_costs_itself_alone(tmp_path, damage):
    path = tmp_path / "work.db"

    async def _run():
        store = await connect_tasks(f"sqlite:///{path}")
        await store.schedules.register([HOURLY, replace(HOURLY, name="other"), replace(HOURLY, name="broken")])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"UPDATE schedule SET {damage} WHERE name = 'broken'")
        first = await store.schedules.fire(["q"], deciding(), by="n", without=[("q", "other")])
        second = await store.schedules.fire(["q"], deciding(count(10)), by="n")
        listed = await store.schedules.listed()
        await store.close()
        return [[each.name for each in answer.firings] for answer in (first, second)], len(listed)

    assert ([["s"], ["other"]], 3) == asyncio.run(_run())


def test_a_damaged_row_alone_is_looked_at(tmp_path):
    path = tmp_path / "work.db"

    async def _run():
        store = await connect_tasks(f"sqlite:///{path}")
        await store.schedules.register([HOURLY])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("UPDATE schedule SET next_slot = 'soon'")
        answer = await store.schedules.fire(["q"], lambda due, now: None, by="n")
        await store.close()
        return answer.unable, answer.next_slot

    assert ((("q", "s"),), None) == asyncio.run(_run())


async def fired_again(store, put_back):
    """Fire a schedule, put its row back, fire it beside another one; return the names, and the nodes of its history."""
    ids = count()
    await store.schedules.register([replace(HOURLY, name="back")])
    first = await store.schedules.fire(["q"], deciding(ids), by="n")
    put_back(f"UPDATE schedule SET last_slot = {HOURLY.last_slot}, next_slot = {HOURLY.next_slot}")
    await store.schedules.register([HOURLY])
    second = await store.schedules.fire(["q"], deciding(ids), by="m")
    history = await store.schedules.history("q", "back")
    await store.close()
    return [[each.name for each in answer.firings] for answer in (first, second)], [each.by for each in history]


def test_a_row_that_was_put_back_before_its_history_stops_no_other_schedule(tmp_path):
    path = tmp_path / "work.db"

    def _put_back(statement):
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(statement)

    async def _run():
        return await fired_again(await connect_tasks(f"sqlite:///{path}"), _put_back)

    assert ([["back"], ["back", "s"]], ["m"]) == asyncio.run(_run())
