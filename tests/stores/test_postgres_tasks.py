"""Tasks on a real PostgreSQL server: the rules of the ledger, claims by many at once, races with the end of a lease."""

import asyncio
from uuid import uuid4

import pytest

from apportion.stores.catalog import connect_tasks
from tests.stores.rigs import absent
from tests.stores.rigs.postgres import PostgresRig
from tests.stores.test_task_rules import Twins
from tests.stores.test_tasks import (
    test_a_closed_handle_and_a_forked_one_refuse,
    test_a_note_and_a_pause_take_effect,
    test_a_task_is_claimed_once_and_done_under_its_receipt_alone,
    test_a_turn_cancels_a_limited_number_of_expired_tasks,
    test_a_wait_ends_when_another_handle_enqueues,
    test_an_idle_worker_is_known,
    test_of_eight_places_one_goes_to_the_lane_whose_head_waited_longest,
    test_the_tasks_of_an_ended_session_go_to_another_one_first,
)

__all__ = [
    "test_a_closed_handle_and_a_forked_one_refuse",
    "test_a_note_and_a_pause_take_effect",
    "test_a_task_is_claimed_once_and_done_under_its_receipt_alone",
    "test_a_turn_cancels_a_limited_number_of_expired_tasks",
    "test_a_wait_ends_when_another_handle_enqueues",
    "test_an_idle_worker_is_known",
    "test_of_eight_places_one_goes_to_the_lane_whose_head_waited_longest",
    "test_the_tasks_of_an_ended_session_go_to_another_one_first",
]
pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def rig():
    try:
        made = PostgresRig()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    made.stop()


@pytest.fixture
def schema(rig):
    """A schema of the test's own."""
    name = f"t{uuid4().hex}"
    yield name
    rig.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
def url(rig, schema):
    return rig.url("n", options=f"&schema={schema}")


class PostgresTwin:
    """A handle of the tasks in a schema, at times of the test."""

    def __init__(self, rig, schema):
        self.rig, self.schema, self.runner, self.now = rig, schema, asyncio.Runner(), None
        self.tasks = self.runner.run(connect_tasks(rig.url("n", options=f"&schema={schema}")))

    def at(self, now):
        if now != self.now:
            self.now = now
            body = f"SELECT {now}::bigint"
            self.sql(f"CREATE OR REPLACE FUNCTION {self.schema}.now_ms() RETURNS bigint LANGUAGE sql AS '{body}'")

    def sql(self, statement):
        return self.rig.sql(f"SET synchronous_commit TO off; {statement}")

    def enqueue(self, new, now):
        self.at(now)
        return self.runner.run(self.tasks.enqueue(new))

    def turn(self, worker, settlements, *, want, now):
        self.at(now)
        return self.runner.run(self.tasks.turn(worker, settlements, want=want))

    def beat(self, session, notes):
        return self.runner.run(self.tasks.beat(session, notes))

    def control(self, command, now):
        self.at(now)
        return self.runner.run(self.tasks.control(command))

    def rows(self, listing):
        return self.runner.run(self.tasks.rows(listing))

    def overview(self, now):
        self.at(now)
        return self.runner.run(self.tasks.overview())

    def begin(self, session):
        self.sql(f"INSERT INTO {self.schema}.lease (id, ttl_seconds) VALUES ({session}, 2)")

    def end(self, session):
        self.sql(f"DELETE FROM {self.schema}.lease WHERE id = {session}")

    def close(self):
        self.runner.run(self.tasks.close())
        self.runner.close()


@pytest.mark.parametrize("seed", [*range(9), 113, 114, 139])
def test_tasks_in_postgresql_answer_as_the_ledger_does(rig, schema, seed):
    other = PostgresTwin(rig, schema)
    try:
        twins = Twins(seed, other)
        for _ in range(120):
            twins.step()
    finally:
        other.close()
