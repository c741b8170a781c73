"""Participation: runs a driver on the I/O thread for one process, from the first join to the last hand-over."""

import asyncio
import os
from contextlib import suppress

from apportion.errors import InvalidInput, NotOwner
from apportion.groups.driver import Driver
from apportion.groups.holdings import GroupChange, Holdings
from apportion.groups.opening import Options
from apportion.groups.reasons import joins_after, leaves_after, not_owned
from apportion.groups.session import SharedSessions
from apportion.groups.settled import is_at_rest
from apportion.groups.view.intake import LiveMember
from apportion.model.epoch import FencingToken
from apportion.runtime.endings import or_undo, to_its_end
from apportion.runtime.simulated import clock_here, simulated
from apportion.runtime.waits import AGAIN_SECONDS, Saying, said
from apportion.stores.api import CoordinationStore, Need
from apportion.stores.catalog import connect, parsed_url

FORKED = "it belongs to the parent of this forked process"
OVER = "the block that opened it has ended"
OPEN = "Use it within its block: async with apportion.open_group(…) as group:"
ANOTHER = "Open another group in this process: async with apportion.open_group(…) as group:"
_NEEDS: tuple[Need, ...] = ("fencing", "gapless_watch", "linearizable")


class Participation:
    """The part of a group's handle that must be awaited, for the loop of the I/O thread."""

    has_ended: bool
    holdings: Holdings
    options: Options

    def __init__(self, store: CoordinationStore, shared: SharedSessions, options: Options) -> None:
        self.has_ended, self._process = False, os.getpid()
        self._is_told = False
        self.driver: Driver = Driver(store, shared.sessions, clock_here(), options)
        self.holdings, self.options = self.driver.holdings, options
        self.holdings.observer = simulated()
        self._store, self._shared = store, shared
        self._loop = asyncio.get_running_loop()
        self._running = asyncio.ensure_future(self.driver.run())
        self._running.add_done_callback(self._over)
        self._saying: Saying | None = None

    @classmethod
    async def begin(cls, url: str, options: Options) -> "Participation":
        """Connect, join and return; errors are those of `stores.connect`, `DuplicateMember`, `InvalidInput`."""
        who = f"{options.group}: {options.member_id}"
        with said(lambda: f"{who} waits for {parsed_url(url)} to answer"):
            store = await connect(url, needs=_NEEDS)
            async with or_undo(store.close):
                shared = await SharedSessions.taken(url)
        participation = cls(store, shared, options)
        async with or_undo(participation._end_anyway):
            with said(lambda: f"{who} joins and waits for {joins_after(participation.driver)}"):
                await participation._until_joined()
        return participation

    def leave(self) -> None:
        """Begin to hand over all partitions and leave. From any thread, and from signal handlers."""
        self.driver.leave()
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(self._say_leaving)

    async def end(self) -> None:
        """Hand over all partitions, leave, close the store. Raises the member's error, if no caller has got it yet."""
        self.has_ended = True
        self.driver.leave()
        self._say_leaving()
        await asyncio.wait([self._running])
        self._say_no_more()
        try:
            await self._shared.let_go()
        finally:
            await self._store.close()
        if not self._is_told and not self._running.cancelled():
            self._tell()

    @property
    def _who(self) -> str:
        return f"{self.options.group}: {self.options.member_id}"

    def _tell(self) -> None:
        """Raise the error that ended the member, if any."""
        self._is_told = True
        self._running.result()

    async def _end_anyway(self) -> None:
        await to_its_end(self.end())

    @property
    def is_running(self) -> bool:
        """Whether the member takes part, or tries to."""
        return not self._running.done()

    async def next_change(self) -> GroupChange | None:
        """Return the next change; None after the member has left. Raises the error that ended the member."""
        while (change := self.holdings.next_change()) is None:
            if self._running.done():
                self._tell()
                return None
            await self.driver.turn()
        return change

    async def until_settled(self) -> None:
        """Wait until every partition has the owner that the target names, and this member can hold all of its own."""
        while not self._running.done():
            if is_at_rest(self.driver.view) and self._serves_its_own():
                return
            await self.driver.turn()
        self._tell()

    async def members(self) -> dict[str, LiveMember]:
        """Return the live members, as this process sees them."""
        return dict(sorted(self.driver.view.members.items()))

    def number(self, partition: int | str) -> int:
        """Return a partition's number, which may be given as a str; `InvalidInput` if the group does not have it."""
        count = self.options.record.partitions
        number = int(partition) if isinstance(partition, str) and partition.isdecimal() else partition
        if type(number) is not int or not 0 <= number < count:
            raise InvalidInput("partition", partition, f"one of 0 .. {count - 1}", "Take one of group.owned.")
        return number

    def require_own(self, partition: int | str) -> int:
        """Return the number of a partition; `NotOwner` after the end of the block, and in a child that was forked."""
        number = self.number(partition)
        if self._process != os.getpid():
            raise NotOwner(number, FORKED, ANOTHER)
        if self.has_ended:
            raise NotOwner(number, OVER, OPEN)
        return number

    def token(self, partition: int | str) -> FencingToken:
        """Return the token of a partition; `NotOwner` when it is not ours at this moment."""
        number = self.require_own(partition)
        held = self.holdings.get(number)
        if held is None:
            raise NotOwner(number, not_owned(self.driver, number))
        return held.token

    def _serves_its_own(self) -> bool:
        """Whether we serve all partitions that records call ours. A record may come before the answer to its commit."""
        me, serving = self.driver.member.me, set(self.driver.member.serving)
        owned = ((partition, each.ownership) for partition, each in self.driver.view.own.items())
        return all(each in serving for each, own in owned if (own.owner, own.session) == (me.id, me.session))

    def _over(self, _: "asyncio.Future[None]") -> None:
        """Wake all waiting callers. Log the end again and again until the program leaves the block."""
        self.driver.note_turn()
        self._say_no_more()
        words = f"{self._who} has left, and its block has not ended"
        if not self.has_ended:
            self._saying = Saying(lambda: words, first_seconds=AGAIN_SECONDS)

    def _say_leaving(self) -> None:
        """Log the reason for the wait, from the first request to leave until the member has left."""
        if self._saying is None and not self._running.done():
            self._saying = Saying(lambda: f"{self._who} leaves and waits for {leaves_after(self.driver)}")

    def _say_no_more(self) -> None:
        saying, self._saying = self._saying, None
        if saying is not None:
            saying.stop()

    async def _until_joined(self) -> None:
        while not self.driver.member.me.session:
            if self._running.done():
                self._tell()
            await self.driver.turn()
