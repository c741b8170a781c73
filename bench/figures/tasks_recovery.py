"""Workers that are killed with -9 while 100 000 tasks wait: the time until another one has started each of their tasks.

Three of six workers at work are killed at a time, and replaced; the next kill waits until the new ones work too. The
time of a kill is that of its last task. A task that a killed worker had claimed and not started counts with those that
nobody had started.
"""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

import apportion
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_most
from bench.queues.mortal import LOG, TTL_SECONDS, URL, work
from bench.row import Row

WAITING, AT_ONCE, WORKERS, KILLED, ROUNDS = 100_000, 1_000, 6, 3, 4
DEADLINE_SECONDS = 30.0
SETTLED_SECONDS = 2.0  # a worker has started its fork server then
GOAL = at_most(TTL_SECONDS + 1, "s")
Run = tuple[str, int]  # a task, and its attempt


@dataclass(slots=True)
class Log:
    """The lines of the log so far: when each run began and where, and the runs that ended."""

    path: Path
    began: dict[Run, tuple[int, float]] = field(default_factory=dict)
    ended: set[Run] = field(default_factory=set)
    _read: int = 0

    def look(self) -> None:
        """Read the lines that are new."""
        with self.path.open("rb") as log:
            log.seek(self._read)
            *lines, _ = log.read().split(b"\n")
        self._read += sum(len(line) + 1 for line in lines)
        for line in lines:
            word, task, attempt, process, seconds = line.decode().split()
            if word == "began":
                self.began[task, int(attempt)] = int(process), float(seconds)
            else:
                self.ended.add((task, int(attempt)))

    def open_runs(self, process: int) -> list[Run]:
        """Return the runs of a process that began and did not end."""
        return [run for run, (place, _) in self.began.items() if place == process and run not in self.ended]

    def has_begun(self, process: int) -> bool:
        """Whether a process has begun a run."""
        return any(place == process for place, _ in self.began.values())

    def begun_again(self, run: Run) -> float | None:
        """Return when a task began after a run of it; None if it did not yet.

        A claim that was given back unstarted leaves a gap between the attempts.
        """
        task, attempt = run
        later = (self.began.get((task, attempt + more)) for more in range(1, 10))
        return min((each[1] for each in later if each is not None), default=None)


def rows() -> list[Row]:
    """Kill on each store."""
    return engines.rows_of(_measure, "plain postgres", "sqlite", what="recovery after kill -9")


async def _measure(rig: Rig) -> list[Row]:
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a child ends a moment after its worker
        log = Log(Path(folder) / "log")
        log.path.touch()
        url = rig.url("bench")
        await _fill(url)
        workers: list[Process] = []
        try:
            taken: list[float] = []
            for _ in range(ROUNDS):
                workers += [await _worker(url, log.path) for _ in range(WORKERS - len(workers))]
                await _at_work(log, workers)
                taken += await _killed(log, workers[:KILLED])
                del workers[:KILLED]
        finally:
            for worker in workers:
                with suppress(ProcessLookupError):
                    worker.kill()
                await worker.wait()
    longest = max(taken)
    name = f"recovery after kill -9, lease of {TTL_SECONDS:g} s, {WAITING} waiting, {rig.name}: the longest"
    shown = f"{longest:.2f} s of {len(taken)} ({min(taken):.2f}..{longest:.2f}, median {median(taken):.2f})"
    return [Row(name=name, value=longest, shown=shown, goal=str(GOAL), met=GOAL.is_met(longest))]


async def _fill(url: str) -> None:
    queue = apportion.Queue(url, "mortal")
    for begin in range(0, WAITING, AT_ONCE):
        await queue.enqueue_many([work.call(number) for number in range(begin, begin + AT_ONCE)])
    await queue.close()


async def _worker(url: str, log: Path) -> Process:
    begun = "from apportion.console.main import main; main()"
    command = ("tasks", "worker", "bench.queues.mortal:queue", "--concurrency", "4")
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        begun,
        *command,
        env=os.environ | {URL: url, LOG: str(log)},
        stdout=DEVNULL,
        stderr=DEVNULL,
    )


async def _at_work(log: Log, workers: list[Process]) -> None:
    """Wait until all workers run tasks, and have their fork servers."""
    await _until(log, lambda: all(log.has_begun(worker.pid) for worker in workers))
    await asyncio.sleep(SETTLED_SECONDS)


async def _killed(log: Log, victims: list[Process]) -> list[float]:
    """Kill workers at work; return how long it took for each until its open runs had begun again elsewhere."""
    await _until(log, lambda: all(log.open_runs(victim.pid) for victim in victims))
    killed_at = []
    for victim in victims:
        victim.kill()
        killed_at.append(monotonic())
    for victim in victims:
        await victim.wait()
    log.look()
    runs = [log.open_runs(victim.pid) for victim in victims]
    with suppress(TimeoutError):  # a run that did not begin again counts with the whole deadline
        await _until(log, lambda: all(log.begun_again(run) is not None for each in runs for run in each))
    return [
        max((log.begun_again(run) or at + DEADLINE_SECONDS) - at for run in each)
        for at, each in zip(killed_at, runs, strict=True)
        if each
    ]


async def _until(log: Log, is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not is_so():
            await asyncio.sleep(0.02)
            log.look()
