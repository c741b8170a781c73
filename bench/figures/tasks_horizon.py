"""Claims in PostgreSQL while a snapshot is held: the buffers that one claim of 100 touches, before and after 500 000.

A held snapshot, of a reader or of a transaction that has written, keeps the dead entries of all indexes. The buffers
are those of `EXPLAIN (ANALYZE, BUFFERS)` of the statement of a turn, which is then rolled back. *Floor off* is the same
claim from the front of its lane, as a rescan makes it.
"""

from statistics import median
from typing import Any, Protocol, cast

import psycopg

from apportion.sim.conformance.rig import Rig
from apportion.stores import CoordinationStore, connect
from apportion.stores.catalog import connect_tasks
from apportion.stores.postgres.schema import Schema
from apportion.stores.postgres.tasks import statements as sql
from apportion.stores.postgres.tasks.floors import Places
from apportion.stores.postgres.tasks.rules import Settling
from apportion.stores.postgres.tasks.store import PostgresTasks
from apportion.stores.task_values import LANES, Settlement, Worker
from bench import engines
from bench.goal import at_least, at_most
from bench.row import Row

TASKS, WANT, PROBES, TTL_SECONDS, LOCK_MS = 500_000, 500, 5, 3_600.0, 5_000
FLAT, STEEP = at_most(2, "x at start"), at_least(20, "x at start")
SNAPSHOTS = {"a reader": "SELECT 1", "a writer": "SELECT pg_current_xact_id()"}
FILL = """
INSERT INTO apportion.task (pos, id, queue, lane, name, codec, arguments, trace, enqueued, ready_at)
SELECT nextval('apportion.task_pos'), md5(n::text || '{queue}'), '{queue}', 2, 'handle', 'json', '{{}}', '', 1, 1
FROM generate_series(1, {count}) AS n
"""


class _Administered(Protocol):
    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as an administrator."""
        ...


def rows() -> list[Row]:
    """Drain under each kind of snapshot."""
    return engines.rows_of(_measure, "plain postgres", what="claims while a snapshot is held")


async def _measure(rig: Rig) -> list[Row]:
    store, tasks = await connect(rig.url("bench")), await connect_tasks(rig.url("bench"))
    try:
        if not isinstance(tasks, PostgresTasks):
            raise TypeError(f"tasks of PostgreSQL are {type(tasks).__name__}")
        found = []
        for name, statement in SNAPSHOTS.items():
            found += await _held(rig, store, tasks, name, statement)
        return found
    finally:
        await tasks.close()
        await store.close()


async def _held(rig: Rig, store: CoordinationStore, tasks: PostgresTasks, name: str, statement: str) -> list[Row]:
    queue = f"bench/{name.removeprefix('a ')}"
    session = (await store.grant(ttl_seconds=TTL_SECONDS)).id
    worker = Worker(session=session, queues=(queue,), name="bench", host="bench", pid=1)
    cast("_Administered", rig).sql(FILL.format(queue=queue, count=TASKS + 10 * WANT))
    dsn = rig.url("bench").partition("?")[0]
    with psycopg.connect(dsn) as holder, psycopg.connect(dsn) as prober:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute(statement)
        claimed = (await tasks.turn(worker, want=WANT)).claims
        start = _buffers(prober, worker, tasks._floors.places(worker.queues, is_rescan=False))
        for _ in range(TASKS // WANT):
            settled = [Settlement(receipt=claim.receipt, fate="done") for claim in claimed]
            claimed = (await tasks.turn(worker, settled, want=WANT)).claims
            if len(claimed) < WANT:
                raise RuntimeError(f"a claim of {WANT} got {len(claimed)}")
        end = _buffers(prober, worker, tasks._floors.places(worker.queues, is_rescan=False))
        front = _buffers(prober, worker, ([queue] * len(LANES), list(LANES), [0] * len(LANES)))
    what = f"buffers of a claim after {TASKS} under the snapshot of {name}"
    return [_row(what, start, end, is_flat=True), _row(f"{what}, floor off", start, front, is_flat=False)]


def _row(name: str, start: float, now: float, *, is_flat: bool) -> Row:
    goal, ratio = FLAT if is_flat else STEEP, now / start
    shown = f"{ratio:.2f} x at start ({start:.0f} buffers then, {now:.0f} now)"
    return Row(name=name, value=ratio, shown=shown, goal=str(goal), met=goal.is_met(ratio))


def _buffers(connection: "psycopg.Connection[Any]", worker: Worker, places: Places) -> float:
    """Return the buffers of a claim of 100 in the middle of some; each is rolled back."""
    [(incarnation,)] = connection.execute("SELECT incarnation FROM apportion.meta").fetchall()
    statement = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + Schema().fill(sql.TURN)
    none = Settling(()).done_values()
    asked = [incarnation, LOCK_MS, False, *sql.turn_values(worker, none, 100, places, is_rescan=False)]
    counts = []
    for _ in range(1 + PROBES):  # the first reads the catalog too
        [(answer,)] = connection.execute(statement, asked).fetchall()
        plan = answer[0]["Plan"]
        counts.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        connection.rollback()
    return float(median(counts[1:]))
