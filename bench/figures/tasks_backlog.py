"""A claim of 100 beside a million ready tasks and 100 ended workers, and one beside a thousand ready tasks, in turns.

The ended workers hold ten tasks each of a queue that nobody serves here, so that they stay. Each turn settles the
claims of the turn before it. The two backlogs are in databases, or files, of their own.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from time import perf_counter_ns
from typing import Protocol, cast
from uuid import uuid4

import psycopg

from apportion.sim.conformance.rig import Rig
from apportion.stores import connect
from apportion.stores.catalog import connect_tasks
from apportion.stores.task_api import TaskStore
from apportion.stores.task_values import Claim, NewTask, Settlement, Worker
from bench import engines
from bench.clock import speed_ratio, spread
from bench.goal import at_most
from bench.row import Row

FEW, MANY, ENDED, HELD, WANT, TURNS, TTL_SECONDS = 1_000, 1_000_000, 100, 10, 100, 60, 3_600.0
GOAL = at_most(2, "x")
QUEUE, OTHER = "bench/served", "bench/other"
Fill = Callable[[int], None]


class _Administered(Protocol):
    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as an administrator."""
        ...

    def url(self, namespace: str, *, database: str = "store") -> str:
        """Return the URL of a database."""
        ...


class _Claimant:
    """A worker that makes one turn after another; it adds as many tasks as it claims."""

    def __init__(self, tasks: TaskStore, session: int) -> None:
        self._tasks, self._claimed = tasks, list[Claim]()
        self._worker = Worker(session=session, queues=(QUEUE,), name="bench", host="bench", pid=1)

    async def turn(self) -> int:
        """Make a turn; return its nanoseconds."""
        settled = [Settlement(receipt=claim.receipt, fate="done") for claim in self._claimed]
        new = [NewTask(id=uuid4().hex, queue=QUEUE, name="handle", arguments=b"{}") for _ in range(WANT)]
        await self._tasks.enqueue(new)
        began = perf_counter_ns()
        answer = await self._tasks.turn(self._worker, settled, want=WANT)
        taken = perf_counter_ns() - began
        self._claimed = list(answer.claims)
        if len(self._claimed) != WANT or answer.refused:
            raise RuntimeError(f"a turn claimed {len(self._claimed)} and had {len(answer.refused)} refused")
        return taken


def rows() -> list[Row]:
    """Claim on each store."""
    return engines.rows_of(_measure, "plain postgres", "sqlite", what="claims beside a large backlog")


async def _measure(rig: Rig) -> list[Row]:
    async with AsyncExitStack() as stack:
        few = await stack.enter_async_context(_claimant(rig, FEW, ended=0))
        many = await stack.enter_async_context(_claimant(rig, MANY, ended=ENDED))
        times: dict[str, list[int]] = {"few": [], "many": []}
        for number in range(TURNS + 2):  # the first turns write down their worker, and plan
            for name, claimant in (("few", few), ("many", many)):
                taken = await claimant.turn()
                if number > 1:
                    times[name].append(taken)
    ratio, each = speed_ratio(times["many"], times["few"]), spread(times["many"], calls=1_000_000)
    name = f"a claim beside {MANY} ready tasks and {ENDED} ended workers, over one beside {FEW}, {rig.name}"
    shown = f"{ratio.shown('x', digits=2)}, {each.median:.1f} ms"
    return [Row(name=name, value=ratio.median, shown=shown, goal=str(GOAL), met=GOAL.is_met(ratio.median))]


@asynccontextmanager
async def _claimant(rig: Rig, ready: int, *, ended: int) -> AsyncIterator[_Claimant]:
    url, fill = (_sqlite if rig.name == "sqlite" else _postgres)(rig, ready)
    async with AsyncExitStack() as stack:
        store, tasks = await connect(url), await connect_tasks(url)
        stack.push_async_callback(store.close)
        stack.push_async_callback(tasks.close)
        await asyncio.to_thread(fill, ended)
        yield _Claimant(tasks, (await store.grant(ttl_seconds=TTL_SECONDS)).id)


def _postgres(rig: Rig, ready: int) -> tuple[str, Fill]:
    server, database = cast("_Administered", rig), f"ready_{ready}"
    owner = server.url("bench").partition("//")[2].partition(":")[0]
    server.sql(f"CREATE DATABASE {database} OWNER {owner}")
    url = server.url("bench", database=database)

    def _fill(ended: int) -> None:
        series = "generate_series(1, {count}) AS s (n)"
        with psycopg.connect(url.partition("?")[0]) as connection:
            for statement in _statements("apportion.", "'\\x7b7d'::bytea", series, ready, ended):
                connection.execute(statement.encode())
            connection.execute(f"SELECT setval('apportion.task_pos', {ready + ended * HELD})".encode())

    return url, _fill


def _sqlite(rig: Rig, ready: int) -> tuple[str, Fill]:
    file = Path(rig.url("bench").removeprefix("sqlite:///").partition("?")[0]).with_name(f"ready_{ready}.db")

    def _fill(ended: int) -> None:
        numbers = "WITH RECURSIVE r (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < {count}) SELECT n FROM r"
        with closing(sqlite3.connect(file)) as connection, connection:
            for statement in _statements("", "x'7b7d'", f"({numbers})", ready, ended):
                connection.execute(statement)

    return f"sqlite:///{file}?namespace=bench", _fill


def _statements(schema: str, call: str, series: str, ready: int, ended: int) -> list[str]:
    """Return statements that add ready tasks, and ended workers with the tasks that they hold."""
    columns = "pos, id, queue, lane, name, codec, arguments, attempt, session, trace, enqueued, ready_at"
    tasks = f"INSERT INTO {schema}task ({columns}) SELECT "
    rest = f"2, 'handle', 'json', {call}"
    found = [f"{tasks} n, 'r' || n, '{QUEUE}', {rest}, 0, NULL, '', 1, 1 FROM {series.format(count=ready)}"]
    if ended:
        found += [
            f"{tasks} {ready} + n, 'h' || n, '{OTHER}', {rest}, 1, 1 + n % {ended}, '', 1, 1"
            f" FROM {series.format(count=ended * HELD)}",
            f"INSERT INTO {schema}worker (session, name, host, pid, queues, concurrency)"
            f" SELECT n, 'ended', 'host', 1, '{OTHER}', 1 FROM {series.format(count=ended)}",
        ]
    return found
