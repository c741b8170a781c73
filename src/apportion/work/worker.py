"""Worker: runs the tasks of queues within a block, on the event loop that opened the block.

At the end of the block, and on SIGTERM, the worker claims nothing more and gives back the tasks that it has not
started. Running ones have 20 seconds to end; then they are cancelled and given back.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from apportion.errors import InvalidInput
from apportion.runtime.attempt_events import AttemptObserver
from apportion.runtime.blocks import OnlyAsync, Raised
from apportion.runtime.io_thread import io_thread
from apportion.runtime.resource import AsyncResource
from apportion.runtime.signals import leaving_on_sigterm
from apportion.runtime.simulated import Runner, clock_here
from apportion.stores.task_api import TaskTransactions
from apportion.stores.task_values import Claim, Note, Receipt, Settlement, Worker
from apportion.work.attempts import Attempts
from apportion.work.claimant import Claimant, Hears
from apportion.work.function import AnyTaskFunction
from apportion.work.log import log
from apportion.work.runs import Runs

LEAVE_SECONDS = 20.0
MOST_CONCURRENCY = 10_000


class QueueWorker(OnlyAsync):
    """A worker for the time of an `async with` block; see `Queue.worker`."""

    _call = "queue.worker()"

    def __init__(
        self,
        url: str,
        queue: str,
        functions: Mapping[str, AnyTaskFunction],
        *,
        ttl_seconds: float,
        concurrency: int,
        observers: tuple[AttemptObserver, ...] = (),
        leave_seconds: float = LEAVE_SECONDS,
    ) -> None:
        if type(concurrency) is not int or not 1 <= concurrency <= MOST_CONCURRENCY:
            hint = "It is the number of tasks that run at a time in this process."
            raise InvalidInput("concurrency", concurrency, f"an int in 1 .. {MOST_CONCURRENCY}", hint)
        self._ended: list[Settlement] = []
        self._begun: list[Receipt] = []
        self._url = url
        self._functions, self._concurrency, self._leave_seconds = functions, concurrency, leave_seconds
        self._row = Worker(
            session=0,
            queues=(queue,),
            name=f"{socket.gethostname()}/{os.getpid()}",
            host=socket.gethostname(),
            pid=os.getpid(),
            concurrency=concurrency,
        )
        names = {"queue": queue.rpartition("/")[2], "worker": self._row.name}
        self.attempts = Attempts(log, *observers, **names, clock=clock_here())
        self._resource = AsyncResource(
            self._call,
            lambda: Claimant.begin(
                url, self._row, ttl_seconds=ttl_seconds, hears=self._hears(), attempts=self.attempts
            ),
            lambda claimant: claimant.end(),
            self._entered,
            around=lambda claimant: leaving_on_sigterm(claimant.leave),
        )

    async def __aenter__(self) -> "QueueWorker":
        self._loop = asyncio.get_running_loop()
        self._early: list[tuple[list[Claim], int]] = []
        self._runs: Runs | None = None
        return await self._resource.__aenter__()

    async def __aexit__(self, *raised: *Raised) -> None:
        try:
            await self._leave()
        finally:
            await self._resource.__aexit__(*raised)

    @property
    def running(self) -> tuple[str, ...]:
        """The ids of the tasks that run now."""
        return () if self._runs is None else self._runs.running()

    async def until_drained(self) -> None:
        """Wait until no task is ready and none runs here."""
        await io_thread().hop(self._claimant.drained())

    async def _leave(self) -> None:
        """Give the running tasks time to end."""
        claimant, runs = self._claimant, self._runs
        claimant.leave()
        if runs is None:
            return
        released = [Settlement(receipt=each, fate="released", reason="the worker left") for each in runs.unstarted()]
        claimant.settle(released)
        try:
            async with asyncio.timeout(self._leave_seconds):
                await runs.until_idle()
        except TimeoutError:
            pass
        finally:
            runs.close()
            self._send()

    def _entered(self, claimant: Claimant, _: Runner) -> "QueueWorker":
        self._claimant = claimant
        self._runs = Runs(
            self._url,
            self._functions,
            concurrency=self._concurrency,
            desk=self,
        )
        for claims, incarnation in self._early:
            self._runs.start(claims, incarnation)
        return self

    def settle(self, settlement: Settlement) -> None:
        """See `Desk`. The ends of one turn of the loop go to the I/O thread together."""
        self.attempts.end(settlement.receipt)
        self._send_soon()
        self._ended.append(settlement)

    def started(self, receipt: Receipt) -> None:
        """See `Desk`."""
        self.attempts.begin(receipt)
        self._send_soon()
        self._begun.append(receipt)

    def _send_soon(self) -> None:
        if not (self._ended or self._begun):
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        ended, self._ended = self._ended, []
        begun, self._begun = self._begun, []
        if ended or begun:
            self._claimant.settle(ended, begun)

    async def note(self, note: Note) -> None:
        """See `Desk`."""
        await io_thread().hop(self._claimant.note(note))

    @property
    def transactions(self) -> TaskTransactions:
        """See `Desk`."""
        return self._claimant.transactions

    def seconds_left(self, session: int) -> float:
        """See `Desk`."""
        return self._claimant.seconds_left(session)

    def _hears(self) -> Hears:
        """Return receivers that hand the news to the loop of the program."""
        return Hears(
            claimed=partial(self._tell, self._claimed),
            cancelled=partial(self._tell, self._cancelled),
            lost=partial(self._tell, self._lost),
        )

    def _tell(self, hear: Callable[..., None], *news: object) -> None:
        with suppress(RuntimeError):  # the program has closed its loop
            self._loop.call_soon_threadsafe(hear, *news)

    def _claimed(self, claims: list[Claim], incarnation: int) -> None:
        if self._runs is None:
            self._early.append((claims, incarnation))
        else:
            self._runs.start(claims, incarnation)

    def _cancelled(self, receipts: list[Receipt]) -> None:
        if self._runs is not None:
            self._runs.cancel(receipts)

    def _lost(self, session: int) -> None:
        if self._runs is not None:
            self._runs.lose(session)
