"""Claim loop: yields the tasks of a queue to an `async for` loop of the program, instead of calling task functions.

    async for task in queue.claims():
        async with task:
            ...

Promises: each claimed task is yielded once, and at most `concurrency` tasks are under way. The end of a block completes
its task. An exception fails the task, and the budget of its task function applies. `SystemExit` in a block fails the
task too, and then goes on to the program. A block that is cancelled, closed or ended by Ctrl-C gives its task back.
SIGTERM ends the loop: no other block begins, and a block under way may run to its end.
Refuses: to yield the next task, with a `concurrency` of 1, if the program has not entered the block of the previous
task.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import Token
from dataclasses import dataclass, field
from typing import Any

from apportion.errors import ClaimLost, InvalidInput
from apportion.runtime.blocks import Raised
from apportion.runtime.interrupt import is_interrupted
from apportion.work.call import Call, Signature, priority_of
from apportion.work.cron.scheduler import ScheduledHere
from apportion.work.current import AsyncRunningTask, current_task
from apportion.work.function import AnyTaskFunction, TaskFunction, TaskOptions
from apportion.work.json_values import of_json
from apportion.work.lanes.lanes_of_worker import LanesOfWorker
from apportion.work.observers.statistics import TaskStatistics
from apportion.work.retry_budget import Budget, GivenBack
from apportion.work.running_task import CURRENT, RunningTask
from apportion.work.worker import QueueWorker
from apportion.work.wrappers import Wrappers

MakeWorker = Callable[[Mapping[str, AnyTaskFunction], Callable[[], None]], "LoopWorker"]


class LoopWorker(QueueWorker):
    """The worker of a claim loop. SIGTERM ends the loop, and cancels no block."""

    def __init__(
        self,
        url: str,
        queue: str,
        functions: Mapping[str, AnyTaskFunction],
        *,
        ttl_seconds: float,
        concurrency: int,
        statistics: TaskStatistics,
        schedules: ScheduledHere,
        lanes: LanesOfWorker,
        asked: Callable[[], None],
    ) -> None:
        super().__init__(
            url,
            queue,
            functions,
            ttl_seconds=ttl_seconds,
            concurrency=concurrency,
            statistics=statistics,
            schedules=schedules,
            lanes=lanes,
        )
        self._end_loop = asked

    def _end_block(self) -> None:
        self._runs.give_back()
        self._end_loop()


class _Handed:
    """The state of one task in the loop of the program. The worker waits for its `end`."""

    def __init__(self, is_running: Callable[[], bool]) -> None:
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_entered: bool = False
        self.is_over: bool = False
        self._is_running = is_running
        self._block: asyncio.Task[Any] | None = None
        self._left = asyncio.Event()
        self._token: Token[RunningTask | None] | None = None

    def enter(self, task: "ClaimedTask") -> None:
        """Begin the block."""
        if self.is_over:
            raise ClaimLost(task.id, task.attempt)
        self.is_entered, self._block, self._token = True, asyncio.current_task(), CURRENT.set(task)

    async def leave(self, error: BaseException | None) -> bool:
        """End the block; return whether its error is suppressed. `SystemExit` fails the task, and is not suppressed."""
        block, self._block = self._block, None
        self._left.set()
        if self._token is not None:
            CURRENT.reset(self._token)
        is_ours = isinstance(error, Exception)
        if self.is_over or self.end.done():  # `end` is set if the run was cancelled a moment ago
            return is_ours or (
                isinstance(error, asyncio.CancelledError) and block is not None and block.uncancel() == 0
            )
        if error is None:
            self.end.set_result(None)
            return False
        if _is_from_outside(error, block):
            self.end.set_exception(GivenBack())
            return False
        self.end.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        while not is_ours and self._is_running():
            await asyncio.sleep(0)
        return is_ours or isinstance(error, asyncio.CancelledError)

    def give_back(self) -> None:
        """Give back a task whose block was not entered; no failure counts."""
        if not self.is_entered and not self.end.done():
            self.is_over = True
            self.end.set_exception(GivenBack())

    async def interrupted(self) -> None:
        """Cancel the block of a task that the worker has lost or must cancel, and wait for the end of the block."""
        self.is_over = True
        if self._block is not None:
            self._block.cancel()
            await self._left.wait()


@dataclass(frozen=True, slots=True)
class ClaimedTask(AsyncRunningTask):
    """A task in a loop of the program: a running task with its `call`. Its `async with` block is the run."""

    call: Call = field(kw_only=True)
    handed: _Handed = field(kw_only=True, repr=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, as JSON types."""
        arguments: dict[str, Any] = of_json(self.claim.arguments)
        return arguments

    async def __aenter__(self) -> "ClaimedTask":
        self.handed.enter(self)
        return self

    async def __aexit__(self, *raised: *Raised) -> bool:
        return await self.handed.leave(raised[1])


def _is_from_outside(error: BaseException, block: "asyncio.Task[Any] | None") -> bool:
    """Whether an error is a request to leave the block, and not a failure of the code in the block."""
    if isinstance(error, asyncio.CancelledError):
        return block is None or block.cancelling() > 0
    return isinstance(error, GeneratorExit) or (isinstance(error, KeyboardInterrupt) and is_interrupted())


class ClaimLoop(Mapping[str, AnyTaskFunction]):
    """The task functions of a claim loop. Each passes its task to the loop, and waits for the end of its block."""

    def __init__(self, known: Mapping[str, AnyTaskFunction], wrappers: Wrappers, make: MakeWorker) -> None:
        self._known, self._wrappers = known, wrappers
        self._ready: asyncio.Queue[ClaimedTask | None] = asyncio.Queue()
        self._worker = make(self, self._end)

    async def tasks(self) -> AsyncIterator[ClaimedTask]:
        """Yield the claimed tasks until the program leaves the loop, or until SIGTERM."""
        taken: ClaimedTask | None = None
        async with self._worker:
            try:
                while (taken := await self._ready.get()) is not None:
                    if taken.handed.is_over:
                        continue
                    yield taken
                    if self._worker.concurrency == 1 and not taken.handed.is_entered:
                        raise InvalidInput(
                            "task", taken.id, "a block for this task before the next task", "Write async with task: ..."
                        )
            finally:
                self._give_back(taken)

    def _end(self) -> None:
        """End the loop, and give back the tasks that were not yielded."""
        self._give_back(None)
        self._ready.put_nowait(None)

    def _give_back(self, taken: ClaimedTask | None) -> None:
        waiting = [taken]
        while not self._ready.empty():
            waiting.append(self._ready.get_nowait())
        for each in waiting:
            if each is not None:
                each.handed.give_back()

    async def _hand_over(self, _: bytes) -> None:
        task = current_task()
        claim = task.claim
        handed = _Handed(lambda: claim.task in self._worker.running)
        call = Call(name=claim.name, arguments=claim.arguments, priority=priority_of(claim.lane), key=claim.key)
        self._ready.put_nowait(ClaimedTask(claim, task.incarnation, task.desk, task.limit, call=call, handed=handed))
        try:
            await handed.end
        except asyncio.CancelledError:
            await handed.interrupted()
            raise

    def __getitem__(self, name: str) -> AnyTaskFunction:
        known = self._known.get(name)
        options = TaskOptions(name=name, budget=Budget()) if known is None else known.task_options
        made: AnyTaskFunction = TaskFunction(self._hand_over, options, self._wrappers)
        made.signature = _Whole(self._hand_over)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class _Whole(Signature):
    """The signature of a function that takes the arguments of any call as bytes."""

    def decoded(self, data: bytes) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the bytes as the one argument."""
        return (data,), {}
