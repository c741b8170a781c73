"""Turns of a worker with keys on a real PostgreSQL server: one round trip, by indexes alone, under all rules."""

import asyncio
import re
from dataclasses import replace

import psycopg
import pytest

from apportion.model.epoch import FencingToken
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.postgres.door import Transaction
from apportion.stores.postgres.schema import Schema
from apportion.stores.postgres.tasks import rules, upkeep
from apportion.stores.postgres.tasks.lanes import HOLD, SHOW, SHOWN, _columns
from apportion.stores.postgres.tasks.statements import BEGIN, FIRST, KEYED_TURN, LEASE, turn_values
from apportion.stores.task_values import NewTask, Settlement, Worker
from tests.stores.test_postgres_tasks import rig, schema, url
from tests.stores.test_postgres_tasks_at_once import LANES, administrator, incarnation, opened, place

__all__ = ["place", "rig", "schema", "url"]
pytestmark = pytest.mark.live
PARTITIONS, MANY = 8, 20_000
OWNED = tuple(
    OwnedLane(queue="q", partition=each, token=FencingToken(resource="q", holder="h", incarnation=1, epoch=1))
    for each in range(PARTITIONS)
)


async def owner(store):
    """Return a worker that owns all lanes."""
    return Worker(session=(await store.grant(ttl_seconds=60)).id, queues=("q",), lanes=OWNED)


def new(number, lane=None, key=None):
    """Return a task: of a key, or of a priority."""
    at = 16 + number % PARTITIONS if lane is None else lane
    return NewTask(id=f"{number:032x}", queue="q", name="f", arguments=b"", lane=at, key=key)


def of_key(number, key=None):
    """Return a task of a key of its own, or of that one in the first lane."""
    return new(number, key=f"k{number}") if key is None else new(number, 16, key)


def fill(connection, schema, count):
    """Add tasks of many keys, and as many that wait behind them."""
    connection.execute(
        f"INSERT INTO {schema}.task (id, pos, queue, lane, name, codec, arguments, trace, enqueued, ready_at, key)"
        f" SELECT md5(n::text), {schema}.next_position(), 'q', 16 + n % {PARTITIONS}, 'f', 'json', '', '', 1, 1,"
        f" 'k' || (n % {count // 2}) FROM generate_series(0, {count - 1}) AS n"
    )


def plans(connection, schema, own, life):
    """Return the plans of all statements of a keyed turn, and its rows."""
    told = []
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
    for setting in ("log_min_duration = 0", "log_nested_statements = on", "log_analyze = on"):
        connection.execute(f"SET auto_explain.{setting}")
    connection.execute("SET client_min_messages = log")
    asked = turn_values(own, [["x"], [1], [1]], 100, LANES, is_rescan=False)
    values = [life, 1_000, False, *asked, *_columns(own.lanes, 0)[:-1]]
    rows = connection.execute(Schema(schema).fill(KEYED_TURN), values).fetchall()
    connection.execute("SET client_min_messages = warning")
    return told, rows


def test_the_statements_of_a_keyed_turn_find_their_rows_by_an_index(rig, schema, url):
    async def _prepared():
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            await tasks.turn(own, want=1)  # shows its tokens
            return own

    own = asyncio.run(_prepared())
    with administrator(rig) as connection:
        connection.execute("LOAD 'auto_explain'")
        early, _ = plans(connection, schema, own, incarnation(rig, schema))
        fill(connection, schema, MANY)
        late, claims = plans(connection, schema, own, incarnation(rig, schema))
        for told in (early, late):
            scans = [
                each for plan in told for each in re.findall(r"(?:Seq|Bitmap Heap) Scan on (?:task|lease|lane)\b", plan)
            ]
            assert [] == scans
            assert not any("JIT" in plan for plan in told)
        picked = next(plan for plan in late if "FOR UPDATE OF t SKIP LOCKED" in plan)
        assert all(each in picked for each in ("using task_first", "task_keyed", "task_key_claimed", "Tid Scan"))
        assert any("using lane_pkey" in plan and "FOR SHARE" in plan for plan in late)
        assert 101 == len(claims)


