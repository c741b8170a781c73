"""Drains of a queue of tasks by one worker process: ours, the same loop by hand, and peers; speeds are per task.

Each round drains so many waiting tasks. It ends when the store, opened anew, has none left. A peer that is slow drains
fewer tasks per round.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import Goal, at_least
from bench.peers import huey, pgqueuer, procrastinate
from bench.queues.contest import DrainedQueue, compared, drained
from bench.queues.ours import OurQueue
from bench.queues.postgres_by_hand import PostgresByHand
from bench.queues.sqlite_by_hand import SqliteByHand
from bench.row import Row, not_measured

ROUNDS, TASKS, PEER_TASKS, SLOW_TASKS = 5, 20_000, 5_000, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """What ours is compared with, and by which goal; `absent` says why it cannot run here."""

    name: str
    goal: Goal
    queue: DrainedQueue | None
    absent: str = ""


class _Administered(Protocol):
    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as an administrator."""
        ...

    def url(self, namespace: str, *, database: str) -> str:
        """Return the URL of a database."""
        ...


def rows() -> list[Row]:
    """Drain on each store."""
    return engines.rows_of(_measure, "plain postgres", "sqlite", what="drain")


async def _measure(rig: Rig) -> list[Row]:
    rivals = await (_postgres_rivals(rig) if rig.name == "postgresql" else _sqlite_rivals(rig))
    return await asyncio.to_thread(_raced, rig, rivals)


def _raced(rig: Rig, rivals: list[Rival]) -> list[Row]:
    ours = OurQueue(rig.url("bench"), tasks=TASKS)
    times = drained([ours, *(each.queue for each in rivals if each.queue is not None)], rounds=ROUNDS)
    return [_row(f"drain, {rig.name}, against {each.name}", times, each) for each in rivals]


def _row(what: str, times: dict[str, list[int]], rival: Rival) -> Row:
    if rival.queue is None:
        return not_measured(what, rival.absent, rival.goal)
    return compared(what, times["ours"], rival.queue.name, times[rival.queue.name], rival.goal)


async def _postgres_rivals(rig: Rig) -> list[Rival]:
    by_hand = PostgresByHand(_database(rig, "by_hand"), tasks=TASKS)
    rivals = [Rival(name="a loop by hand", goal=at_least(0.6, "x by hand"), queue=by_hand)]
    for name, peer, made, goal, tasks in (
        ("pgqueuer", pgqueuer, pgqueuer.Pgqueuer, at_least(2, "x"), PEER_TASKS),
        ("procrastinate", procrastinate, procrastinate.Procrastinate, at_least(20, "x"), SLOW_TASKS),
    ):
        queue = None
        if not peer.ABSENT:
            queue = made(_database(rig, name), tasks=tasks)
            await queue.install()
        rivals.append(Rival(name=name, goal=goal, queue=queue, absent=peer.ABSENT))
    return rivals


async def _sqlite_rivals(rig: Rig) -> list[Rival]:
    folder = Path(rig.url("bench").removeprefix("sqlite:///").partition("?")[0]).parent
    by_hand = SqliteByHand(folder / "by_hand.db", tasks=TASKS)
    peer = None if huey.ABSENT else huey.Huey(folder / "huey.db", tasks=SLOW_TASKS)
    return [
        Rival(name="a loop by hand", goal=at_least(0.45, "x by hand"), queue=by_hand),
        Rival(name="huey", goal=at_least(4, "x"), queue=peer, absent=huey.ABSENT),
    ]


def _database(rig: Rig, name: str) -> str:
    """Make a database beside ours; return its address for a client."""
    server = cast("_Administered", rig)
    owner = server.url("bench", database=name).partition("//")[2].partition(":")[0]
    server.sql(f"CREATE DATABASE {name} OWNER {owner}")
    return server.url("bench", database=name).partition("?")[0]
