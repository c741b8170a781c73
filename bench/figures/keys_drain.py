"""Keyed tasks in the store itself: a drain of 10 000 keys over one without keys, and other keys beside a full one.

Each turn settles the claims of the turn before it and claims up to 100. The owner has all 64 lanes. Beside the full
key, the worker holds the first of its tasks, so that all the others wait. No task function runs.
"""

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter_ns
from uuid import uuid4

from apportion.model.epoch import FencingToken
from apportion.sim.conformance.rig import Rig
from apportion.stores import connect
from apportion.stores.catalog import connect_tasks
from apportion.stores.lanes.values import KEYED_LANES, OwnedLane
from apportion.stores.task_api import TaskStore
from apportion.stores.task_values import NewTask, Settlement, Worker
from bench import engines
from bench.clock import speed_ratio
from bench.goal import Goal, at_least
from bench.row import Row

KEYS, FULL, LANES, WANT, ROUNDS, AT_ONCE = 10_000, 100_000, 64, 100, 3, 1_000
DRAIN, BESIDE = at_least(0.7, "x unkeyed"), at_least(0.8, "x undisturbed")


def rows() -> list[Row]:
    """Drain on each store."""
    return engines.rows_of(_measure, "plain postgres", "sqlite", what="keyed drain")


async def _measure(rig: Rig) -> list[Row]:
    url = rig.url("bench")
    store, tasks = await connect(url), await connect_tasks(url)
    session = (await store.grant(ttl_seconds=3_600.0)).id
    times: dict[str, list[int]] = {"plain": [], "keyed": [], "beside": []}
    for number in range(ROUNDS + 1):  # the first round plans
        for name, drain in _DRAINS.items():
            taken = await drain(tasks, session, f"bench/{name}{number}")
            if number:
                times[name].append(taken)
    await tasks.close()
    await store.close()
    return [
        _row(f"drain of {KEYS} keys over one without keys, {rig.name}", times["plain"], times["keyed"], DRAIN),
        _row(f"the same beside {FULL} tasks of one key, {rig.name}", times["keyed"], times["beside"], BESIDE),
    ]


def _row(name: str, baseline: Sequence[int], times: Sequence[int], goal: Goal) -> Row:
    ratio = speed_ratio(baseline, times)
    shown = ratio.shown("x", digits=2)
    return Row(name=name, value=ratio.median, shown=shown, goal=str(goal), met=goal.is_met(ratio.median))


async def _plain(tasks: TaskStore, session: int, queue: str) -> int:
    await _add(tasks, [_new(queue) for _ in range(KEYS)])
    return await _drained(tasks, _owner(session, queue, lanes=0))


async def _keyed(tasks: TaskStore, session: int, queue: str) -> int:
    await _add(tasks, [_new(queue, number) for number in range(KEYS)])
    return await _drained(tasks, _owner(session, queue))


async def _beside(tasks: TaskStore, session: int, queue: str) -> int:
    """Drain beside a key of which one task is claimed, and the others wait."""
    await _add(tasks, [_new(queue, KEYS)])
    await tasks.turn(_owner(session, queue), want=1)
    await _add(tasks, [_new(queue, KEYS) for _ in range(FULL)])
    await _add(tasks, [_new(queue, number) for number in range(KEYS)])
    return await _drained(tasks, _owner(session, queue))


_DRAINS: dict[str, Callable[[TaskStore, int, str], Awaitable[int]]] = {
    "plain": _plain,
    "keyed": _keyed,
    "beside": _beside,
}


def _new(queue: str, key: int | None = None) -> NewTask:
    task, lane = uuid4().hex, 2 if key is None else KEYED_LANES + key % LANES
    return NewTask(id=task, queue=queue, name="f", arguments=b"{}", lane=lane, key=None if key is None else f"k{key}")


def _owner(session: int, queue: str, lanes: int = LANES) -> Worker:
    token = FencingToken(resource=queue, holder="bench", incarnation=1, epoch=1)
    owned = tuple(OwnedLane(queue=queue, partition=number, token=token) for number in range(lanes))
    return Worker(session=session, queues=(queue,), name="bench", host="bench", pid=1, lanes=owned)


async def _add(tasks: TaskStore, new: Sequence[NewTask]) -> None:
    for start in range(0, len(new), AT_ONCE):
        await tasks.enqueue(new[start : start + AT_ONCE])


async def _drained(tasks: TaskStore, worker: Worker) -> int:
    """Drain all tasks that can be claimed; return the nanoseconds."""
    began, done, count = perf_counter_ns(), list[Settlement](), 0
    while claims := (await tasks.turn(worker, done, want=WANT)).claims:
        done = [Settlement(receipt=claim.receipt, fate="done") for claim in claims]
        count += len(claims)
    if count != KEYS:
        raise RuntimeError(f"a drain claimed {count} tasks of {KEYS}")
    return perf_counter_ns() - began