@pytest.mark.parametrize(
    ("statement", "values", "index"),
    [
        (FIRST, {"each": 8, "queues": ["q"], "lanes": [16], "deaths": 2, "most": 100}, "task_first"),
        (HOLD, [["q"], [16]], "lane_pkey"),
        (SHOWN, [["q"]], "lane_pkey"),
    ],
)
def test_the_rare_rules_of_keys_find_their_rows_by_an_index(place, statement, values, index):
    rig, schema, url = place

    async def _made():
        async with opened(url, 1):
            return Schema(schema)

    fitted = asyncio.run(_made())
    with administrator(rig) as connection:
        fill(connection, schema, MANY)
        connection.execute(fitted.fill(BEGIN), [incarnation(rig, schema), 1_000, False])
        told = "\n".join(line for (line,) in connection.execute(b"EXPLAIN " + fitted.fill(statement), values))
        assert f"using {index} on" in told
        assert "Seq Scan on" not in told


def test_a_keyed_turn_of_the_common_case_is_one_round_trip_without_the_rules(url, monkeypatch):
    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            await tasks.enqueue([of_key(each) for each in range(20)])
            claims = (await tasks.turn(own, want=5)).claims  # shows its tokens
            monkeypatch.setattr(type(tasks), "_rare", None)
            seen = [each.key for each in claims]
            while claims:
                done = [Settlement(receipt=each.receipt, fate="done") for each in claims]
                claims = (await tasks.turn(own, done, want=5)).claims
                seen += [each.key for each in claims]
            assert [f"k{each}" for each in range(20)] == seen

    asyncio.run(_run())


def test_a_keyed_turn_that_shows_a_token_or_carries_a_retry_claims_by_one_statement(url, monkeypatch):
    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            monkeypatch.setattr(rules, "claim", None)
            await tasks.enqueue([of_key(each) for each in range(6)])
            claims = (await tasks.turn(own, want=3)).claims  # shows its tokens
            fates = ["retry", "dead", "done"]
            ended = [
                Settlement(receipt=each.receipt, fate=fate, delay_ms=60_000 if fate == "retry" else 0)
                for each, fate in zip(claims, fates, strict=True)
            ]
            answer = await tasks.turn(own, ended, want=9)
            assert () == answer.refused
            assert ["k3", "k4", "k5"] == [each.key for each in answer.claims]

    asyncio.run(_run())


def test_the_first_turn_in_a_lane_that_was_gained_makes_five_statements(url, monkeypatch):
    asked, ask = [], Transaction.ask

    async def _counted(transaction, statement, parameters=()):
        asked.append(statement)
        return await ask(transaction, statement, parameters)

    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            await tasks.turn(replace(own, lanes=own.lanes[1:]), want=1)
            await tasks.enqueue([of_key(0, "a")])
            monkeypatch.setattr(Transaction, "ask", _counted)
            assert ["a"] == [each.key for each in (await tasks.turn(own, want=9)).claims]

    asyncio.run(_run())
    assert [BEGIN, LEASE, SHOWN, SHOW, KEYED_TURN] == asked


def test_lanes_and_holders_of_any_name_are_shown_as_they_are(url):
    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            name = 'a "b" \\ {c},NULL'
            token = FencingToken(resource="q", holder=name, incarnation=1, epoch=1)
            lanes = tuple(OwnedLane(queue=each, partition=0, token=token) for each in (name, "null"))
            own = Worker(session=(await store.grant(ttl_seconds=60)).id, queues=(name, "null"), lanes=lanes)
            await tasks.turn(own, want=1)  # shows its tokens
            await tasks.enqueue([replace(of_key(0, "k"), queue=name), replace(of_key(1, "k"), queue="null")])
            assert ["0", "1"] == [each.task[-1] for each in (await tasks.turn(own, want=9)).claims]

    asyncio.run(_run())


