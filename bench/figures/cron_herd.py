"""1 000 schedules that are due in one second, on one node and on ten, in PostgreSQL: the time, and the statements.

The nodes are simulated: each has the scheduler and the connections of a process, but they share one. The server logs
each statement, from a second before the slots until all of them were triggered.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, cast

from apportion.sim.conformance.rig import Rig
from apportion.sim.slot_walk import instant
from apportion.stores.catalog import connect_tasks
from apportion.work.cron.declaration import cron_schedule, placed
from apportion.work.cron.scheduler import ScheduledHere, Scheduler
from bench import engines
from bench.goal import at_most
from bench.queues.timetable import CALL, queue_at
from bench.row import Row

SCHEDULES, NODES, AHEAD_SECONDS, PATIENCE_SECONDS = 1_000, 10, 3.0, 60.0
SECONDS, SHARE = at_most(2, "s"), at_most(1.5, "x one node")
_OURS = (b"ALTER SYSTEM", b"pg_reload_conf", b"SELECT count(*) FROM apportion.schedule")  # no statements of nodes
FIRST = datetime(2026, 5, 5, 12, 0, tzinfo=UTC)


class _Served(Protocol):
    folder: Path

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement as an administrator."""
        ...


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a store, and its schedules and tasks, by statements of an administrator."""

    sql: Callable[[str], list[tuple[Any, ...]]]
    schema: str

    def step_to(self, moment: datetime) -> None:
        """Let the store show a moment."""
        self.sql(f"UPDATE {self.schema}work_meta SET offset_ms = {instant(moment) - instant(datetime.now(UTC))}")

    def due(self, moment: datetime) -> int:
        """Return how many schedules have a slot up to a moment that was not triggered."""
        return int(self.sql(f"SELECT count(*) FROM {self.schema}schedule WHERE next_slot <= {instant(moment)}")[0][0])

    def triggered(self) -> Counter[tuple[str, int]]:
        """Return the schedule and the slot of each task, counted."""
        return Counter(
            (str(name), int(slot)) for name, slot in self.sql(f"SELECT schedule, slot FROM {self.schema}task")
        )


async def clock_of(rig: Rig, url: str) -> Clock:
    """Make the tables of tasks in the store of a rig; return its clock."""
    await (await connect_tasks(url)).close()
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///").partition("?")[0]

        def _in_file(statement: str) -> list[tuple[Any, ...]]:
            with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
                return connection.execute(statement).fetchall()

        return Clock(_in_file, "")
    served = cast("_Served", rig)
    return Clock(served.sql, "apportion.")


def rows() -> list[Row]:
    """Trigger on one node, then on ten."""
    return engines.rows_of(_measure, "plain postgres", what=f"{SCHEDULES} schedules in one second")


async def _measure(rig: Rig) -> list[Row]:
    one, (seconds, statements) = await _run(rig, 1), await _run(rig, NODES)
    share = statements / one[1]
    name = f"{SCHEDULES} schedules due in one second, {NODES} nodes, postgresql"
    shown = f"{share:.2f} x one node ({statements} and {one[1]})"
    return [
        Row(
            name=f"{name}: until all were triggered",
            value=seconds,
            shown=f"{seconds:.2f} s ({one[0]:.2f} s with one node)",
            goal=str(SECONDS),
            met=SECONDS.is_met(seconds),
        ),
        Row(name=f"{name}: statements", value=share, shown=shown, goal=str(SHARE), met=SHARE.is_met(share)),
    ]


async def _run(rig: Rig, nodes: int) -> tuple[float, int]:
    """Let so many nodes trigger all slots; return the seconds after the slots, and the statements of the server."""
    url = rig.url("bench")
    clock, name = await clock_of(rig, url), queue_at(url)._full_name
    for table in ("schedule", "slot_mark", "task"):
        clock.sql(f"DELETE FROM apportion.{table}")
    clock.step_to(FIRST + timedelta(seconds=1))
    first = await connect_tasks(url)
    schedule = placed(cron_schedule(name, "s", CALL, "* * * * *", {}), instant(FIRST + timedelta(seconds=1)))
    await first.schedules.register([replace(schedule, name=f"s{each}") for each in range(SCHEDULES)])
    slot = FIRST + timedelta(minutes=1)
    clock.step_to(slot - timedelta(seconds=AHEAD_SECONDS))
    due_at = monotonic() + AHEAD_SECONDS
    # Another name of the application makes other connections, as another process has them.
    handles = [await connect_tasks(f"{url}&application_name=node-{number}") for number in range(nodes)]
    schedulers = [Scheduler(each, [name], ScheduledHere(declared=()), by="node") for each in handles]
    await asyncio.sleep(max(0.0, due_at - 1.0 - monotonic()))
    said = await _statements(cast("_Served", rig), lambda: not clock.due(slot))
    seconds = monotonic() - due_at
    for scheduler in schedulers:
        await scheduler.end()
    for handle in (first, *handles):
        await handle.close()
    if {*clock.triggered().values()} != {1} or len(clock.triggered()) != SCHEDULES:
        raise RuntimeError(f"{clock.triggered().total()} of {SCHEDULES} slots were triggered")
    return seconds, said


async def _statements(server: _Served, is_so: Callable[[], bool]) -> int:
    """Return how many statements of nodes the server logs until a condition holds."""
    server.sql("ALTER SYSTEM SET log_statement = 'all'")
    server.sql("SELECT pg_reload_conf()")
    log = server.folder / "server.log"
    before, deadline = log.stat().st_size, monotonic() + PATIENCE_SECONDS
    while not is_so():
        if monotonic() > deadline:
            raise TimeoutError(f"not all slots were triggered within {PATIENCE_SECONDS:g} s")
        await asyncio.sleep(0.05)
    server.sql("ALTER SYSTEM RESET log_statement")
    server.sql("SELECT pg_reload_conf()")
    with log.open("rb") as lines:
        lines.seek(before)
        said = [line for line in lines.read().splitlines() if b" LOG: " in line or line.startswith(b"LOG: ")]
    said = [line for line in said if b"statement: " in line or b"execute " in line]
    return sum(not any(each in line for each in _OURS) for line in said)
