"""The schedules in a PostgreSQL database follow the ledger, and many nodes fire each slot once."""

import asyncio
from dataclasses import replace

import pytest

from apportion.stores.catalog import connect_tasks
from apportion.stores.task_control import StoreTime
from tests.stores.schedule_twins import SESSION, ScheduleTwins
from tests.stores.test_postgres_tasks import PostgresTwin, rig, schema, url
from tests.stores.test_postgres_tasks_at_once import administrator
from tests.stores.test_schedules import (
    HOURLY,
    deciding,
    fired_again,
    test_a_decision_that_raises_leaves_the_schedule_as_it_was,
    test_a_late_node_fires_no_old_slot,
    test_a_schedule_that_a_node_cannot_evaluate_is_left_out_of_its_next_look,
    test_many_nodes_that_fire_at_once_fire_each_slot_once,
    test_the_history_keeps_the_last_slots_alone,
)

__all__ = [
    "rig",
    "schema",
    "test_a_decision_that_raises_leaves_the_schedule_as_it_was",
    "test_a_late_node_fires_no_old_slot",
    "test_a_schedule_that_a_node_cannot_evaluate_is_left_out_of_its_next_look",
    "test_many_nodes_that_fire_at_once_fire_each_slot_once",
    "test_the_history_keeps_the_last_slots_alone",
    "url",
]
pytestmark = pytest.mark.live


@pytest.fixture
def tasks(url):
    async def _opened():
        return await connect_tasks(url)

    return _opened


class PostgresSchedulesTwin:
    """The schedules in a schema, at times of the test."""

    def __init__(self, twin):
        self.twin, self.schedules = twin, twin.tasks.schedules
        twin.begin(SESSION)

    def at(self, now):
        self.twin.at(now)

    def run(self, answer):
        return self.twin.runner.run(answer)

    def turn(self, worker, settlements, want):
        return self.run(self.twin.tasks.turn(worker, settlements, want=want))


@pytest.mark.parametrize("seed", range(4))
def test_schedules_in_postgresql_answer_as_the_ledger_does(rig, schema, seed):
    twin = PostgresTwin(rig, schema)
    try:
        twins = ScheduleTwins(seed, PostgresSchedulesTwin(twin))
        for _ in range(120):
            twins.step()
        assert twins.fired > 5
    finally:
        twin.close()


def test_a_row_that_was_put_back_before_its_history_stops_no_other_schedule(rig, schema, tasks):
    async def _run():
        return await fired_again(await tasks(), lambda text: rig.sql(text.replace("schedule", f"{schema}.schedule")))

    assert ([["back"], ["back", "s"]], ["m"]) == asyncio.run(_run())


def test_a_look_is_one_statement_that_leaves_out_the_schedules_another_node_has_begun(rig, schema, url, monkeypatch):
    async def _run():
        tasks = await connect_tasks(url)
        now = await tasks.query(StoreTime())
        await tasks.schedules.register([replace(HOURLY, last_slot=now - 1, next_slot=now)])
        with administrator(rig) as other, monkeypatch.context() as patch:
            other.execute(f"SELECT FROM {schema}.schedule FOR UPDATE")
            patch.setattr(type(tasks), "_transact", None)
            begun = await tasks.schedules.fire(["q"], deciding(), by="n")
            other.rollback()
        fired = await tasks.schedules.fire(["q"], deciding(), by="n")
        await tasks.close()
        return begun, fired

    begun, fired = asyncio.run(_run())
    assert ((), None) == (begun.firings, begun.next_slot)
    assert 1 == len(fired.firings)
