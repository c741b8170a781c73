"""Enqueues: one caller, 8 callers at a time, and 1 000 tasks at once, beside the same inserts by hand; all are flushed.

By hand, 8 callers have 8 connections: coroutines in PostgreSQL, threads in SQLite. The 1 000 calls and the 1 000
arguments by hand are made beforehand; the time to make a call is a row of its own. For comparison, "the least" is one
plain insert into our table with all its indexes, from the I/O thread and by a cursor of the driver. In SQLite it is
the insert by hand, from that thread.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from time import perf_counter_ns
from typing import Protocol, TypeAlias
from uuid import uuid4

import psycopg

from apportion.runtime.io_thread import io_thread
from apportion.sim.conformance.rig import Rig
from apportion.stores.postgres.schema import SCHEMA
from bench import engines
from bench.clock import spread
from bench.goal import at_least
from bench.queues import AT_ONCE
from bench.queues import postgres_by_hand as postgres
from bench.queues import sqlite_by_hand as sqlite
from bench.queues.contest import Work, compared, repeated
from bench.queues.ours import OurQueue
from bench.row import Row

ROUNDS, CALLS, CALLERS, CALLS_OF_EACH, BATCHES = 9, 100, 8, 12, 6
GOALS = {"postgresql": at_least(0.55, "x by hand"), "sqlite": at_least(0.45, "x by hand")}
MANY, AT_ONCE_GOAL = at_least(0.9, "x by hand"), at_least(0.7, "x by hand")

LEAST = (
    f"INSERT INTO {SCHEMA}.task (pos, id, queue, lane, name, codec, arguments, trace, enqueued, ready_at)"
    f" VALUES (nextval('{SCHEMA}.task_pos'), %b, 'least', 2, 'handle', 'json', %b, '', 1, 1)"
)
Connection: TypeAlias = "psycopg.AsyncConnection[tuple[object, ...]]"


class _ByHand(Protocol):
    async def alone(self) -> None:
        """Add a task; nobody else does."""

    async def one(self, caller: int) -> None:
        """Add a task over the connection of a caller."""

    async def many(self, arguments: list[bytes]) -> None:
        """Add tasks in one transaction."""

    def least(self) -> dict[str, Work]:
        """Return the least work of an enqueue; our tables exist when this is called."""


def rows() -> list[Row]:
    """Enqueue to each store."""
    return engines.rows_of(_measure, "plain postgres", "sqlite", what="enqueue")


async def _measure(rig: Rig) -> list[Row]:
    queue, handle = OurQueue(rig.url("bench"), tasks=0).opened()
    calls, arguments = [handle.call(number) for number in range(AT_ONCE)], _arguments()

    async def one(_: int = 0) -> None:
        await queue.enqueue(handle.call(7))

    async def many() -> None:
        await queue.enqueue_many(calls)

    async with _BY_HAND[rig.name](rig) as by_hand:
        works = {"ours": one, "by hand": by_hand.alone} | by_hand.least()
        single = await repeated(works, rounds=ROUNDS, calls=CALLS)
        eight = await repeated({"ours": _callers(one), "by hand": _callers(by_hand.one)}, rounds=ROUNDS, calls=1)
        large = await repeated({"ours": many, "by hand": lambda: by_hand.many(arguments)}, rounds=ROUNDS, calls=BATCHES)
    await queue.close()
    eight = {name: [each // (CALLERS * CALLS_OF_EACH) for each in times] for name, times in eight.items()}
    large = {name: [each // AT_ONCE for each in times] for name, times in large.items()}
    found = [
        compared(f"enqueue, {rig.name}, {what}", times["ours"], "by hand", times["by hand"], goal)
        for what, times, goal in (
            ("one caller", single, GOALS[rig.name]),
            (f"{CALLERS} callers", eight, MANY),
            (f"{AT_ONCE} at once", large, AT_ONCE_GOAL),
        )
    ]
    found += [compared(f"enqueue, {rig.name}, the least", single["least"], "by hand", single["by hand"], None)]
    return [*found, _call_row(handle.call)] if rig.name == "sqlite" else found


def _callers(one: Callable[[int], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return the work of several callers, each of which adds some tasks one after another."""

    async def _caller(number: int) -> None:
        for _ in range(CALLS_OF_EACH):
            await one(number)

    async def _all() -> None:
        await asyncio.gather(*map(_caller, range(CALLERS)))

    return _all


def _arguments() -> list[bytes]:
    return [json.dumps([number]).encode() for number in range(AT_ONCE)]


def _call_row(call: Callable[[int], object]) -> Row:
    times = []
    for _ in range(ROUNDS):
        began = perf_counter_ns()
        for number in range(AT_ONCE):
            call(number)
        times.append(perf_counter_ns() - began)
    taken = spread(times, calls=AT_ONCE * 1_000)
    return Row(name="a call, bound and encoded", value=taken.median, shown=taken.shown("us"))


class _Postgres:
    def __init__(self, connections: "list[Connection]", of_thread: "Connection") -> None:
        self._connections, self._of_thread = connections, of_thread

    async def alone(self) -> None:
        await self.one(0)

    async def one(self, caller: int) -> None:
        await self._connections[caller].execute(postgres.ADD, (uuid4().hex, json.dumps([7]).encode()))

    async def many(self, arguments: list[bytes]) -> None:
        await self._connections[0].execute(postgres.ADD_MANY, ([uuid4().hex for _ in arguments], arguments))

    def least(self) -> dict[str, Work]:
        return {"least": self._least}

    async def _least(self) -> None:
        async def _add() -> None:
            await self._of_thread.execute(LEAST, (uuid4().hex, b'{"number":7}'))

        await io_thread().hop(_add())


@asynccontextmanager
async def _postgres(rig: Rig) -> AsyncIterator[_ByHand]:
    dsn = rig.url("bench").partition("?")[0]
    postgres.PostgresByHand(dsn, tasks=0)
    thread = io_thread()
    of_thread = await thread.hop(psycopg.AsyncConnection.connect(dsn, autocommit=True))
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(await psycopg.AsyncConnection.connect(dsn, autocommit=True))
            for _ in range(CALLERS)
        ]
        yield _Postgres(connections, of_thread)
    await thread.hop(of_thread.close())


class _Sqlite:
    def __init__(self, file: Path, threads: ThreadPoolExecutor, stack: AsyncExitStack) -> None:
        self._connections = [stack.enter_context(closing(sqlite.connected(file))) for _ in range(CALLERS)]
        self._threads = threads

    async def alone(self) -> None:
        self._add(0)

    async def one(self, caller: int) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._add, caller)

    async def many(self, arguments: list[bytes]) -> None:
        sqlite.add_all(self._connections[0], arguments)

    def least(self) -> dict[str, Work]:
        return {"least": lambda: io_thread().hop(self.alone())}

    def _add(self, caller: int) -> None:
        self._connections[caller].execute(sqlite.ADD, (uuid4().hex, json.dumps([7]).encode()))


@asynccontextmanager
async def _sqlite(rig: Rig) -> AsyncIterator[_ByHand]:
    file = Path(rig.url("bench").removeprefix("sqlite:///").partition("?")[0]).with_name("by_hand.db")
    sqlite.SqliteByHand(file, tasks=0)
    async with AsyncExitStack() as stack:
        yield _Sqlite(file, stack.enter_context(ThreadPoolExecutor(CALLERS)), stack)


_BY_HAND = {"postgresql": _postgres, "sqlite": _sqlite}
