"""Worker: runs the tasks of a queue within a block, on the event loop of the block.

When the block ends, the worker claims no more tasks, and gives back the tasks that it has not started. Running tasks
have 20 seconds to end. Then the worker cancels their runs and gives the tasks back. A plain function in a thread cannot
be stopped: its task is given back too, and its late outcome does not count.
SIGTERM ends the block: the code of the block is cancelled, and the program goes on after the block.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from apportion.errors import InvalidInput
from apportion.runtime.attempt_events import AttemptObserver
from apportion.runtime.blocks import OnlyAsync, Raised
from apportion.runtime.interrupt import noted_interrupts
from apportion.runtime.io_thread import io_thread
from apportion.runtime.resource import AsyncResource
from apportion.runtime.signals import leaving_on_sigterm
from apportion.runtime.simulated import Runner, clock_here
from apportion.stores.task_api import TaskTransactions
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import Note, Receipt, Settlement, Worker
from apportion.work.attempts import Attempts
from apportion.work.claimant import Claimant, Hears
from apportion.work.cron.scheduler import ScheduledHere
from apportion.work.effects.once import stepped
from apportion.work.function import AnyTaskFunction
from apportion.work.lanes.lanes_of_worker import LanesOfWorker, no_lanes
from apportion.work.observers.statistics import TaskStatistics
from apportion.work.runs import Runs

LEAVE_SECONDS = 20.0
MOST_CONCURRENCY = 10_000
MOST_PROCESSES = 1_000
USUAL_CONCURRENCY = 10
_MANY = 250  # a worker sends this number of ends without a further wait: half of the claims that it may hold
_TOGETHER_SECONDS = 0.005  # an end waits at most this long for other ends, while claims wait to begin
_NOTHING_RAISED = (None, None, None)
_WARM_SECONDS = 1.0  # a worker that has run for this long prepares to make children


class QueueWorker(OnlyAsync):
    """A worker that runs during an `async with` block; see `Queue.worker`."""

    _call = "queue.worker()"

    def __init__(
        self,
        url: str,
        queue: str,
        functions: Mapping[str, AnyTaskFunction],
        *,
        ttl_seconds: float,
        concurrency: int | None = None,
        processes: int = 0,
        statistics: TaskStatistics,
        observers: tuple[AttemptObserver, ...] = (),
        schedules: ScheduledHere | None = None,
        lanes: LanesOfWorker = no_lanes,
        leave_seconds: float = LEAVE_SECONDS,
    ) -> None:
        concurrency = _checked_places(concurrency, processes)
        self._ended: list[Settlement] = []
        self._begun: list[Receipt] = []
        self._sending: asyncio.Handle | None = None
        self._is_sending = False  # `_send` is due in the next turn of the event loop
        self._is_open = False
        self._url = url
        self._functions, self._processes = functions, processes
        self.concurrency: int = concurrency
        self._ttl_seconds, self._leave_seconds = ttl_seconds, leave_seconds
        self._row = Worker(
            session=0,
            queues=(queue,),
            name=f"{socket.gethostname()}/{os.getpid()}",
            host=socket.gethostname(),
            pid=os.getpid(),
            concurrency=concurrency,
        )
        names = {"queue": queue.rpartition("/")[2], "worker": self._row.name}
        self.attempts: Attempts = Attempts(*observers, statistics=statistics, **names, clock=clock_here())
        self._resource = AsyncResource(
            self._call,
            lambda: Claimant.begin(
                url,
                self._row,
                ttl_seconds=ttl_seconds,
                hears=self._hears(),
                attempts=self.attempts,
                schedules=schedules,
                lanes=lanes,
            ),
            lambda claimant: claimant.end(),
            self._entered,
            around=lambda _: self._signals(),
        )

    async def __aenter__(self) -> "QueueWorker":
        self._loop = asyncio.get_running_loop()
        self._runs = Runs(
            self._url,
            self._functions,
            concurrency=self.concurrency,
            processes=self._processes,
            ttl_seconds=self._ttl_seconds,
            desk=self,
        )
        self._block, self._is_asked, self._is_open = asyncio.current_task(), False, False
        return await self._resource.__aenter__()

    async def __aexit__(self, *raised: *Raised) -> bool:
        block, self._block = self._block, None
        is_asked = self._is_asked and block is not None and block.uncancel() == 0
        is_ours = is_asked and isinstance(raised[1], asyncio.CancelledError)
        try:
            await self._leave()
        finally:
            await self._resource.__aexit__(*(_NOTHING_RAISED if is_ours else raised))
        return is_ours

    @property
    def running(self) -> tuple[str, ...]:
        """The ids of the tasks that run now."""
        return self._runs.running()

    async def until_drained(self) -> None:
        """Wait until no task of the queue is ready and no task runs in this worker."""
        await io_thread().hop(self._claimant.drained())

    async def _leave(self) -> None:
        """Give the running tasks time to end."""
        claimant, runs = self._claimant, self._runs
        claimant.leave()
        self._warming.cancel()
        runs.give_back()
        try:
            async with asyncio.timeout(self._leave_seconds):
                await runs.until_idle()
        except TimeoutError:
            pass
        finally:
            await runs.close()
            self._send()

    def _entered(self, claimant: Claimant, _: Runner) -> "QueueWorker":
        self._claimant = claimant
        self._warming = self._loop.call_later(_WARM_SECONDS, self._runs.warm)
        self._is_open = True
        if self._is_asked:
            self._loop.call_soon(self._end_block)
        self._runs.open()
        self._send()  # claims were given back while the block opened, if their lanes moved
        return self

    @contextmanager
    def _signals(self) -> Iterator[None]:
        with noted_interrupts(), leaving_on_sigterm(self._asked):
            yield

    def _asked(self) -> None:
        """Begin to leave, on SIGTERM."""
        self._claimant.leave()
        self._tell(self._end_block)

    def _end_block(self) -> None:
        """Give back the tasks that were not started, and cancel the code of the block."""
        self._runs.give_back()
        if self._block is not None:
            self._is_asked = True
            if self._is_open:  # else the worker has failed before the block began: the block ends as soon as it begins
                self._block.cancel()

    def settle(self, settlement: Settlement) -> None:
        """See `Desk`."""
        self.attempts.end(settlement.receipt)
        self._ended.append(settlement)
        self._send_soon()

    def started(self, receipt: Receipt) -> None:
        """See `Desk`."""
        if self.attempts.begin(receipt):
            self._begun.append(receipt)
            if self._sending is None:
                self._send_soon()

    def _send_soon(self) -> None:
        """Send the ends of one turn of the event loop to the I/O thread together.

        While more claims wait to begin, the ends of several turns go together.
        """
        if not self._is_open:
            return
        can_wait = self._runs.has_more and len(self._ended) < _MANY
        if self._sending is None or not (can_wait or self._is_sending):
            if self._sending is not None:
                self._sending.cancel()
            loop, self._is_sending = self._loop, not can_wait
            self._sending = loop.call_later(_TOGETHER_SECONDS, self._send) if can_wait else loop.call_soon(self._send)

    def _send(self) -> None:
        ended, self._ended = self._ended, []
        begun, self._begun = self._begun, []
        if self._sending is not None:
            self._sending.cancel()
        self._sending = None
        if ended or begun:
            self._claimant.settle(ended, begun)

    async def note(self, note: Note) -> None:
        """See `Desk`."""
        await io_thread().hop(self._claimant.note(note))

    async def once(self, step: OnceStep) -> OnceState:
        """See `Desk`."""
        claimant = self._claimant
        left = partial(claimant.seconds_left, step.receipt.session)
        return await io_thread().hop(stepped(claimant.once, step, left))

    @property
    def transactions(self) -> TaskTransactions:
        """See `Desk`."""
        return self._claimant.transactions

    def seconds_left(self, session: int) -> float:
        """See `Desk`."""
        return self._claimant.seconds_left(session)

    def _hears(self) -> Hears:
        """Return callbacks that pass the news of the claimant to the event loop of the program."""
        return Hears(
            claimed=partial(self._tell, self._runs.start),
            cancelled=partial(self._tell, self._runs.cancel),
            lost=partial(self._tell, self._runs.lose),
            moved=partial(self._tell, self._runs.give_back),
            failed=partial(self._tell, self._end_block),
        )

    def _tell(self, hear: Callable[..., None], *news: object) -> None:
        with suppress(RuntimeError):  # the program has closed its loop
            self._loop.call_soon_threadsafe(hear, *news)


def _checked_places(concurrency: int | None, processes: int) -> int:
    """Return the number of tasks that run at a time; `InvalidInput` for a wrong option."""
    if type(processes) is not int or not 0 <= processes <= MOST_PROCESSES:
        hint = "It is the number of child processes for plain functions; 0 runs them in threads."
        raise InvalidInput("processes", processes, f"an int in 0 .. {MOST_PROCESSES}", hint)
    if concurrency is None:
        concurrency = processes or USUAL_CONCURRENCY
    if type(concurrency) is not int or not 1 <= concurrency <= MOST_CONCURRENCY:
        hint = "It is the number of tasks that run at a time in this process."
        raise InvalidInput("concurrency", concurrency, f"an int in 1 .. {MOST_CONCURRENCY}", hint)
    return concurrency
