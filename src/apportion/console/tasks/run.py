"""Run: `apportion tasks worker`, which runs the tasks of a program's queues until it is asked to leave.

Promises: SIGTERM, SIGINT and SIGHUP ask all workers to leave at once, and the command ends with exit code 0. A signal
more than a second later ends it. While tasks still run, the command says so every five seconds. Running tasks have 20
seconds to end. The command waits no longer for a plain function in a thread: the store refuses its late completion.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from apportion.console.tasks.lane_options import LaneOptions
from apportion.console.tasks.lines import WorkerLines
from apportion.console.tasks.queue_places import queues_at
from apportion.runtime.signals import ONE_SIGNAL_SECONDS
from apportion.work.facade import Queue
from apportion.work.threads import THREADS
from apportion.work.worker import QueueWorker

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SAY_SECONDS = 5.0
_MOST_NAMED, _LAST_SECONDS = 3, 0.5


def run(places: Sequence[str], *, concurrency: int | None, processes: int, lanes: LaneOptions, json: bool) -> None:
    """Run the tasks of queues until a signal asks to leave."""
    queues = queues_at(places)
    member = lanes.member(queues)
    lines = WorkerLines(json=json)
    logging.getLogger().addHandler(lines)
    logging.getLogger("apportion").setLevel(logging.INFO)
    try:
        workers = [
            (
                each,
                each.worker(
                    concurrency=concurrency,
                    processes=processes,
                    member=None if each.partitions is None else member,
                ),
            )
            for each in queues
        ]
        asyncio.run(_Workers(workers, lines).work())
    finally:
        logging.getLogger().removeHandler(lines)
        if _is_busy():
            lines.tell("abandoned", "ends while plain functions still run; other workers run their tasks again")
        lines.end()


class _Workers:
    """The workers of this process, one per queue."""

    def __init__(self, workers: Sequence[tuple[Queue, QueueWorker]], lines: WorkerLines) -> None:
        self._workers, self._say = workers, lines.tell
        self._leaving = asyncio.Event()
        self._opening: set[asyncio.Task[None]] = set()
        self._open: list[tuple[str, QueueWorker]] = []

    async def work(self) -> None:
        """Open all workers, wait for a signal, and leave."""
        with self._heard():
            runs = [asyncio.ensure_future(self._run(*each)) for each in self._workers]
            self._opening.update(runs)
            saying = asyncio.ensure_future(self._say_the_wait())
            try:
                await asyncio.gather(*runs)
            except asyncio.CancelledError:
                if not self._leaving.is_set():
                    raise
            finally:
                self._leave()
                await asyncio.wait(runs)
                saying.cancel()
        self._say("left", "left; all tasks are settled or given back")

    async def _run(self, queue: Queue, worker: QueueWorker) -> None:
        async with worker:
            self._opening.discard(asyncio.current_task())
            self._open.append((queue.name, worker))
            functions = ", ".join(sorted(queue.task_names))
            self._say("ready", f"{queue.name}: runs {functions}; {worker.concurrency} at a time")
            await self._leaving.wait()
        self._open.remove((queue.name, worker))

    def _leave(self) -> None:
        self._leaving.set()
        for each in self._opening:
            each.cancel()

    async def _say_the_wait(self) -> None:
        await self._leaving.wait()
        while True:
            await asyncio.sleep(SAY_SECONDS)
            for name, worker in self._open:
                self._say("waiting", f"{name}: {_reason(worker)}")

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Hear the signals within the block; one that is ignored, as under nohup, stays ignored."""
        loop, numbers = asyncio.get_running_loop(), [each for each in SIGNALS if _is_heard(each)]
        first_at: list[float] = []

        def _hear(number: int) -> None:
            if not first_at:
                first_at.append(loop.time())
                self._say("leaving", "leaves: starts nothing more; a second signal ends it at once")
                self._leave()
            elif loop.time() >= first_at[0] + ONE_SIGNAL_SECONDS:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        for number in numbers:
            loop.add_signal_handler(number, _hear, number)
        try:
            yield
        finally:
            for number in numbers:
                with suppress(ValueError):
                    loop.remove_signal_handler(number)


def _is_busy() -> bool:
    """Whether a plain function still runs in its thread; a thread without one ends in a moment."""
    threads = [each for each in threading.enumerate() if each.name.startswith(THREADS)]
    for each in threads:
        each.join(_LAST_SECONDS / len(threads))
    return any(each.is_alive() for each in threads)


def _is_heard(number: int) -> bool:
    return signal.getsignal(number) is not signal.SIG_IGN


def _reason(worker: QueueWorker) -> str:
    running = worker.running
    if not running:
        return "still waits for the store to record how its tasks ended"
    named = ", ".join(running[:_MOST_NAMED]) + (" and others" if len(running) > _MOST_NAMED else "")
    return f"still waits for {len(running)} running {'task' if len(running) == 1 else 'tasks'}: {named}"
