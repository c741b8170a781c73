# Generated from groups/facade.py by `python -m generate`; change that file, and generate anew.
"""Groups as users open them: processes share partitions, and each partition has one owner.

All work with a deadline runs on the I/O thread. So the member keeps its partitions while the user's event loop is
blocked. The async twin of this file is `groups/facade.py`.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager
from functools import cached_property, partial

from apportion.groups.group import Group, leaving
from apportion.groups.holdings import GroupChange
from apportion.groups.holds import held
from apportion.groups.opening import Opening
from apportion.groups.participation import Participation
from apportion.groups.view.intake import LiveMember
from apportion.model.epoch import FencingToken
from apportion.runtime.blocks import OnlySync, Raised, SyncBlock
from apportion.runtime.handler_calls import PlainHandler, threaded
from apportion.runtime.resource import SyncResource


class SyncGroup(Group):
    """A group for callers without an event loop; it is not to be called from one."""

    def changes(self) -> Generator[GroupChange, None, None]:
        """Yield the partitions gained and lost, until this member has left. One consumer at a time.

        A lost partition goes to its next owner when the consumer requests the next change and no `hold` on the
        partition is open. End the work on the partition before that request. If the consumer is cancelled before a
        change is delivered, the change comes again.
        """
        self._require_open()
        holdings = self._participation.holdings
        holdings.consume()
        try:
            # The caller's thread looks here first, before it wakes the I/O thread. So lost partitions leave sooner.
            while (
                change := holdings.next_change() or self._thread.wait(self._participation.next_change())
            ) is not None:
                if holdings.tell(change):
                    yield change
        finally:
            holdings.abandon()

    def hold(self, partition: int | str) -> AbstractContextManager[FencingToken]:
        """Hold a partition within the block: it is not handed over before the block has ended.

        Raises `NotOwner` at once if the partition is not ours. If the session ends or the drain times out, a task is
        cancelled in the middle of the block, and the block raises `NotOwner`. A thread cannot be cancelled: long work
        in a thread must call `token` again.
        """
        return SyncBlock("group.hold(partition)", held(self._participation, partition))

    def serve(self, *, on_gained: PlainHandler | None = None, on_lost: PlainHandler | None = None) -> None:
        """Call handlers with (partition, token) for each partition gained or lost, until this member has left.

        `serve` is the one consumer of changes. See `handlers` for a handler that fails; `failing` lists the failures.
        When the session ends, `on_lost` is called at a time when others may be owners. Work that `on_gained` begins
        should therefore use `hold`.
        In `apportion.sync` handlers are plain functions, and each call has its own thread, at most 32 at once. A thread
        cannot be cancelled: its partition is kept until the thread has ended or the session is given up. A thread that
        outlives its member continues alone.

        Raises `InvalidInput` before any call if a handler is not a plain function, or cannot take two arguments. If
        only a call shows the mistake, the error is raised right after that call.
        """
        self._require_open()
        self._serve_in_threads(threaded("on_gained", on_gained), threaded("on_lost", on_lost))

    def wait_until_settled(self) -> None:
        """Wait until every partition of the group belongs to its intended owner."""
        self._require_open()
        self._thread.wait(self._participation.until_settled())

    def members(self) -> dict[str, LiveMember]:
        """Return the live members, by id."""
        self._require_open()
        return self._thread.wait(self._participation.members())


class SyncOpening(Opening, OnlySync):
    """`apportion.sync.open_group(...)`: joins at the beginning of a `with` block, and leaves at its end.

        with apportion.sync.open_group("sqlite:///work.db", "mailers", partitions=256) as group:
            for change in group.changes():
                print(change.gained, change.lost)  # begin and end the work on these partitions

    The call raises `InvalidInput` or `UnknownOption` for a wrong argument, before any effect. When it begins, the
    block raises the errors of `open_store`, and three more. `DuplicateMember`: another process has the id.
    `InvalidInput`: the group was made with other settings, or the store does not grant the lease. `NotPromised`: the
    store lacks a guarantee that groups need.

    A caller that is interrupted while the block begins or ends gets the error at once. A member that has joined then
    leaves by itself. The docstring of `Opening` explains the parameters, and `help` shows it here too.
    """

    _call = "apportion.sync.open_group(url, name, partitions=…)"

    @cached_property
    def _block(self) -> SyncResource[Participation, SyncGroup]:
        begin = partial(Participation.begin, self.url, self.options)
        return SyncResource(self._call, begin, Participation.end, SyncGroup, around=leaving)

    def __enter__(self) -> SyncGroup:
        """Connect and join. Errors: as of `stores.connect`, and `DuplicateMember`, `InvalidInput`, `NotPromised`."""
        return self._block.__enter__()

    def __exit__(self, *raised: *Raised) -> None:
        self._block.__exit__(*raised)


open_group = SyncOpening
