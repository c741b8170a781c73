"""A damaged row of the tables of tasks costs itself alone in each question of an operator, and nothing is changed."""

import asyncio
import sqlite3
from contextlib import closing
from itertools import product

import pytest

from apportion.console.tasks import report
from apportion.stores.catalog import administration
from apportion.stores.damage import sqlite as damage
from apportion.stores.damage.rows import damage_found
from apportion.stores.task_control import Cancel, Hasten, Listing, QueueStats, Redrive, SetLimit, Survey
from apportion.stores.task_values import Settlement, Worker
from apportion.work.admin.arguments import STATES
from apportion.work.admin.cause import why_of
from apportion.work.admin.questions import TaskPage
from tests.stores.test_postgres_tasks import rig, schema
from tests.stores.test_tasks import opened, task

__all__ = ["rig", "schema"]
JUNK = ["'x'", "''", "x'ff00'", "CAST(x'ff00' AS TEXT)", "-1", "1e999", "0.5", "9223372036854775807", "NULL"]
TABLES = {"task": "pos", "outcome": "id", "control": "queue", "worker": "session"}
JUNK_OF_TYPES = {
    "text": ["''", "'x'", "','", "E'\\x01'"],
    "bigint": ["-1", "9223372036854775807", "253402300800000"],
    "double precision": ["'NaN'", "'Infinity'", "-1"],
    "boolean": ["true", "false"],
    "bytea": ["''", "'\\xff00'"],
}


async def filled(store, tasks):
    """Fill the tables: a ready, a delayed, a claimed, a dead and a cancelled task, a worker, and limits."""
    await tasks.control(SetLimit(queue="q", rate=10))
    await tasks.enqueue([task(), task()])
    worker = Worker(session=(await store.grant(ttl_seconds=60)).id, name="w", host="h", pid=1, queues=("q", "r"))
    dead, _ = (await tasks.turn(worker, want=2)).claims
    await tasks.turn(worker, [Settlement(receipt=dead.receipt, fate="dead", reason="why")])
    made = [task(), task(delay_ms=3_600_000), task()]
    await tasks.enqueue(made)
    await tasks.control(Cancel(tasks=(made[2].id,)))


async def answers(tasks, ids, capsys):
    """Ask all questions, print all answers in both forms, and return the tasks by id."""
    overview = await tasks.query(Survey())
    listed = await tasks.query(Listing(states=STATES))
    shown = await tasks.query(Listing(tasks=ids))
    assert {row.id for row in shown} >= {row.id for row in listed if row.id in ids}
    queue = next((each for each in overview.queues if each.queue == "q"), QueueStats(queue="q"))
    for json in (False, True):
        report.print_stats("url", overview.queues, json=json)
        report.print_workers("url", overview.workers, json=json)
        report.print_page("q", TaskPage(tasks=listed, after=None), json=json)
        report.print_tasks(shown, {}, json=json)
        report.print_whys([why_of(each, queue, now=0) for each in shown], json=json)
    assert "" == capsys.readouterr().err
    return {row.id: row for row in listed}, overview


async def check_one_costs_one(tasks, table, key, capsys, sound):
    """Ask about damaged tables, and compare with the answers about sound ones."""
    before, overview = sound
    found, survey = await answers(tasks, tuple(before), capsys)
    changed = {each for each in before if found.get(each) != before[each]}
    assert changed <= ({key} if table in ("task", "outcome") else set())
    gone = [each for each in found.values() if each.id not in before or each.state == "damaged"]
    assert all(" is " in each.reason for each in gone if each.state == "damaged")
    if table == "outcome":
        assert all(0 == each.position for each in gone)
    if table != "worker":
        assert overview.workers == survey.workers
    if table in ("worker", "outcome"):
        assert [each.ready for each in overview.queues if each.ready] == [e.ready for e in survey.queues if e.ready]


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_row_of_a_file_costs_itself_alone_in_each_question(tmp_path, capsys, table):
    async def _run(other):
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await filled(store, tasks)
            ids = tuple(row.id for row in await tasks.query(Listing(states=STATES)))
            sound = await answers(tasks, ids, capsys)
            columns = [row[1] for row in other.execute(f"PRAGMA table_info({table})")]
            mark = TABLES[table]
            (key, *_), *_ = other.execute(f"SELECT {mark}, * FROM {table} ORDER BY 1").fetchall()
            named = other.execute(f"SELECT id FROM task WHERE pos = {key}").fetchone()[0] if table == "task" else key
            seen = 0
            for column, value in product([each for each in columns if each != mark], JUNK):
                (kept,) = other.execute(f"SELECT {column} FROM {table} WHERE {mark} = ?", [key]).fetchone()
                try:
                    other.execute(f"UPDATE {table} SET {column} = {value} WHERE {mark} = ?", [key])
                except sqlite3.IntegrityError:
                    continue
                await check_one_costs_one(tasks, table, named, capsys, sound)
                other.execute(f"UPDATE {table} SET {column} = ? WHERE {mark} = ?", [kept, key])
                seen += 1
            assert sound[0] == (await answers(tasks, ids, capsys))[0]
            assert len(JUNK) * len(columns) // 2 < seen

    with closing(sqlite3.connect(tmp_path / "work.db", timeout=10, isolation_level=None)) as other:
        asyncio.run(_run(other))


