# Generated from groups/facade.py by `python -m generate`; change that file, and generate anew.
"""Groups as users open them: processes share partitions, and each partition has one owner.

    with apportion.sync.open_group("sqlite:///work.db", "mailers", partitions=256) as group:
        for change in group.changes():
            ...

All that must go on in time goes on on the I/O thread: a user's loop that is blocked loses nothing.
The async twin of this file is `groups/facade.py`.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager
from functools import cached_property, partial
from types import TracebackType

from apportion.groups.group import Group, leaving
from apportion.groups.holdings import GroupChange
from apportion.groups.holds import held
from apportion.groups.opening import Opening
from apportion.groups.participation import Participation
from apportion.groups.view.intake import LiveMember
from apportion.model.epoch import FencingToken
from apportion.runtime.blocks import OnlySync, SyncBlock
from apportion.runtime.handler_calls import PlainHandler, threaded
from apportion.runtime.resource import SyncResource


class SyncGroup(Group):
    """A group for callers without an event loop; it is not to be called from one."""

    def changes(self) -> Generator[GroupChange, None, None]:
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
                change := holdings.next_change() or self._thread.wait(self._participation.next_change())
            ) is not None:
                if holdings.tell(change):
                    yield change
        finally:
            holdings.abandon()

    def hold(self, partition: int | str) -> AbstractContextManager[FencingToken]:
        """Hold a partition within the block: it is not handed over before the block has ended.

        `NotOwner` at once if it is not ours. If the session ends, or the drain times out, a task is cancelled in the
        middle of the block, and `NotOwner` comes out of it. A thread cannot be cancelled: in long work it asks `token`
        again.
        """
        return SyncBlock("group.hold(partition)", held(self._participation, partition))

    def serve(self, *, on_gained: PlainHandler | None = None, on_lost: PlainHandler | None = None) -> None:
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
        self._serve_in_threads(threaded("on_gained", on_gained), threaded("on_lost", on_lost))

    def wait_until_settled(self) -> None:
        """Wait until every partition of the group belongs to whom it should."""
        self._require_open()
        self._thread.wait(self._participation.until_settled())

    def members(self) -> dict[str, LiveMember]:
        """Return who is there, by id."""
        self._require_open()
        return self._thread.wait(self._participation.members())


class SyncOpening(Opening, OnlySync):
    """`apportion.sync.open_group(...)`: joins at the beginning of a `with` block, and leaves at its end.

    A caller that is interrupted at either end hears of that at once; what has joined leaves without it.
    """

    _call = "apportion.sync.open_group(url, name, partitions=…)"

    @cached_property
    def _block(self) -> SyncResource[Participation, SyncGroup]:
        begin = partial(Participation.begin, self.url, self.options)
        return SyncResource(self._call, begin, Participation.end, SyncGroup, around=leaving)

    def __enter__(self) -> SyncGroup:
        """Connect and join. Errors as those of `stores.connect`; `DuplicateMember`, `InvalidInput`, `NotPromised`."""
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, place)


open_group = SyncOpening
