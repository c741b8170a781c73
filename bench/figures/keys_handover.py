"""The wait of a key in a planned hand-over: from the end of its run in one worker to the begin of the next in another.

Two worker processes share 32 keys with tasks that wait all the time. One more worker joins and leaves, again and again.
The running tasks of the lane are not a part of the wait.
"""

import asyncio
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from apportion.sim.conformance.rig import Rig
from apportion.stores.keys.partitions import partition_of
from bench import engines
from bench.goal import at_most
from bench.queues.keyed_worker import PARTITIONS, opened
from bench.row import Row, not_measured

KEYS, TASKS_OF_A_KEY, CHANGES, REST_SECONDS, START_SECONDS = 32, 200, 5, 1.0, 60.0
GOAL = at_most(100, "ms")
Run = tuple[str, int, float, float]


def rows() -> list[Row]:
    """Hand over on each store."""
    return engines.rows_of(_measure, "plain postgres", "sqlite", what="hand-over of keys")


async def _measure(rig: Rig) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-keys-") as folder:
        log = Path(folder) / "log"
        await _fill(rig.url("keys"))
        workers = [await _started(rig.url("keys"), name, log) for name in ("first", "second")]
        try:
            await _changed(rig.url("keys"), log)
        finally:
            for each in workers:
                each.kill()
                await each.wait()
        return [_row(rig.name, log)]


async def _fill(url: str) -> None:
    queue, work = opened(url)
    for _ in range(TASKS_OF_A_KEY // 10):
        calls = [work.call(f"key-{number}").options(key=f"key-{number}") for number in range(KEYS)] * 10
        await queue.enqueue_many(calls)
    await queue.close()


async def _changed(url: str, log: Path) -> None:
    """Let a worker join and leave, and wait each time until runs show it."""
    for _ in range(CHANGES):
        newcomer = await _started(url, "newcomer", log)
        await _until_runs(log, newcomer.pid)
        await asyncio.sleep(REST_SECONDS)
        newcomer.terminate()
        await newcomer.wait()
        await asyncio.sleep(REST_SECONDS)


async def _until_runs(log: Path, pid: int) -> None:
    async with asyncio.timeout(START_SECONDS):
        while pid not in {each for _, each, _, _ in _runs(log)}:
            await asyncio.sleep(0.1)


async def _started(url: str, name: str, log: Path) -> Process:
    command = [sys.executable, "-m", "bench.queues.keyed_worker", url, name, str(log)]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    if process.stdout is None:
        raise RuntimeError("a process without pipes")
    async with asyncio.timeout(START_SECONDS):
        if (await process.stdout.readline()).decode().strip() != "ready":
            raise RuntimeError("a worker has ended")
    return process


def _runs(log: Path) -> Iterator[Run]:
    for line in log.read_text().splitlines() if log.exists() else ():
        key, pid, began, ended = line.split()
        yield key, int(pid), float(began), float(ended)


def _row(store: str, log: Path) -> Row:
    runs = sorted(_runs(log), key=lambda run: (run[0], run[2]))
    pairs = [(one, two) for one, two in pairwise(runs) if one[0] == two[0]]
    waits = [1_000 * (two[2] - _free_at(runs, one, two)) for one, two in pairs if one[1] != two[1]]
    stays = [1_000 * (two[2] - one[3]) for one, two in pairs if one[1] == two[1]]
    name = f"hand-over of a key, {store}: wait beyond the running tasks of its lane, p99"
    if len(waits) < KEYS:
        return not_measured(name, f"{len(waits)} keys have moved", GOAL)
    if min(waits) < 0:
        raise RuntimeError("two runs of a key have overlapped")
    worst = quantiles(waits, n=100)[-1]
    usual = f"p50 {median(waits):.0f} ms of {len(waits)} moves; p50 without a move {median(stays):.0f} ms"
    shown = f"{worst:.0f} ms ({usual})"
    return Row(name=name, value=worst, shown=shown, goal=str(GOAL), met=GOAL.is_met(worst))


def _free_at(runs: list[Run], one: Run, two: Run) -> float:
    """Return the end of the last run in the lane of a key in its old worker, before its first run in the new one."""
    lane = partition_of(one[0], PARTITIONS)
    return max(
        ended
        for key, pid, _, ended in runs
        if pid == one[1] and ended <= two[2] and partition_of(key, PARTITIONS) == lane
    )