@pytest.mark.parametrize("table", ["task", "outcome"])
def test_the_id_of_a_damaged_row_may_be_anything(tmp_path, capsys, table):
    async def _run(other):
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await filled(store, tasks)
            ids = tuple(row.id for row in await tasks.query(Listing(states=STATES)))
            other.execute(f"UPDATE {table} SET id = x'ff' WHERE id = (SELECT min(id) FROM {table})")
            other.execute(f"UPDATE {table} SET id = CAST(x'fe' AS TEXT) WHERE id = (SELECT min(id) FROM {table})")
            found, _ = await answers(tasks, ids, capsys)
            assert len(ids) - 2 == len(found)
            assert 2 == len(damage.names(other))
            [finding] = [
                each
                for each in await administration(f"sqlite:///{tmp_path}/work.db").inspect()
                if each.subject == "rows of tasks"
            ]
            assert ("error", True) == (finding.verdict, "task" in finding.found)

    with closing(sqlite3.connect(tmp_path / "work.db", timeout=10, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=WAL")
        asyncio.run(_run(other))


@pytest.mark.parametrize("column", ["deaths_of", "note", "attempt", "ready_at", "due", "name"])
@pytest.mark.parametrize("value", ["x'ff00'", "CAST(x'ff00' AS TEXT)"])
@pytest.mark.parametrize("table", ["task", "outcome"])
def test_a_command_on_a_damaged_row_puts_it_aside_and_goes_on(tmp_path, table, column, value):
    async def _run(other):
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await filled(store, tasks)
            ids = tuple(row.id for row in await tasks.query(Listing(states=STATES)))
            other.execute(f"UPDATE {table} SET {column} = {value} WHERE id = (SELECT min(id) FROM {table})")
            for command in (Hasten, Redrive, Cancel):
                await tasks.control(command(tasks=ids))
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            await tasks.turn(worker, want=9)
            assert set(ids) == {row.id for row in await tasks.query(Listing(tasks=ids))}

    with closing(sqlite3.connect(tmp_path / "work.db", timeout=10, isolation_level=None)) as other:
        asyncio.run(_run(other))


def test_a_text_that_is_no_utf_8_ends_no_worker_and_its_task_runs(tmp_path):
    async def _run(other):
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await tasks.enqueue([task(), task()])
            other.execute("UPDATE task SET trace = CAST(x'61ff62' AS TEXT) WHERE pos = 1")
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            claims = (await tasks.turn(worker, want=9)).claims
            assert ["a\N{REPLACEMENT CHARACTER}b", ""] == [each.trace for each in claims]

    with closing(sqlite3.connect(tmp_path / "work.db", timeout=10, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=WAL")
        asyncio.run(_run(other))


@pytest.mark.live
@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_row_of_postgresql_costs_itself_alone_in_each_question(rig, schema, tmp_path, capsys, table):
    async def _run():
        async with opened(rig.url("n", options=f"&schema={schema}"), tmp_path) as (store, tasks):
            await filled(store, tasks)
            ids = tuple(row.id for row in await tasks.query(Listing(states=STATES)))
            sound = await answers(tasks, ids, capsys)
            mark = TABLES[table]
            kinds = f"table_schema = '{schema}' AND table_name = '{table}' AND column_name NOT IN ('{mark}', 'id')"
            columns = rig.sql(f"SELECT column_name, data_type FROM information_schema.columns WHERE {kinds}")
            (key, *_), *_ = rig.sql(f"SELECT {mark}::text FROM {schema}.{table} ORDER BY 1")
            named = rig.sql(f"SELECT id FROM {schema}.task WHERE pos = {key}")[0][0] if table == "task" else key
            for column, kind in columns:
                for value in JUNK_OF_TYPES[kind]:
                    rig.sql(
                        f"DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT * FROM {schema}.{table};"
                        f"UPDATE {schema}.{table} SET {column} = {value} WHERE {mark}::text = '{key}'"
                    )
                    await check_one_costs_one(tasks, table, named, capsys, sound)
                    rig.sql(
                        f"UPDATE {schema}.{table} AS t SET {column} = kept.{column} FROM kept"
                        f" WHERE kept.{mark} = t.{mark} AND t.{mark}::text = '{key}'"
                    )
            assert sound[0] == (await answers(tasks, ids, capsys))[0]
            assert len(columns) > 4

    asyncio.run(_run())


@pytest.mark.live
def test_doctor_names_the_damaged_rows_of_postgresql(rig, schema, tmp_path):
    async def _run(url):
        async with opened(url, tmp_path) as (store, tasks):
            await filled(store, tasks)
            found = [{each.subject: each for each in await administration(url).inspect()}["rows of tasks"]]
            rig.sql(f"UPDATE {schema}.task SET attempt = -1; UPDATE {schema}.outcome SET deaths_of = 'x'")
            found.append({each.subject: each for each in await administration(url).inspect()}["rows of tasks"])
            rig.sql(
                f"DELETE FROM {schema}.task; DELETE FROM {schema}.outcome;"
                f" INSERT INTO {schema}.lane (queue, lane, incarnation, epoch, holder, session)"
                " VALUES ('n/q', 19, 1, 1::bigint << 62, 'a 1', 1), ('n/q', 20, 1, 7, 'a 1', 1)"
            )
            found.append({each.subject: each for each in await administration(url).inspect()}["rows of tasks"])
            assert ["ok", "error", "error"] == [each.verdict for each in found]
            assert "ended task" in found[1].found
            assert "lane 3 of n/q" == found[2].found

    asyncio.run(_run(rig.url("n", options=f"&schema={schema}")))


@pytest.mark.parametrize(("count", "more"), [(4, False), (5, True)])
def test_four_damaged_rows_are_named_and_the_others_counted(count, more):
    names = [f"row {number}" for number in range(count)]
    found = damage_found(names).found
    assert (4, more) == (sum(name in found for name in names), "; 1 more" in found)
    assert more == ("more" in found)
