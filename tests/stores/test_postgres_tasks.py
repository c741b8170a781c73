"""Tasks on a real PostgreSQL server: the rules of the ledger, claims by many at once, races with the end of a lease."""

import asyncio
from uuid import uuid4

import psycopg
import pytest

from apportion.errors import InvalidInput, OutcomeUnknown, StoreWentBack
from apportion.guards.transactions import follow
from apportion.stores.catalog import connect_tasks
from apportion.stores.postgres import task_functions as functions
from apportion.stores.postgres import task_within as enqueues
from apportion.stores.postgres.tasks import upkeep
from apportion.stores.postgres.wire import PostgresNoReply
from apportion.stores.task_control import Cancel, Listing, Pause, SetLimit, StoreTime, Survey
from apportion.stores.task_values import Receipt, Settlement, Worker
from apportion.work.effects.caller_transaction import insertion
from tests.stores.rigs import absent
from tests.stores.rigs.postgres import DATABASE, SECRET, PostgresRig
from tests.stores.test_task_rules import Twins, an_entry_is_kept_as_long_as_its_task_is_open_and_a_week
from tests.stores.test_tasks import (
    opened,
    task,
    test_a_claim_says_how_long_its_task_was_ready,
    test_a_closed_handle_and_a_forked_one_refuse,
    test_a_listing_of_ids_has_all_of_them,
    test_a_note_and_a_pause_take_effect,
    test_a_task_is_claimed_once_and_done_under_its_receipt_alone,
    test_a_turn_cancels_a_limited_number_of_expired_tasks,
    test_a_wait_ends_when_another_handle_enqueues,
    test_an_effect_is_begun_by_one_open_claim_at_a_time_and_never_again_once_it_is_done,
    test_an_idle_worker_is_known,
    test_of_eight_places_one_goes_to_the_lane_whose_head_waited_longest,
    test_the_tasks_of_an_ended_session_go_to_another_one_first,
)

