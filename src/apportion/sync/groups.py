# Generated from groups/facade.py by `python -m generate`; change that file, and generate anew.
"""Groups as users open them: processes share partitions, and each partition has one owner.

All work with a deadline runs on the I/O thread. A user's event loop that is blocked therefore loses nothing.
The async twin of this file is `groups/facade.py`.
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

        A lost partition goes to its next owner once the consumer asks for the next change and no `hold` on the
        partition is open. End the work on the partition before you ask. If the consumer is cancelled before a change is
        delivered, the change comes again.
        """
        self._require_open()
        holdings = self._participation.holdings
        holdings.consume()
        try:
            # This thread asks first. So lost partitions are given away before another thread has woken.
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
        in a thread must ask `token` again.
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
        only a call shows the mistake, the error comes at once after that call.
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

    - `url`: the URL of the store, as in `open_store`.
    - `name`: the name of the group, at most 200 bytes, without a slash.
    - `partitions`: the number of partitions, 1 to 262 144, numbered from 0. All members pass the same number. Choose
      several times as many as the members that you will ever have.
    - `member_id`: the id of this member. Default: `APPORTION_MEMBER_ID`, else the host name and a random part.
    - `static`: whether the member keeps its partitions over a restart, under an id that stays the same. Default: False.
    - `lease_ttl`: the time for which a killed process keeps its partitions. Default: 10 seconds.
    - `drain_timeout`: the time for which work on a lost partition may go on; then it is cancelled. Default: 20 seconds.
    - `rejoin_grace`: the time for which the group waits for a static member that is away. Default: 60 seconds.
    - `progress_deadline`: the time for which one `hold` may stay open, or one handler of `serve` may run. After that
      the process counts as stuck, and gives up all its partitions. Default: None, no deadline.
    - `balancer`: the name of the balancer that chooses the owners, one of `balance.names`. All members pass the same
      name. Default: "optimal", even and with the fewest moves.
    - `mode`: "cooperative", in which only moving partitions pause, or "eager", in which all pause. All members pass the
      same mode. Default: "cooperative".
    - `weight`: the share of this member relative to the others; 0 is none. Default: `APPORTION_WEIGHT`, else 1.
    - `zone`: the fault domain, outermost first, such as `("eu", "rack1")`. Default: `APPORTION_ZONE`, else none.
    - `labels`: texts by name, at most 1 000, shown to operators. Default: `APPORTION_LABELS`, else none.
    - `replace`: whether to ask a live member of the same id to leave. Default: False; such a member is then an error.
    - `throttle`: the largest number of planned moves under way at once. Default: None, no bound.
    - `settle`: the time without a newcomer after which partitions move. They move at the latest 30 seconds after the
      first newcomer. Default: 2 seconds.
    - `quarantine_after`: the number of owners that may die in a row, 1 to 9. The partition then waits for
      `apportion group release`. All members pass the same number. Default: None, so that the partition waits longer
      before each next owner, up to a minute.
    - `observer`: a function that is called with each event of this member, on the I/O thread; it must not block. If it
      raises, the member logs one line and goes on. Default: None.

    Every time is a `timedelta` above 0 and of at most a week; `settle` may be 0.

        with apportion.sync.open_group("sqlite:///work.db", "mailers", partitions=256) as group:
            for change in group.changes():
                print(change.gained, change.lost)  # begin and end the work on these partitions

    The call raises `InvalidInput` or `UnknownOption` for a wrong argument, before any effect. At its beginning the
    block raises the errors of `open_store`, and these. `DuplicateMember`: another process has the id. `InvalidInput`:
    the group was made with other settings, or the store does not grant the lease. `NotPromised`: the store lacks a
    guarantee that groups need.

    A caller that is interrupted while the block begins or ends gets the error at once. A member that has joined then
    leaves by itself.
    """

    _call = "apportion.sync.open_group(url, name, partitions=…)"

    @cached_property
    def _block(self) -> SyncResource[Participation, SyncGroup]:
        begin = partial(Participation.begin, self.url, self.options)
        return SyncResource(self._call, begin, Participation.end, SyncGroup, around=leaving)

    def __enter__(self) -> SyncGroup:
        """Connect and join. Errors: those of `stores.connect`; `DuplicateMember`, `InvalidInput`, `NotPromised`."""
        return self._block.__enter__()

    def __exit__(self, *raised: *Raised) -> None:
        self._block.__exit__(*raised)


open_group = SyncOpening
