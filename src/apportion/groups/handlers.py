"""Handlers: the user's functions, called for each partition gained or lost; they may fail.

Promises: the handlers of one partition never run at once, and `on_lost` comes after `on_gained` of the same token. A
partition goes to its next owner when `on_lost` has returned; it is not given away before that. A handler that raises
is called again, after a longer pause each time. Meanwhile `failing` lists the partition and the error. `on_gained` is
given up when the partition is lost, `on_lost` when the drain's time is over. If the session ends first, `on_lost` is
called once, for at most the time of a drain. Others may be owners by then, and the next `on_gained` here waits for
that call. Between two handlers of a partition, no deadline of progress applies.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext, suppress

from apportion.errors import NotOwner
from apportion.groups.holdings import GroupChange, Holdings
from apportion.groups.holds import block
from apportion.groups.open_holds import Hold
from apportion.model.epoch import FencingToken
from apportion.runtime.events import HandlerFailed, Observer
from apportion.runtime.handler_calls import Call, NoHandler

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0


class Handlers:
    """The handlers of one group, and one task per partition that is ours.

    `tell` takes each failure of a handler as an event. At most `at_once` handlers run at a time; None means no limit.
    After this member has left, `run` waits up to `last_seconds` for handlers that still run; None means without limit.
    `drain_seconds` is the time that `on_lost` may take once the session is over.
    """

    _broken: "asyncio.Future[None]"  # gets the error of a task that ends the run, such as `NoHandler`

    def __init__(
        self,
        changes: AsyncIterator[GroupChange],
        holdings: Holdings,
        on_gained: Call | None,
        on_lost: Call | None,
        *,
        tell: Observer,
        drain_seconds: float,
        at_once: int | None = None,
        last_seconds: float | None = None,
    ) -> None:
        self._changes, self._holdings = changes, holdings
        self._on_gained, self._on_lost, self._tell_event = on_gained, on_lost, tell
        self._places: AbstractAsyncContextManager[None] = (
            nullcontext() if at_once is None else asyncio.Semaphore(at_once)
        )
        self._drain_seconds, self._last_seconds = drain_seconds, last_seconds
        self._losing: dict[int, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.failing: dict[int, str] = {}

    async def run(self) -> None:
        """Call the handlers for all changes, until this member has left.

        Raises `NoHandler` as soon as a call shows that an object cannot be called as a handler. However the run ends,
        it calls `on_lost` for each partition that is held, and waits for the calls. A second cancellation ends this
        wait, and cancels the task of each partition.
        """
        self._broken = asyncio.get_running_loop().create_future()
        telling = asyncio.ensure_future(self._tell())
        try:
            await asyncio.wait([telling, self._broken], return_when=asyncio.FIRST_COMPLETED)
            (self._broken if self._broken.done() else telling).result()
        finally:
            telling.cancel()
            await self._last(telling)

    async def _tell(self) -> None:
        async for change in self._changes:
            for partition in change.lost:
                if partition in self._losing:
                    self._losing[partition].set()
            for partition in change.gained:
                self._begin(partition)

    async def _last(self, telling: "asyncio.Task[None]") -> None:
        try:
            await asyncio.wait([telling])
            for losing in self._losing.values():
                losing.set()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._last_seconds)
        except asyncio.CancelledError:
            for task in self._tasks:
                task.cancel()
            raise

    def _begin(self, partition: int) -> None:
        self._losing[partition] = asyncio.Event()
        task = asyncio.create_task(self._live(partition, self._losing[partition]))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _live(self, partition: int, losing: asyncio.Event) -> None:
        """Hold one partition from the first handler to the last."""
        try:
            async with block(self._holdings, partition) as (token, hold):
                hold.rest()
                try:
                    await self._until_done(self._on_gained, token, hold, give_up=losing)
                    await losing.wait()
                except asyncio.CancelledError:
                    await self._end(token, hold)
                    raise
                if self._holdings.is_current:
                    await self._until_done(self._on_lost, token, hold, give_up=None)
                else:
                    await self._end(token, hold)
        except NotOwner:
            return  # the partition was lost before its first handler, and an event has told the loss
        finally:
            self.failing.pop(partition, None)

    async def _end(self, token: FencingToken, hold: Hold) -> None:
        """Call `on_lost` for a partition that is already lost; a further cancellation does not end the call."""
        if self._on_lost is None:
            return
        loop = asyncio.get_running_loop()
        call, ends = loop.create_task(self._called(self._on_lost, token, hold, None)), loop.time() + self._drain_seconds
        while not call.done() and loop.time() < ends:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([call], timeout=ends - loop.time())
        if not call.done():
            call.cancel()
            self._tell_event(HandlerFailed(partition=hold.partition, error=None, seconds=None))
        elif (error := call.result()) is not None:
            self._tell_event(HandlerFailed(partition=hold.partition, error=error, seconds=None))

    async def _until_done(
        self, call: Call | None, token: FencingToken, hold: Hold, *, give_up: asyncio.Event | None
    ) -> None:
        pause = FIRST_PAUSE_SECONDS
        while call is not None and (give_up is None or not give_up.is_set()):
            error = await self._called(call, token, hold, give_up)
            if error is None:
                self.failing.pop(hold.partition, None)
                return
            if isinstance(error, NoHandler):
                raise error
            self.failing[hold.partition] = f"{type(error).__name__}: {error}"
            self._tell_event(HandlerFailed(partition=hold.partition, error=error, seconds=pause))
            await _pause(pause, unless=give_up)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _called(
        self, call: Call, token: FencingToken, hold: Hold, give_up: asyncio.Event | None
    ) -> BaseException | None:
        """Call a handler once a place is free, unless `give_up` is set by then; return the error that it raised."""
        async with self._places:
            if give_up is not None and give_up.is_set():
                return None
            with hold.at_work():
                [outcome] = await asyncio.gather(call(hold.partition, token), return_exceptions=True)
        return outcome if isinstance(outcome, BaseException) else None


async def _pause(seconds: float, *, unless: asyncio.Event | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await (asyncio.Event() if unless is None else unless).wait()