__all__ = [
    "test_a_claim_says_how_long_its_task_was_ready",
    "test_a_closed_handle_and_a_forked_one_refuse",
    "test_a_listing_of_ids_has_all_of_them",
    "test_a_note_and_a_pause_take_effect",
    "test_a_task_is_claimed_once_and_done_under_its_receipt_alone",
    "test_a_turn_cancels_a_limited_number_of_expired_tasks",
    "test_a_wait_ends_when_another_handle_enqueues",
    "test_an_effect_is_begun_by_one_open_claim_at_a_time_and_never_again_once_it_is_done",
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
            bodies = (functions.NOW, functions.BEGIN, enqueues.ENQUEUE_ONE)
            made = ";".join(bodies).replace("CREATE", "CREATE OR REPLACE")
            self.sql(made.replace(functions.CLOCK, f"{now}::bigint").replace("{schema}", self.schema))

    def sql(self, statement):
        return self.rig.sql(f"SET synchronous_commit TO off; {statement}")

    def enqueue(self, new, now):
        self.at(now)
        return self.runner.run(self.tasks.enqueue(new))

    def insert(self, new, now):
        """Enqueue in a transaction of the test's own."""
        self.at(now)
        host, port = self.rig.address()
        with psycopg.connect(host=host, port=port, user="postgres", password=SECRET, dbname=DATABASE) as connection:
            return follow(connection, insertion(connection, self.tasks.transactions, new))

    def turn(self, worker, settlements, *, want, now):
        self.at(now)
        return self.runner.run(self.tasks.turn(worker, settlements, want=want))

    def beat(self, session, notes):
        return self.runner.run(self.tasks.beat(session, notes))

    def once(self, step, now):
        self.at(now)
        return self.runner.run(self.tasks.once(step))

    def control(self, command, now):
        self.at(now)
        return self.runner.run(self.tasks.control(command))

    def rows(self, listing):
        return self.runner.run(self.tasks.query(listing))

    def answer(self, question, now):
        self.at(now)
        return self.runner.run(self.tasks.query(question))

    def overview(self, now):
        self.at(now)
        return self.runner.run(self.tasks.query(Survey()))

    def begin(self, session):
        self.sql(f"INSERT INTO {self.schema}.lease (id, ttl_seconds) VALUES ({session}, 3600)")

    def end(self, session):
        self.sql(f"DELETE FROM {self.schema}.lease WHERE id = {session}")

    def close(self):
        self.runner.run(self.tasks.close())
        self.runner.close()


def test_an_entry_is_kept_as_long_as_its_task_is_open_and_a_week(rig, schema):
    other = PostgresTwin(rig, schema)
    try:
        an_entry_is_kept_as_long_as_its_task_is_open_and_a_week(other)
    finally:
        other.close()


@pytest.mark.parametrize("seed", [*range(9), 113, 114, 139])
def test_tasks_in_postgresql_answer_as_the_ledger_does(rig, schema, seed):
    other = PostgresTwin(rig, schema)
    try:
        twins = Twins(seed, other)
        for _ in range(120):
            twins.step()
    finally:
        other.close()


def test_of_many_tasks_at_once_those_that_are_there_are_not_added_again(url):
    async def _play():
        tasks = await connect_tasks(url)
        try:
            first, others = task(), [task() for _ in range(3)]
            assert ((first.id, True),) == await tasks.enqueue([first])
            again = [others[0], first, others[1], others[1], others[2]]
            created = [True, False, True, False, True]
            assert tuple(zip([each.id for each in again], created, strict=True)) == await tasks.enqueue(again)
            rows = await tasks.query(Listing())
            assert sorted(each.id for each in (first, *others)) == sorted(row.id for row in rows)
        finally:
            await tasks.close()

    asyncio.run(_play())


def test_a_hint_ends_the_wait_of_another_process(url):
    async def _run():
        async with opened(url, "") as (_, tasks):
            other = await connect_tasks(f"{url}&application_name=other")
            waiting = asyncio.create_task(other.wait(60))
            while not waiting.done():  # the first of them may come before the wait has asked for hints
                await tasks.enqueue([task()])
                await asyncio.wait([waiting], timeout=0.5)
            await other.close()

    asyncio.run(asyncio.wait_for(_run(), 20))


def test_leases_and_tasks_of_a_process_share_two_connections(rig, url):
    async def _run():
        async with opened(f"{url}&application_name=counted", "") as (store, tasks):
            own = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'"
            while rig.sql(counted) != [(2,)]:
                await asyncio.gather(tasks.wait(0.2), tasks.enqueue([task()]), tasks.turn(own, want=1), store.scan(""))
                assert rig.sql(counted) in ([(1,)], [(2,)])

    asyncio.run(_run())


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_lost_reply_to_an_enqueue_is_answered_by_a_look_or_unknown(url, monkeypatch, is_sent):
    async def _run():
        async with opened(url, "") as (_, tasks):
            send, new = tasks._committing.send, task()

            async def _lose(statement, parameters, **rest):
                if is_sent:
                    await send(statement, parameters, **rest)
                raise PostgresNoReply("cut")

            with monkeypatch.context() as patched:
                patched.setattr(tasks._committing, "send", _lose)
                patched.setattr(tasks._committing, "ask", send)
                if is_sent:
                    assert ((new.id, True),) == await tasks.enqueue([new])
                else:
                    with pytest.raises(OutcomeUnknown) as raised:
                        await tasks.enqueue([new])
                    assert (new.id,) == raised.value.ids
            assert is_sent == bool(await tasks.query(Listing()))

    asyncio.run(_run())


def test_a_store_in_another_life_is_refused_until_its_rows_are_read(rig, schema, url):
    async def _run():
        async with opened(url, "") as (store, tasks):
            own = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            await tasks.enqueue([task()])
            rig.sql(f"UPDATE {schema}.meta SET incarnation = incarnation + 1")
            done = Settlement(receipt=Receipt(task="t", attempt=1, session=1), fate="retry")
            calls = [
                lambda: tasks.enqueue([task()]),
                lambda: tasks.turn(own, want=1),
                lambda: tasks.turn(own, [done]),
                lambda: tasks.beat(own.session),
                lambda: tasks.control(Pause(queue="q")),
                lambda: tasks.query(Survey()),
                lambda: tasks.query(StoreTime()),
            ]
            for call in calls:
                with pytest.raises(StoreWentBack):
                    await call()
            with pytest.raises(StoreWentBack), tasks.transactions.begin():
                pass
            assert 1 == len(await tasks.query(Listing()))
            assert 1 == len((await tasks.turn(own, want=1)).claims)

    asyncio.run(_run())


def test_an_enqueue_to_another_cluster_or_timeline_is_refused(rig, schema, url):
    """Each process of the server remembers the id of its cluster; the timeline is looked at anew."""

    async def _run():
        async with opened(url, "") as (_, tasks):
            await tasks.enqueue([task()])
            [(here,)] = rig.sql(f"SELECT fingerprint FROM {schema}.meta")
            cluster, _, timeline = here.partition("/")
            for other in (f"{int(cluster) + 1}/{timeline}", f"{cluster}/{int(timeline, 16) + 1:08X}"):
                for new in ([task()], [task(), task()]):
                    rig.sql(f"UPDATE {schema}.meta SET fingerprint = '{other}'")
                    with pytest.raises(StoreWentBack):
                        await tasks.enqueue(new)
                    assert 1 == len(await tasks.query(Listing()))
                    await tasks.query(Listing())
            assert 1 == len(await tasks.query(Listing()))

    asyncio.run(_run())


def test_tables_of_a_later_release_are_refused(rig, schema, url):
    async def _run():
        async with opened(url, ""):
            rig.sql(f"UPDATE {schema}.work_meta SET version = 99")
            with pytest.raises(InvalidInput, match="version of the tasks is 99"):
                await connect_tasks(url)

    asyncio.run(_run())


@pytest.mark.parametrize("is_limited", [False, True], ids=["", "of a queue with a limit"])
def test_a_claim_under_a_session_without_lease_and_worker_is_taken_over(rig, schema, url, tmp_path, is_limited):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            await tasks.enqueue([task() for _ in range(3)])
            first, second = [Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",)) for _ in range(2)]
            (claim,) = (await tasks.turn(first, want=1)).claims
            if is_limited:
                await tasks.control(SetLimit(queue="q", open_claims=3))
            await store.revoke(first.session)
            rig.sql(f"DELETE FROM {schema}.worker")
            assert not any(each.is_retaken for each in (await tasks.turn(second, want=1)).claims)  # it has looked
        async with opened(url, tmp_path) as (_, tasks):
            taken = (await tasks.turn(second, want=2)).claims
            assert (claim.receipt.task, 2, True) == (
                taken[0].receipt.task,
                taken[0].receipt.attempt,
                taken[0].is_retaken,
            )

    asyncio.run(_run())


def test_old_outcomes_are_forgotten_by_common_turns_a_number_at_a_time(rig, schema, url, tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "MOST_FORGOTTEN", 2)

    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            kept = [task() for _ in range(6)]
            await tasks.enqueue(kept)
            await tasks.control(Cancel(tasks=tuple(each.id for each in kept)))
            rig.sql(f"UPDATE {schema}.outcome SET keep_until = 1 WHERE id <> '{kept[0].id}'")
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            counts = []
            for _ in range(4):
                await tasks.turn(worker, want=1)
                counts += rig.sql(f"SELECT count(*) FROM {schema}.outcome")[0]
            assert [4, 2, 1, 1] == counts

    asyncio.run(_run())
