"""Tables of tasks that were made before there were keys get their part of them, and lose nothing."""

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.model.epoch import FencingToken
from apportion.stores.catalog import connect, connect_tasks
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.task_values import NewTask, Settlement, Worker
from tests.stores.rigs import rig_of
from tests.stores.rigs.postgres import USER

BEFORE = json.loads((Path(__file__).parent / "vectors" / "tables_before_keys.json").read_text())
COLUMNS = "id, queue, lane, name, codec, arguments, trace, enqueued, ready_at"
LANE = OwnedLane(queue="q", partition=0, token=FencingToken(resource="q/0", holder="h", incarnation=1, epoch=1))


async def claims_of(url):
    """Open tables that were made before, add two tasks of a key, and return the claims of two turns."""
    store, tasks = await connect(url), await connect_tasks(url)
    try:
        keyed = [NewTask(id=each, queue="q", name="f", arguments=b"", lane=16, key="k") for each in ("b", "c")]
        await tasks.enqueue(keyed)
        lease = await store.grant(ttl_seconds=5)
        worker = Worker(session=lease.id, queues=("q",), lanes=(LANE,))
        claims = (await tasks.turn(worker, want=9)).claims
        done = [Settlement(receipt=each.receipt, fate="done") for each in claims]
        answer = await tasks.turn(replace(worker, pid=1), done, want=9)
        return [each.task for each in (*claims, *answer.claims)]
    finally:
        await tasks.close()
        await store.close()


def test_a_file_from_before_keys_gets_their_part_and_keeps_its_tasks(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"

    async def _made():
        await (await connect(url)).close()

    asyncio.run(_made())
    with closing(sqlite3.connect(tmp_path / "work.db", isolation_level=None)) as connection:
        for statement in BEFORE["sqlite"]:
            connection.execute(statement)
        connection.execute(f"INSERT INTO task ({COLUMNS}) VALUES ('a', 'q', 2, 'f', 'json', x'', '', 1, 1)")
        assert ["a", "b", "c"] == asyncio.run(claims_of(url))
        # A process of the release before goes on: it adds a task beside the new columns.
        connection.execute(f"INSERT INTO task ({COLUMNS}) VALUES ('d', 'q', 2, 'f', 'json', x'', '', 1, 1)")
        assert [("d", 0, None)] == connection.execute("SELECT id, behind, key FROM task WHERE lane = 2").fetchall()


OLD_ENQUEUE = (
    "SELECT verdict FROM apportion.enqueue_tasks((SELECT incarnation FROM apportion.meta), 1000, ARRAY['d'],"
    " ARRAY['q'], ARRAY[2::bigint], ARRAY['f'], ARRAY['json'], ARRAY[''::bytea], ARRAY[0::bigint],"
    " ARRAY[NULL::bigint], ARRAY[NULL::bigint], ARRAY[NULL::text], ARRAY[5::bigint], ARRAY[''], ARRAY[false])"
)


@pytest.mark.slow
def test_a_schema_from_before_keys_gets_their_part_and_keeps_its_tasks():
    rig = rig_of("postgres")()

    async def _made():
        await (await connect(rig.url("n"))).close()

    try:
        asyncio.run(_made())
        for statement in BEFORE["postgres"]:
            rig.sql(statement.replace("{schema}", "apportion").replace("{channel}", "'apportion'"))
        rig.sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON apportion.task TO {USER}")
        values = "'a', 'q', 2, 'f', 'json', '', '', 1, 1"
        rig.sql(f"INSERT INTO apportion.task (pos, {COLUMNS}) VALUES (nextval('apportion.task_pos'), {values})")
        assert ["a", "b", "c"] == asyncio.run(claims_of(rig.url("n", user="postgres")))
        assert [(True,)] == rig.sql(f"SELECT has_table_privilege('{USER}', 'apportion.lane', 'UPDATE')")
        assert [("begun",)] == rig.sql(OLD_ENQUEUE)  # a process of the release before goes on
    finally:
        asyncio.run(rig.close())
