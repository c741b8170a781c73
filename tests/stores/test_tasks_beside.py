"""Tables of tasks change nothing for groups on the same store: no version, no table, no function, no running handle.

So a process of a release that knows no tasks opens the store as before.
"""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from apportion.sim.conformance.context import Stage
from apportion.sim.conformance.steps import make
from apportion.sim.conformance.task_stage import TaskStage, done
from tests.stores.rigs import rig_of


def sqlite_parts(rig):
    """Return the versions of a file, and the statements that made its tables and indexes, by name."""
    path = rig.url("n").removeprefix("sqlite:///").partition("?")[0]
    with closing(sqlite3.connect(path)) as connection:
        versions = [connection.execute(f"PRAGMA {each}").fetchall() for each in ("user_version", "application_id")]
        made = connection.execute("SELECT name, tbl_name, sql FROM sqlite_master").fetchall()
    return versions, {name: (table, sql) for name, table, sql in made}


def postgres_parts(rig):
    """Return the version of a schema, and its columns and functions, by name."""
    versions = rig.sql("SELECT schema_version FROM apportion.meta")
    columns = "SELECT table_name || '.' || column_name, table_name, data_type FROM information_schema.columns"
    made = rig.sql(f"{columns} WHERE table_schema = 'apportion'")
    made += rig.sql("SELECT oid::text, proname, prosrc FROM pg_proc WHERE pronamespace = 'apportion'::regnamespace")
    return versions, {name: (table, text) for name, table, text in made}


PARTS = {"sqlite": sqlite_parts, "postgres": postgres_parts}


@pytest.mark.parametrize("name", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_tables_of_tasks_leave_versions_tables_and_handles_of_groups_as_they_were(name):
    rig, parts = rig_of(name)(), PARTS[name]

    async def _run():
        async with Stage(rig, "beside") as stage:
            lease = await stage.store.grant(ttl_seconds=60)
            first = await make(stage.store, "member", lease=lease.id)
            tape = await stage.watch(after=first)
            before = parts(rig)
            tasks = TaskStage(stage, await stage.connect_tasks())
            await tasks.add(tasks.new())
            after = parts(rig)
            assert before[0] == after[0]
            assert before[1] == {each: after[1].get(each) for each in before[1]}
            assert set(after[1]) - set(before[1]), "tables of tasks were made"
            worker = await tasks.worker()
            await tasks.settle(worker, *map(done, await tasks.claim(worker)))
            assert {lease.id} == await stage.store.renew([lease.id])
            last = await make(stage.store, "later")
            assert ["later"] == [event.key for change in await tape.shows(last) for event in change.events]

    try:
        asyncio.run(_run())
    finally:
        asyncio.run(rig.close())
