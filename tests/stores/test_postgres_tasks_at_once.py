"""Many transactions at once on the tasks of a real PostgreSQL server: claims, late commits, ends of leases; plans."""

import asyncio
import random
import re
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
import pytest

from apportion.errors import LeaseLost
from apportion.stores import connect
from apportion.stores.catalog import connect_tasks
from apportion.stores.postgres.schema import Schema
from apportion.stores.postgres.tasks.statements import (
    BEGIN,
    BY_ID,
    COUNT_OPEN,
    HAS_SUSPECT,
    OF_DEATHS,
    ORPHANS,
    READY,
    TURN,
    turn_values,
)
from apportion.stores.task_control import Listing, SetLimit
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import Receipt, Settlement, Worker
from tests.stores.rigs.postgres import DATABASE, SECRET
from tests.stores.test_postgres_tasks import rig, schema, url
from tests.stores.test_tasks import task

__all__ = ["rig", "schema", "url"]
pytestmark = pytest.mark.live
PATIENCE_SECONDS = 20.0
MANY = 100_000
LANES = (["q"] * 4, [0, 1, 2, 3], [0] * 4)


@asynccontextmanager
async def opened(url, handles):
    """Open a coordination store, and handles of tasks with connections of their own."""
    async with AsyncExitStack() as stack:
        store = await connect(url)
        stack.push_async_callback(store.close)
        tasks = [await connect_tasks(f"{url}&application_name=h{each}") for each in range(handles)]
        for each in tasks:
            stack.push_async_callback(each.close)
        yield store, tasks


async def worker(store):
    return Worker(session=(await store.grant(ttl_seconds=60)).id, queues=("q",))


def administrator(rig):
    host, port = rig.address()
    return psycopg.connect(host=host, port=port, user="postgres", password=SECRET, dbname=DATABASE)


def incarnation(rig, schema):
    [(found,)] = rig.sql(f"SELECT incarnation FROM {schema}.meta")
    return found


def test_each_of_many_tasks_goes_to_one_of_the_workers_that_claim_at_once(url):
    async def _drain(tasks, own):
        done, claims = [], ()
        while True:
            settled = [Settlement(receipt=claim.receipt, fate="done") for claim in claims]
            answer = await tasks.turn(own, settled, want=7)
            assert () == answer.refused
            claims = answer.claims
            done += [(claim.receipt.task, claim.receipt.attempt) for claim in claims]
            if not claims and not await tasks.query(Listing(states=("ready",))):
                return done

    async def _run():
        async with opened(url, 4) as (store, handles):
            made = [task(lane=random.choice([0, 2])) for _ in range(600)]
            await handles[0].enqueue(made)
            drained = await asyncio.gather(*[_drain(each, await worker(store)) for each in handles])
            assert sorted((each.id, 1) for each in made) == sorted(each for part in drained for each in part)
            assert 1 < sum(bool(part) for part in drained)

    asyncio.run(_run())


def test_a_limit_holds_while_many_workers_claim_at_once(url):
    async def _run():
        async with opened(url, 4) as (store, handles):
            owns = [await worker(store) for _ in handles]
            await handles[0].control(SetLimit(queue="q", open_claims=5))
            await handles[0].enqueue([task() for _ in range(60)])
            done = 0
            while done < 60:
                turns = [each.turn(own, want=3) for each, own in zip(handles, owns, strict=True)]
                answers = await asyncio.gather(*turns)
                assert 5 >= sum(len(answer.claims) for answer in answers)
                for each, own, answer in zip(handles, owns, answers, strict=True):
                    settled = [Settlement(receipt=claim.receipt, fate="done") for claim in answer.claims]
                    assert () == (await each.turn(own, settled)).refused
                    done += len(settled)

    asyncio.run(_run())


