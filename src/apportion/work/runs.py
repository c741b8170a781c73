"""Runs: the tasks that a worker runs now, on the event loop of the program or in threads, and the fate of each.

Promises: at most `concurrency` tasks run at a time. Every claim gets one settlement at its end, unless its session is
over: then its run is cancelled, and its end is told to nobody.
A task that has completed itself in a transaction is settled once more: the store refuses that if the transaction was
committed, and follows it if the transaction was rolled back.
Refuses: to stop a plain function in a thread. It runs to its end, and its completion is refused if it came too late.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial

from apportion.stores.task_values import Claim, Fate, Receipt, Settlement
from apportion.work.budget import GiveUp, Snooze, milliseconds
from apportion.work.current import CURRENT, Desk, RunningTask
from apportion.work.function import AnyTaskFunction

logger = logging.getLogger("apportion.work")
_UNKNOWN_MS, _MOST_UNKNOWN_MS = 5_000, 300_000


class Runs:
    """The runs of one worker, for the loop of the program. The `desk` hears of each end."""

    def __init__(
        self,
        functions: Mapping[str, AnyTaskFunction],
        *,
        concurrency: int,
        desk: Desk,
    ) -> None:
        self._functions, self._concurrency = functions, concurrency
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

    async def until_idle(self) -> None:
        """Return once no task runs or waits."""
        await self._idle.wait()

    def close(self) -> None:
        """Cancel what still runs, and end the threads once their runs have ended."""
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
            logger.error("task %s: the worker failed", receipt.task, exc_info=run.exception())
            failed = Settlement(receipt=receipt, fate="retry", reason="the worker failed", delay_ms=_UNKNOWN_MS)
            self._desk.settle(failed)
        self._fill()

    async def _run(self, claim: Claim, incarnation: int) -> None:
        function = self._functions.get(claim.name)
        if function is None:
            delay_ms = min(_UNKNOWN_MS * 2 ** min(claim.receipt.attempt - 1, 6), _MOST_UNKNOWN_MS)
            self._end(claim, "released", f"this worker has no task function {claim.name!r}", delay_ms)
            return
        task = RunningTask(claim, incarnation, self._desk)
        CURRENT.set(task)
        try:
            args, kwargs = function.signature.decoded(claim.arguments)
        except ValueError as error:
            self._end(claim, "dead", str(error))
            return
        call = asyncio.ensure_future(self._called(function, args, kwargs))
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            call.cancel()
            await asyncio.wait([call])
            if claim.receipt not in self._cancelled:
                raise
        if call.cancelled():
            self._end(claim, "cancelled", "cancelled on request")
        elif (failure := call.exception()) is not None:
            self._failed(claim, function, task, failure)
        else:
            self._desk.settle(Settlement(receipt=claim.receipt, fate="done", result=call.result()))

    async def _called(
        self, function: AnyTaskFunction, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> bytes | None:
        """Call the function; return its result as bytes if the task keeps it."""
        limit = function.task_options.time_limit
        async with asyncio.timeout(None if limit is None else limit.total_seconds()):
            if function.is_async:
                result = await function(*args, **kwargs)
            else:
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="apportion-task")
                call = partial(copy_context().run, function, *args, **kwargs)
                result = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        return function.signature.kept(result) if function.task_options.keep_result else None

    def _failed(self, claim: Claim, function: AnyTaskFunction, task: RunningTask, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {error}"[:2_000]
        if isinstance(error, Snooze):
            self._end(claim, "released", reason, milliseconds(error.after))
            return
        budget = function.task_options.budget
        is_final = isinstance(error, (GiveUp, *budget.give_up_on))
        delay_ms = None if is_final else budget.delay_ms(claim.failures + 1, random.random)
        fate: Fate = "dead" if delay_ms is None else "retry"
        logger.warning("task %s (%s): attempt %d failed: %s", task.id, claim.name, task.attempt, reason)
        self._desk.settle(Settlement(receipt=claim.receipt, fate=fate, reason=reason, delay_ms=delay_ms or 0))

    def _end(self, claim: Claim, fate: Fate, reason: str, delay_ms: int = 0) -> None:
        self._desk.settle(Settlement(receipt=claim.receipt, fate=fate, reason=reason, delay_ms=delay_ms))
