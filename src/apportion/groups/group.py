"""Group: the part of a group's handle that never waits, for callers with and without an event loop."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager

from apportion.errors import StoreClosed, shown
from apportion.groups.handlers import Handlers
from apportion.groups.holdings import GroupChange, Holding
from apportion.groups.participation import ANOTHER, FORKED, OPEN, OVER, Participation
from apportion.groups.statistics import GroupSummary, Statistics
from apportion.model.epoch import FencingToken
from apportion.runtime.handle import Handle
from apportion.runtime.handler_calls import Call
from apportion.runtime.signals import leaving_on_sigterm
from apportion.runtime.simulated import Runner

MOST_THREADS = 32
LAST_SECONDS = 1.0  # the wait for handler threads that still run when the member has left


class Group(Handle):
    """The state and calls that need no waiting; `AsyncGroup` and `SyncGroup` have the rest."""

    def __init__(self, participation: Participation, thread: Runner) -> None:
        self._participation, self._thread = participation, thread
        self._driver, self._options = participation.driver, participation.options
        self._holdings = participation.holdings
        self._handlers: Handlers | None = None

    @property
    def member_id(self) -> str:
        """The id of this member."""
        return self._options.member_id

    @property
    def name(self) -> str:
        """The name of the group."""
        return self._options.group

    @property
    def statistics(self) -> Statistics:
        """The counts of this member since it began. No I/O."""
        return self._driver.statistics

    @property
    def seconds_left(self) -> float:
        """Seconds until this member must stop, unless its session is renewed; below 0 after that moment. No I/O."""
        return self._holdings.seconds_left

    def sight(self) -> GroupSummary:
        """Return this member's view of its group. No I/O; O(partitions)."""
        return self._driver.sight()

    @property
    def owned(self) -> Mapping[int, Holding]:
        """The partitions that are ours now, a live view: empty once the session is past its deadline. No I/O."""
        return self._holdings

    @property
    def is_ready(self) -> bool:
        """Whether our session is alive and a target is known, for a readiness probe."""
        return self._holdings.is_current and self._driver.view.target is not None

    @property
    def is_alive(self) -> bool:
        """Whether this member takes part in the group, or tries to take part; for a liveness probe."""
        return self._participation.is_running and self._thread.runs

    @property
    def unguarded(self) -> frozenset[int]:
        """The partitions on which work has ended although no guard had seen their token: see `guards`."""
        return frozenset(self._holdings.unguarded)

    @property
    def failing(self) -> Mapping[int, str]:
        """The partitions with a handler that fails at this moment, and the reasons: a copy. No I/O."""
        return {} if self._handlers is None else dict(self._handlers.failing)

    def token(self, partition: int | str) -> FencingToken:
        """Return the token of a partition; `NotOwner` when the partition is not ours at this moment. No I/O."""
        return self._participation.token(partition)

    def leave(self) -> None:
        """Begin to hand over all partitions and leave; changes() ends when that is done. From any thread."""
        if self._thread.runs:
            self._participation.leave()

    def __repr__(self) -> str:
        owned = f"{len(self.owned)} partitions owned"
        return f"{type(self).__name__}({shown(self.name)}, member {shown(self.member_id)}, {owned})"

    def _repr_html_(self) -> str:
        from apportion.model.notebook import html_of  # noqa: PLC0415 - only notebooks pay for it

        owned = dict(self.owned)  # a copy: another thread may gain or lose partitions
        rows = ((str(partition), str(holding.token)) for partition, holding in owned.items())
        return html_of(repr(self), ("partition", "token"), rows, len(owned))

    def _require_open(self) -> None:
        if not self._thread.runs:
            raise StoreClosed(f"group {self.name}", FORKED, ANOTHER)
        if self._participation.has_ended:
            raise StoreClosed(f"group {self.name}", OVER, OPEN)

    async def _serve_here(self, on_gained: Call | None, on_lost: Call | None) -> None:
        """Call async handlers on the caller's event loop, until this member has left."""
        self._handlers = Handlers(
            self._told(),
            self._holdings,
            on_gained,
            on_lost,
            tell=self._driver.tell,
            drain_seconds=self._options.drain_seconds,
        )
        await self._handlers.run()

    def _serve_in_threads(self, on_gained: Call | None, on_lost: Call | None) -> None:
        """Call plain handlers, each in a thread of its own, until this member has left."""
        self._handlers = Handlers(
            self._told(),
            self._holdings,
            on_gained,
            on_lost,
            tell=self._driver.tell,
            drain_seconds=self._options.drain_seconds,
            at_once=MOST_THREADS,
            last_seconds=LAST_SECONDS,
        )
        self._thread.wait(self._handlers.run())

    async def _told(self) -> AsyncGenerator[GroupChange, None]:
        """Yield the partitions gained and lost, on any event loop; see `AsyncGroup.changes`."""
        holdings = self._holdings
        holdings.consume()
        try:
            # The caller's thread asks here, before it wakes the I/O thread. So lost partitions are given away sooner.
            while (
                change := holdings.next_change() or await self._thread.hop(self._participation.next_change())
            ) is not None:
                if holdings.tell(change):
                    yield change
        finally:
            holdings.abandon()


def leaving(participation: Participation) -> AbstractContextManager[None]:
    """Within the block, SIGTERM makes the member leave."""
    return leaving_on_sigterm(participation.leave)
