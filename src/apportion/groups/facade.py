"""Groups as users open them: processes share partitions, and each partition has one owner.

    async with apportion.open_group("sqlite:///work.db", "mailers", partitions=256) as group:
        async for change in group.changes():
            ...

All that must go on in time goes on on the I/O thread: a user's loop that is blocked loses nothing.
The sync twin of this file is `sync/groups.py`.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from types import TracebackType

from apportion.groups.group import Group, leaving
from apportion.groups.holdings import GroupChange
from apportion.groups.holds import holding
from apportion.groups.opening import Opening
from apportion.groups.participation import Participation
from apportion.groups.view.intake import LiveMember
from apportion.model.epoch import FencingToken
from apportion.runtime.blocks import AsyncBlock, OnlyAsync
from apportion.runtime.handler_calls import Handler, awaited
from apportion.runtime.resource import AsyncResource


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

        `NotOwner` at once if it is not ours. If the session ends, or the drain times out, a task is cancelled in the
        middle of the block, and `NotOwner` comes out of it. A thread cannot be cancelled: in long work it asks `token`
        again.
        """
        return AsyncBlock("group.hold(partition)", holding(self._participation, partition))

    async def serve(self, *, on_gained: Handler | None = None, on_lost: Handler | None = None) -> None:
        """Call handlers with (partition, token) for all that is gained and lost, until this member has left.

        It is the one consumer of changes. See `handlers` for what happens when a handler fails; `failing` says it.
        Where the session ends, `on_lost` comes when others may be owners: let what `on_gained` begins `hold`.
        In `apportion.sync` handlers are plain functions, and each call has a thread of its own, at most 32 at once. A
        thread cannot be cancelled: its partition is kept until it has ended, or the session is given up. A thread that
        outlives its member goes on alone.

        `InvalidInput` before any call for a function of the other kind, or for one that cannot take two arguments; at
        once where only a call shows it.
        """
        self._require_open()
        await self._serve_here(awaited("on_gained", on_gained), awaited("on_lost", on_lost))

    async def wait_until_settled(self) -> None:
        """Wait until every partition of the group belongs to whom it should."""
        self._require_open()
        await self._thread.hop(self._participation.until_settled())

    async def members(self) -> dict[str, LiveMember]:
        """Return who is there, by id."""
        self._require_open()
        return await self._thread.hop(self._participation.members())


class AsyncOpening(Opening, OnlyAsync):
    """`apportion.open_group(...)`: joins at the beginning of an `async with` block, and leaves at its end.

    A caller that is cancelled at either end hears of that at once; what has joined leaves without it.
    """

    _call = "apportion.open_group(url, name, partitions=…)"

    @cached_property
    def _block(self) -> AsyncResource[Participation, AsyncGroup]:
        begin = partial(Participation.begin, self.url, self.options)
        return AsyncResource(self._call, begin, Participation.end, AsyncGroup, around=leaving)

    async def __aenter__(self) -> AsyncGroup:
        """Connect and join. Errors as those of `stores.connect`; `DuplicateMember`, `InvalidInput`, `NotPromised`."""
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        await self._block.__aexit__(kind, error, place)


open_group = AsyncOpening
