"""Groups as users open them: processes share partitions, and each partition has one owner.

    async with apportion.open_group("sqlite:///work.db", "mailers", partitions=256) as group:
        async for change in group.changes():
            ...

    with apportion.sync.open_group("sqlite:///work.db", "mailers", partitions=256) as group:
        for change in group.changes():
            ...

All that must go on in time goes on on the I/O thread: a user's loop that is blocked loses nothing.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import cached_property, partial
from types import TracebackType

from apportion.errors import StoreClosed
from apportion.groups.handlers import Handlers
from apportion.groups.holdings import GroupChange, Holding
from apportion.groups.holds import block
from apportion.groups.intake import LiveMember
from apportion.groups.opening import Opening
from apportion.groups.participation import ANOTHER, FORKED, OPEN, OVER, Participation
from apportion.groups.statistics import GroupSummary, Statistics
from apportion.model.epoch import FencingToken
from apportion.runtime.blocks import AsyncBlock, OnlyAsync, OnlySync, SyncBlock
from apportion.runtime.handle import Handle
from apportion.runtime.handler_calls import Handler, PlainHandler, awaited, threaded
from apportion.runtime.resource import AsyncResource, SyncResource
from apportion.runtime.signals import leaving_on_sigterm
from apportion.runtime.simulated import Runner

MOST_THREADS = 32
LAST_SECONDS = 1.0  # for threads of a member that has left, and waited for them as long as it may


class Group(Handle):
    """What a member knows without waiting; see `AsyncGroup` and `SyncGroup` for the rest."""

    def __init__(self, participation: Participation, thread: Runner) -> None:
        self._participation, self._thread = participation, thread
        self._handlers: Handlers | None = None

    @property
    def member_id(self) -> str:
        """The id of this member."""
        return self._participation.driver.options.member_id

    @property
    def name(self) -> str:
        """The name of the group."""
        return self._participation.driver.options.group

    @property
    def statistics(self) -> Statistics:
        """What this member has counted since it began. No I/O."""
        return self._participation.driver.statistics

    @property
    def seconds_left(self) -> float:
        """How long until this member must stop, if its session is not renewed; below 0 once it had to. No I/O."""
        return self._participation.holdings.seconds_left

    def sight(self) -> GroupSummary:
        """Return what this member sees of its group. No I/O; O(partitions)."""
        return self._participation.driver.sight()

    @property
    def owned(self) -> Mapping[int, Holding]:
        """The partitions that are ours now, live: empty as soon as the session is past its deadline. No I/O."""
        return self._participation.holdings

    @property
    def is_ready(self) -> bool:
        """Whether our session lives and a target is known: what a readiness probe asks."""
        return self._participation.holdings.is_current and self._participation.driver.view.target is not None

    @property
    def is_alive(self) -> bool:
        """Whether this member still takes part, or tries to: what a liveness probe asks."""
        return self._participation.is_running and self._thread.runs

    @property
    def unguarded(self) -> frozenset[int]:
        """The partitions on which work has ended without that any guard had seen their token: see `guards`."""
        return frozenset(self._participation.holdings.unguarded)

    @property
    def failing(self) -> Mapping[int, str]:
        """The partitions whose handlers fail at this moment, and why: a copy. No I/O."""
        return {} if self._handlers is None else dict(self._handlers.failing)

    def token(self, partition: int | str) -> FencingToken:
        """Return the token of a partition; `NotOwner` when it is not ours at this moment. No I/O."""
        return self._participation.token(partition)

    def leave(self) -> None:
        """Begin to hand all over and leave; changes() ends when that is done. From any thread."""
        if self._thread.runs:
            self._participation.leave()

    def _require_open(self) -> None:
        """Raise `StoreClosed` after the end of the block, and in a child that was forked."""
        if not self._thread.runs:
            raise StoreClosed(f"group {self.name}", FORKED, ANOTHER)
        if self._participation.has_ended:
            raise StoreClosed(f"group {self.name}", OVER, OPEN)


class AsyncGroup(Group):
    """A group for callers on any event loop."""

    async def changes(self) -> AsyncGenerator[GroupChange, None]:
        """Yield what was gained and lost, until this member has left. One consumer.

        What was lost goes to its next owner once the next change was asked for and no `hold` on it is open: end the
        work on it before you ask. A change that was not delivered because its consumer was cancelled comes again.
        """
        self._require_open()
        holdings = self._participation.holdings
        holdings.consume()
        try:
            # Asked here first: what was lost is given away before another thread has woken.
            while (
                change := holdings.next_change() or await self._thread.hop(self._participation.next_change())
            ) is not None:
                if holdings.tell(change):
                    yield change
        finally:
            holdings.abandon()

    def hold(self, partition: int | str) -> AbstractAsyncContextManager[FencingToken]:
        """Hold a partition within the block: it is not handed over before the block has ended.

        `NotOwner` at once if it is not ours, and in the middle of the block if the session ends, or the drain times
        out: then what the block awaits is cancelled.
        """
        return AsyncBlock("group.hold(partition)", self._held(partition))

    @asynccontextmanager
    async def _held(self, partition: int | str) -> AsyncIterator[FencingToken]:
        async with block(self._participation.holdings, self._participation.require_own(partition)) as (token, _):
            yield token

    async def serve(self, *, on_gained: Handler | None = None, on_lost: Handler | None = None) -> None:
        """Call handlers with (partition, token) for all that is gained and lost, until this member has left.

        It is the one consumer of changes. See `handlers` for what happens when a handler fails; `failing` says it.
        Where the session ends, `on_lost` comes when others may be owners: let what `on_gained` begins `hold`.
        `InvalidInput` for a plain function, or one that cannot take two arguments, before any is called; and at once
        when what a handler returns cannot be awaited.
        """
        self._require_open()
        calls = awaited("on_gained", on_gained), awaited("on_lost", on_lost)
        drain_seconds = self._participation.driver.options.drain_seconds
        self._handlers = Handlers(self.changes(), self._participation.holdings, *calls, drain_seconds=drain_seconds)
        await self._handlers.run()

    async def wait_until_settled(self) -> None:
        """Wait until every partition of the group belongs to whom it should."""
        self._require_open()
        await self._thread.hop(self._participation.until_settled())

    async def members(self) -> dict[str, LiveMember]:
        """Return who is there, by id."""
        self._require_open()
        return await self._thread.hop(self._participation.members())


class SyncGroup(Group):
    """A group for callers without an event loop; not to be called from one."""

    def changes(self) -> Iterator[GroupChange]:
        """See `AsyncGroup`. Waits for each change without end; Ctrl-C interrupts it."""
        self._require_open()
        holdings = self._participation.holdings
        holdings.consume()
        try:
            while (
                change := holdings.next_change() or self._thread.wait(self._participation.next_change())
            ) is not None:
                if holdings.tell(change):
                    yield change
        finally:
            holdings.abandon()

    def hold(self, partition: int | str) -> AbstractContextManager[FencingToken]:
        """See `AsyncGroup`. A thread cannot be cancelled: ask `token` again in long work."""
        return SyncBlock("group.hold(partition)", self._participation.held(partition))

    def serve(self, *, on_gained: PlainHandler | None = None, on_lost: PlainHandler | None = None) -> None:
        """See `AsyncGroup`. Handlers are plain functions; each call has a thread of its own, at most 32 at once.

        A thread cannot be cancelled: what it works on is kept until it has ended, or the session is given up; one that
        outlives its member goes on alone. Ctrl-C interrupts this call; the end of the group's block waits for
        `on_lost`. `InvalidInput` for an async function.
        """
        self._require_open()
        calls = threaded("on_gained", on_gained), threaded("on_lost", on_lost)
        changes = AsyncGroup(self._participation, self._thread).changes()  # for the loop of the I/O thread
        self._handlers = Handlers(
            changes,
            self._participation.holdings,
            *calls,
            drain_seconds=self._participation.driver.options.drain_seconds,
            at_once=MOST_THREADS,
            last_seconds=LAST_SECONDS,
        )
        self._thread.wait(self._handlers.run())

    def wait_until_settled(self) -> None:
        """See `AsyncGroup`."""
        self._require_open()
        self._thread.wait(self._participation.until_settled())

    def members(self) -> dict[str, LiveMember]:
        """See `AsyncGroup`."""
        self._require_open()
        return self._thread.wait(self._participation.members())


class AsyncOpening(Opening, OnlyAsync):
    """`apportion.open_group(...)`: joins at the beginning of an `async with` block, and leaves at its end.

    A caller that is cancelled at either end hears of that at once; what has joined leaves without it.
    """

    _call = "apportion.open_group(url, name, partitions=…)"

    @cached_property
    def _block(self) -> AsyncResource[Participation, AsyncGroup]:
        begin = partial(Participation.begin, self.url, self.options)
        return AsyncResource(self._call, begin, Participation.end, AsyncGroup, around=_heeding_sigterm)

    async def __aenter__(self) -> AsyncGroup:
        """Connect and join. Errors as those of `stores.connect`; `DuplicateMember`, `InvalidInput`, `NotPromised`."""
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        await self._block.__aexit__(kind, error, place)


class SyncOpening(Opening, OnlySync):
    """`apportion.sync.open_group(...)`: joins at the beginning of a `with` block, and leaves at its end.

    Where Ctrl-C interrupts either end, what has joined leaves by itself.
    """

    _call = "apportion.sync.open_group(url, name, partitions=…)"

    @cached_property
    def _block(self) -> SyncResource[Participation, SyncGroup]:
        begin = partial(Participation.begin, self.url, self.options)
        return SyncResource(self._call, begin, Participation.end, SyncGroup, around=_heeding_sigterm)

    def __enter__(self) -> SyncGroup:
        """See `AsyncOpening`."""
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, place)


def _heeding_sigterm(participation: Participation) -> AbstractContextManager[None]:
    return leaving_on_sigterm(participation.leave)


open_group = AsyncOpening
open_group_sync = SyncOpening
