"""Runs: the tasks that a worker runs now, on the event loop of the program or in threads, and the fate of each.

Promises: at most `concurrency` tasks run at a time. Every claim gets one settlement at its end, unless its session is
over: then its run is cancelled, and its end is told to nobody.
A task that has completed itself in a transaction is settled once more: the store refuses that if the transaction was
committed, and follows it if the transaction was rolled back.
A task under which a process has ended runs in a child of its own, as does a plain function with a time limit.
Refuses: to stop a plain function in a thread. It runs to its end, and its completion is refused if it came too late.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from apportion.stores.task_values import Claim, Receipt, Settlement
from apportion.work.attempt import attempt
from apportion.work.child import place_of, run_in_child
from apportion.work.current import Desk, RunningTask
from apportion.work.function import AnyTaskFunction

THREADS = "apportion-task"  # the names of the threads of plain functions begin so
_UNKNOWN_MS, _MOST_UNKNOWN_MS = 5_000, 300_000


class Runs:
    """The runs of one worker, for the loop of the program. The `desk` hears of each end."""

    def __init__(
        self,
        url: str,
        functions: Mapping[str, AnyTaskFunction],
        *,
        concurrency: int,
        desk: Desk,
    ) -> None:
        self._url, self._functions, self._concurrency = url, functions, concurrency
        self._desk = desk
        self._waiting: deque[tuple[Claim, int]] = deque()
        self._running: dict[Receipt, asyncio.Task[None]] = {}
        self._cancelled: set[Receipt] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self, claims: list[Claim], incarnation: int) -> None:
        """Run these tasks, each as soon as there is a free place."""
        self._waiting.extend((claim, incarnation) for claim in claims)
        self._fill()

    def unstarted(self) -> list[Receipt]:
        """Forget the tasks that were not started, and return their receipts."""
        receipts = [claim.receipt for claim, _ in self._waiting]
        self._waiting.clear()
        return receipts

    def cancel(self, receipts: list[Receipt]) -> None:
        """Cancel the runs of tasks that are to be cancelled; their fate is "cancelled"."""
        self._cancelled.update(receipt for receipt in receipts if receipt in self._running)
        for receipt in receipts:
            if receipt in self._running:
                self._running[receipt].cancel()

    def lose(self, session: int) -> None:
        """Cancel all runs of a session that is over."""
        self._waiting = deque(each for each in self._waiting if each[0].receipt.session != session)
        for receipt in [each for each in self._running if each.session == session]:
            self._running[receipt].cancel()
        self._tell_idle()

    def running(self) -> tuple[str, ...]:
        """Return the ids of the tasks that run now."""
        return tuple(receipt.task for receipt in self._running)

    async def until_idle(self) -> None:
        """Return once no task runs or waits."""
        await self._idle.wait()

    def close(self) -> None:
        """Cancel the runs that go on, and end the threads once their runs have ended."""
        for task in self._running.values():
            task.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._concurrency:
            claim, incarnation = self._waiting.popleft()
            run = asyncio.ensure_future(self._run(claim, incarnation))
            self._running[claim.receipt] = run
            run.add_done_callback(partial(self._ended, claim.receipt))
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._running or self._waiting:
            self._idle.clear()
        else:
            self._idle.set()

    def _ended(self, receipt: Receipt, run: "asyncio.Task[None]") -> None:
        del self._running[receipt]
        self._cancelled.discard(receipt)
        if not run.cancelled() and run.exception() is not None:
            attempts = self._desk.attempts
            attempts.fail(receipt, run.exception() or RuntimeError())
            failed = Settlement(receipt=receipt, fate="retry", reason="the worker failed", delay_ms=_UNKNOWN_MS)
            self._desk.settle(failed)
        self._fill()

    async def _run(self, claim: Claim, incarnation: int) -> None:
        function = self._functions.get(claim.name)
        if function is None:
            delay_ms = min(_UNKNOWN_MS * 2 ** min(claim.attempt - 1, 6), _MOST_UNKNOWN_MS)
            reason = f"this worker has no task function {claim.name!r}"
            self._desk.settle(Settlement(receipt=claim.receipt, fate="released", reason=reason, delay_ms=delay_ms))
            return
        self._desk.started(claim.receipt)
        try:
            settlement = await self._attempt(function, claim, incarnation)
        except asyncio.CancelledError:
            if claim.receipt not in self._cancelled:
                raise
            settlement = Settlement(receipt=claim.receipt, fate="cancelled", reason="cancelled on request")
        self._desk.settle(settlement)

    async def _attempt(self, function: AnyTaskFunction, claim: Claim, incarnation: int) -> Settlement:
        """Run an attempt here, or in a child of its own if it could end this process or cannot be stopped here."""
        place = place_of(function)
        limit = function.task_options.time_limit
        has_deadline = limit is not None and not function.is_async
        if place is None or not (claim.is_suspect or has_deadline):
            return await attempt(function, RunningTask(claim, incarnation, self._desk), self._in_thread)
        seconds_left = self._desk.seconds_left(claim.session)
        return await run_in_child(self._url, place, claim, incarnation, seconds_left, attempts=self._desk.attempts)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - a call of any function
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix=THREADS)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