def test_priorities_and_keys_share_the_places_of_a_turn_by_rank_and_age(rig, schema, url):
    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            await tasks.turn(own, want=1)  # shows its tokens
            await tasks.enqueue([new(0, 3), of_key(1, "a"), of_key(2, "a"), new(3, 2), of_key(4, "b")])
            await tasks.enqueue([new(each, 0) for each in range(5, 15)])
            rig.sql(f"UPDATE {schema}.task SET ready_at = 1 WHERE lane = 3")
            claims = (await tasks.turn(own, want=13)).claims
            # Of eight places one goes to the oldest; the second of key `a` waits.
            expected = [*range(5, 12), 0, 12, 13, 14, 1, 3]
            assert expected == [int(each.task, 16) for each in claims]
            assert [4] == [int(each.task, 16) for each in (await tasks.turn(own, want=9)).claims]

    asyncio.run(_run())


def test_marks_that_are_off_too_much_cost_looks_and_no_order(rig, schema, url):
    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            await tasks.turn(own, want=1)  # shows its tokens
            await tasks.enqueue([of_key(each, "a") for each in range(30)])
            await tasks.enqueue([of_key(30, "b")])
            rig.sql(f"UPDATE {schema}.task SET behind = false")
            assert [0, 30] == [int(each.task, 16) for each in (await tasks.turn(own, want=3)).claims]

    asyncio.run(_run())


@pytest.mark.parametrize("most", [2, upkeep.MOST_KEYS])
def test_a_key_goes_on_after_a_completion_whose_snapshot_lacks_its_next_task(rig, schema, url, monkeypatch, most):
    monkeypatch.setattr(upkeep, "UPKEEP_SECONDS", 0.0)
    monkeypatch.setattr(upkeep, "MOST_KEYS", most)

    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            await tasks.enqueue([of_key(each) for each in range(4)])
            claims = (await tasks.turn(own, want=9)).claims
            with administrator(rig) as caller:
                caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                caller.execute(f"SELECT FROM {schema}.meta")  # its snapshot
                await tasks.enqueue([of_key(9, "k3")])
                caller.execute(f"DELETE FROM {schema}.task WHERE id = %s", [claims[3].task])
            assert [(True,)] == rig.sql(f"SELECT behind FROM {schema}.task WHERE key = 'k3'")
            looks = [await tasks.turn(own, want=9) for _ in range(3)]
            assert ["k3"] == [claim.key for answer in looks for claim in answer.claims]

    asyncio.run(_run())


def test_the_look_for_keys_that_are_stuck_takes_one_seek_for_each_key(rig, schema, url):
    async def _made():
        async with opened(url, 1):
            return Schema(schema)

    fitted = asyncio.run(_made())
    with administrator(rig) as connection:
        fill(connection, schema, MANY)
        explain = b"EXPLAIN (ANALYZE, BUFFERS) "
        told = "\n".join(line for (line,) in connection.execute(explain + fitted.fill(upkeep.KEYS), ["", "", 100]))
        assert "using task_keyed on" in told
        assert "Seq Scan on" not in told
        assert int(re.search(r"shared hit=(\d+)", told).group(1)) < 1_000


def test_one_statement_that_deletes_tasks_of_many_keys_frees_the_next_of_each(rig, schema, url):
    async def _run():
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            await tasks.enqueue([of_key(each, key) for each, key in enumerate("abcabca")])
            claims = (await tasks.turn(own, want=9)).claims
            assert ["a", "b", "c"] == [each.key for each in claims]
            rig.sql(f"DELETE FROM {schema}.task WHERE session IS NOT NULL OR id = '{claims[0].task[:-1]}3'")
            assert [4, 5, 6] == [int(each.task, 16) for each in (await tasks.turn(own, want=9)).claims]

    asyncio.run(_run())


def test_a_schema_without_the_functions_of_keyed_turns_gets_them_at_the_next_opening(rig, schema, url):
    async def _run():
        async with opened(url, 1) as (_, [tasks]):
            await tasks.enqueue([of_key(each, "a") for each in range(2)])
        rig.sql(f"DROP FUNCTION {schema}.keys_leave() CASCADE")
        rig.sql(f"DROP FUNCTION {schema}.keyed_turn, {schema}.first_keys")
        async with opened(url, 1) as (store, [tasks]):
            own = await owner(store)
            claims = (await tasks.turn(own, want=9)).claims
            answer = await tasks.turn(own, [Settlement(receipt=claims[0].receipt, fate="done")], want=9)
            assert [0, 1] == [int(each.task, 16) for each in (*claims, *answer.claims)]

    asyncio.run(_run())