def test_of_a_settlement_and_a_retake_at_once_one_counts(url):
    async def _run():
        async with opened(url, 2) as (store, [first, second]):
            other, counted = await worker(store), []
            for _ in range(20):
                own = await worker(store)
                await first.enqueue([task()])
                (claim,) = (await first.turn(own, want=1)).claims
                await store.revoke(own.session)
                done = Settlement(receipt=claim.receipt, fate="done")
                settled, retaken = await asyncio.gather(first.turn(own, [done]), second.turn(other, want=2))
                counted.append((len(settled.refused), len(retaken.claims)))
                await second.turn(other, [Settlement(receipt=each.receipt, fate="done") for each in retaken.claims])
                while more := (await second.turn(other, want=2)).claims:  # the lock of the settlement was in the way
                    await second.turn(other, [Settlement(receipt=each.receipt, fate="done") for each in more])
            assert set(counted) <= {(0, 0), (1, 1)}
            assert () == await first.query(Listing())

    asyncio.run(_run())


def test_a_claim_behind_the_end_of_its_lease_gets_nothing(rig, schema, url):
    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own = await worker(store)
            await tasks.enqueue([task()])
            with administrator(rig) as reaper:
                reaper.execute(f"DELETE FROM {schema}.lease WHERE id = {own.session}")
                turn = asyncio.create_task(tasks.turn(own, want=1))
                waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%.turn(%'"
                while not rig.sql(waiting):
                    assert not turn.done()
                    await asyncio.sleep(0.01)
            with pytest.raises(LeaseLost):
                await turn
            assert ["ready"] == [row.state for row in await tasks.query(Listing())]

    asyncio.run(_run())


def test_the_end_of_a_lease_waits_for_a_claim_that_came_first(rig, schema, url):
    async def _run():
        async with opened(url, 2) as (store, [first, second]):
            own, other = await worker(store), await worker(store)
            await first.enqueue([task()])
            with administrator(rig) as claimant:
                claim = [
                    incarnation(rig, schema),
                    1_000,
                    True,
                    *turn_values(own, [[], [], []], 1, LANES, is_rescan=False),
                ]
                claimant.execute(Schema(schema).fill(TURN), claim)
                reaping = asyncio.create_task(store.revoke(own.session))
                while not rig.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                    assert not reaping.done()
                    await asyncio.sleep(0.01)
            await reaping
            assert [2] == [each.receipt.attempt for each in (await second.turn(other, want=2)).claims]

    asyncio.run(_run())


def plans(connection, schema, own, life):
    """Return the plans of all statements of a turn, and its rows."""
    told = []
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
    for setting in ("log_min_duration = 0", "log_nested_statements = on", "log_analyze = on"):
        connection.execute(f"SET auto_explain.{setting}")
    connection.execute("SET client_min_messages = log")
    values = [life, 1_000, False, *turn_values(own, [["x"], [1], [1]], 100, LANES, is_rescan=False)]
    rows = connection.execute(Schema(schema).fill(TURN), values).fetchall()
    connection.execute("SET client_min_messages = warning")
    return told, rows


def fill(connection, schema, count):
    connection.execute(
        f"INSERT INTO {schema}.task (id, pos, queue, lane, name, codec, arguments, trace, enqueued, ready_at)"
        f" SELECT md5(n::text), {schema}.next_position(), 'q', 2, 'f', 'json', '', '', 1, 1"
        f" FROM generate_series(1, {count}) AS n"
    )


def test_the_statements_of_a_turn_find_their_rows_by_an_index(rig, schema, url):
    async def _prepared():
        async with opened(url, 1) as (store, _):
            return await worker(store)

    own = asyncio.run(_prepared())
    with administrator(rig) as connection:
        connection.execute("LOAD 'auto_explain'")
        early, _ = plans(connection, schema, own, incarnation(rig, schema))
        fill(connection, schema, MANY)
        late, claims = plans(connection, schema, own, incarnation(rig, schema))
        for told in (early, late):
            scans = [
                each for plan in told for each in re.findall(r"(?:Seq|Bitmap Heap) Scan on (?:task|lease)\b", plan)
            ]
            assert [] == scans
            assert not any("JIT" in plan for plan in told)
        claimed = next(plan for plan in late if "FOR UPDATE SKIP LOCKED" in plan)
        assert "task_ready" in claimed
        assert "Tid Scan" in claimed
        assert all("task_pkey" in plan for plan in (*early, *late) if "DELETE FROM" in plan)
        assert "Sort Key: task.pos" not in claimed
        assert 101 == len(claims)


def test_a_claim_does_not_grow_with_the_tasks_done_before_while_a_snapshot_is_held(rig, schema, url):
    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own, life, claims = await worker(store), incarnation(rig, schema), ()
            with administrator(rig) as connection, administrator(rig) as reader:
                fill(connection, schema, MANY // 5)
                connection.commit()
                reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                reader.execute(f"SELECT FROM {schema}.meta")

                def touched():
                    places = tasks._floors.places(own.queues, is_rescan=False)
                    values = [life, 1_000, False, *turn_values(own, [[], [], []], 100, places, is_rescan=False)]
                    claim = b"EXPLAIN (ANALYZE, BUFFERS) " + Schema(schema).fill(TURN)
                    for _ in range(2):  # the first one fills the caches of the connection
                        told = str(connection.execute(claim, values).fetchall())
                        connection.rollback()
                    return int(re.search(r"shared hit=(\d+)", told).group(1))

                before = touched()
                for _ in range(MANY // 500 - 2):
                    done = [Settlement(receipt=claim.receipt, fate="done") for claim in claims]
                    claims = (await tasks.turn(own, done, want=100)).claims
                assert 100 == len(claims)
                assert before / 10 < touched() < 2 * before

    asyncio.run(_run())


@pytest.fixture
def place(rig, schema, url):
    return rig, schema, url


@pytest.mark.parametrize(
    ("statement", "values", "index"),
    [
        (ORPHANS, [["q"], [], [], 50], "task_open"),
        (READY, [*LANES, 2, 50], "task_ready"),
        (HAS_SUSPECT, [1], "task_open"),
        (COUNT_OPEN, ["q"], "task_open"),
        (BY_ID, [["t"]], "task_pkey"),
        (OF_DEATHS, [], "task_deaths"),
    ],
)
def test_the_rules_of_a_rare_turn_find_their_rows_by_an_index(place, statement, values, index):
    rig, schema, url = place

    async def _made():
        async with opened(url, 1):
            return Schema(schema)

    fitted = asyncio.run(_made())
    with administrator(rig) as connection:
        fill(connection, schema, MANY)
        connection.execute(f"INSERT INTO {schema}.worker VALUES (7, '', '', 1, 'q', 1)")
        connection.execute(f"UPDATE {schema}.task SET session = 7, deaths = 1 WHERE pos % 10000 = 0")
        for statistics in ("SELECT 1", f"ANALYZE {schema}.task"):
            connection.execute(statistics)
            connection.execute(fitted.fill(BEGIN), [incarnation(rig, schema), 1_000, False])
            plan = connection.execute(b"EXPLAIN " + fitted.fill(statement), values).fetchall()
            told = "\n".join(line for (line,) in plan)
            assert f"using {index} on" in told
            assert "Seq Scan on task" not in told


def test_an_entry_that_another_transaction_adds_meanwhile_is_waited_for(rig, schema, url):
    async def _run():
        async with opened(url, 1) as (store, (tasks,)):
            await tasks.enqueue([task()])
            (claim,) = (await tasks.turn(await worker(store), want=1)).claims
            with administrator(rig) as other:
                other.execute(f"INSERT INTO {schema}.once VALUES ('q', 'k', '0', 1, 1, 1e13, '7')")
                asked = asyncio.create_task(tasks.once(OnceStep(scope="q", key="k", receipt=claim.receipt)))
                while not other.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
                    assert not asked.done()
                    await asyncio.sleep(0.01)
                other.commit()
            assert OnceState(found="done", receipt=Receipt(task="0", attempt=1, session=1), value=b"7") == await asked

    asyncio.run(_run())
