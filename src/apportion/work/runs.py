"""Runs: the tasks that a worker runs now, on the event loop of the program, in threads or in children, and their ends.

Promises: at most `concurrency` tasks run at a time. Every claim gets one settlement, unless its session ends: then
the run is cancelled and not settled. No run begins after the deadline of its session.
If a run has completed its task in a transaction, the worker still settles the claim. The store refuses this settlement
if the transaction was committed, and accepts it if the transaction was rolled back.
A suspect runs in a child process. A plain function does too, if it has a time limit or if the worker has `processes`. A
suspect that no child can import runs alone in the worker: if the worker dies again, this task is the cause. Suspects
begin before all other tasks. Any other claim that has not begun within the time to live is given back.
Refuses: to stop a plain function in a thread. The function runs to its end, and its late outcome does not count.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from apportion.runtime.simulated import simulated
from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.task_values import Claim, Receipt, Settlement
from apportion.work.attempt import called, ended, error_of
from apportion.work.call import CODEC
from apportion.work.cancellable_runs import CancellableRuns
from apportion.work.children.children import Children, Job
from apportion.work.function import AnyTaskFunction
from apportion.work.lanes.lane_holds import LANE_MOVED
from apportion.work.running_task import Desk, RunningTask
from apportion.work.threads import Threads
from apportion.work.time_limit import TimeLimit

_CANCELLED_SECONDS = 1.0  # the time in which a cancelled run has to end
_UNKNOWN_MS, _MOST_UNKNOWN_MS = 5_000, 300_000


class _Waiting(NamedTuple):
    """A claim that waits for a free place; `since` is a time of the clock of the event loop."""

    claim: Claim
    incarnation: int
    since: float


class Runs:
    """The runs of one worker, on the event loop of the program. None begins before `open`. The `desk` gets each end."""

    def __init__(
        self,
        url: str,
        functions: Mapping[str, AnyTaskFunction],
        *,
        concurrency: int,
        processes: int,
        ttl_seconds: float,
        desk: Desk,
    ) -> None:
        self._functions, self._concurrency, self._processes = functions, concurrency, processes
        self._ttl_seconds, self._desk = ttl_seconds, desk
        self._loop = asyncio.get_running_loop()
        self._children = Children(url, most=processes or concurrency, kept=processes)
        self._threads = Threads()
        self._waiting: deque[_Waiting] = deque()
        self._places = CancellableRuns(desk.settle)
        self._is_open = self._is_alone = self._is_leaving = False
        self._overdue: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def open(self) -> None:
        """Let runs begin."""
        self._is_open = True
        self._fill()

    def start(self, claims: list[Claim], incarnation: int) -> None:
        """Run these tasks, each when a place is free. Suspects come first: they have waited for the end of a lease."""
        now = self._loop.time()
        self._waiting.extend(_Waiting(claim=claim, incarnation=incarnation, since=now) for claim in claims)
        if any(claim.is_suspect for claim in claims):  # a later suspect does not overtake an earlier one
            self._waiting = deque(sorted(self._waiting, key=lambda each: not each.claim.is_suspect))
        if self._is_leaving:
            self.give_back()
        self._fill()

    def warm(self) -> None:
        """Prepare to make children fast; a simulated process makes its children in another way."""
        if simulated() is None:
            self._warming = asyncio.ensure_future(self._children.warm())

    def give_back(self, partitions: frozenset[int] | None = None) -> None:
        """Give back the tasks that have not begun in the lanes of these partitions: the lanes move to other workers.

        None: the worker leaves. It gives back all tasks that have not begun, and all that arrive later.
        """
        if partitions is None:
            self._is_leaving = True
            self._give_back(list(self._waiting), "the worker left")
        else:
            moving = {KEYED_LANES + each for each in partitions}
            self._give_back([each for each in self._waiting if each.claim.lane in moving], LANE_MOVED)

    def cancel(self, receipts: list[Receipt]) -> None:
        """Cancel the runs of tasks that an operator or a program has cancelled; they are settled as "cancelled"."""
        self._places.stop(receipts, is_on_request=True)

    def lose(self, session: int) -> None:
        """Cancel all runs of a session that has ended, and drop its waiting claims."""
        self._waiting = deque(each for each in self._waiting if each.claim.session != session)
        self._places.stop(each for each in self._places if each.session == session)
        self._tell_idle()

    @property
    def has_more(self) -> bool:
        """Whether a claim waits for a free place."""
        return bool(self._waiting)

    def running(self) -> tuple[str, ...]:
        """Return the ids of the tasks that run now."""
        return tuple(receipt.task for receipt in self._places)

    async def until_idle(self) -> None:
        """Return once no task runs or waits."""
        await self._idle.wait()

    async def close(self) -> None:
        """Cancel the remaining runs, and end the children. A running thread goes on, and its outcome is dropped."""
        if self._overdue is not None:
            self._overdue.cancel()
        self._threads.close()
        await self._places.emptied(_CANCELLED_SECONDS)
        await self._children.close()

    def _fill(self) -> None:
        self._is_alone = self._is_alone and bool(self._places)
        while self._waiting and self._is_open and not self._is_alone and len(self._places) < self._concurrency:
            if self._desk.seconds_left(self._waiting[0].claim.session) <= 0:  # another worker may run the task already
                self._give_back([self._waiting[0]], "its session had no time left")
                continue
            must_be_alone = self._must_be_alone(self._waiting[0].claim)
            if must_be_alone and self._places:
                break
            self._begin(self._waiting.popleft())
            self._is_alone = must_be_alone and bool(self._places)
        since = [each.since for each in self._patient()] if self._overdue is None else []
        if since:
            self._overdue = self._loop.call_at(min(since) + self._ttl_seconds, self._give_back_overdue)
        self._tell_idle()

    def _begin(self, waiting: _Waiting) -> None:
        """Begin a run here, or in a child if the task could end this process or could not be stopped in it."""
        claim, incarnation, _ = waiting
        function = self._functions.get(claim.name)
        if function is None or claim.codec != CODEC:
            self._desk.settle(_unknown(claim, is_codec=function is not None))
            return
        self._desk.started(claim.receipt)
        place = self._children.place(function) if self._children.serve(function, claim) else None
        if place is None:
            length = function.task_options.time_limit
            task = RunningTask(claim, incarnation, self._desk, None if length is None else TimeLimit(length))
            run: asyncio.Task[Any] = self._loop.create_task(called(function, task, self._threads.run))
            run.add_done_callback(partial(self._ended, function, task))
        else:
            job = Job(function=function, place=place, claim=claim, incarnation=incarnation, desk=self._desk)
            run = self._loop.create_task(self._children.run(job))
            run.add_done_callback(partial(self._answered, waiting))
        self._places.take(claim.receipt, run)

    def _must_be_alone(self, claim: Claim) -> bool:
        if not claim.is_suspect:
            return False
        function = self._functions.get(claim.name)
        return function is not None and self._children.place(function) is None

    def _give_back_overdue(self) -> None:
        self._overdue = None
        now = self._loop.time()  # the next line adds, as the timer did: a subtraction may round in another way
        overdue = [each for each in self._patient() if each.since + self._ttl_seconds <= now]
        self._give_back(overdue, "not started within the time to live")
        self._fill()

    def _patient(self) -> list[_Waiting]:
        """Return the waiting claims that are no suspects. A suspect, given back, would wait again behind all others."""
        return [each for each in self._waiting if not each.claim.is_suspect]

    def _give_back(self, some: list[_Waiting], reason: str) -> None:
        for each in some:
            self._waiting.remove(each)
            self._desk.settle(Settlement(receipt=each.claim.receipt, fate="released", reason=reason))
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._waiting or self._places:
            self._idle.clear()
        else:
            self._idle.set()

    def _ended(self, function: AnyTaskFunction, task: RunningTask, run: "asyncio.Task[bytes | None]") -> None:
        """Settle a run that has ended here."""
        if self._places.free(task.claim.receipt, run):
            self._desk.settle(ended(run, function, task))
        self._fill()

    def _answered(self, waiting: _Waiting, run: "asyncio.Task[Settlement | None]") -> None:
        """Settle a run that has ended in a child. A task that no child can import waits again, and then runs here."""
        receipt = waiting.claim.receipt
        if not self._places.free(receipt, run):
            pass
        elif (error := error_of(run)) is not None:
            reason = f"the worker made no child: {type(error).__name__}: {error}"
            self._desk.settle(Settlement(receipt=receipt, fate="released", reason=reason, delay_ms=_UNKNOWN_MS))
        elif (settlement := run.result()) is not None:
            self._desk.settle(settlement)
        else:
            self._waiting.appendleft(waiting)
        self._fill()


def _unknown(claim: Claim, *, is_codec: bool) -> Settlement:
    """Return the settlement of a task that this worker cannot run. A worker of another release may know the task."""
    delay_ms = min(_UNKNOWN_MS * 2 ** min(claim.attempt - 1, 6), _MOST_UNKNOWN_MS)
    lacks = f"cannot read {claim.codec!r}" if is_codec else f"has no task function {claim.name!r}"
    return Settlement(receipt=claim.receipt, fate="released", reason=f"this worker {lacks}", delay_ms=delay_ms)
