"""Driver: carries one member of one group through its lives, until it is asked to leave.

Promises: `member`, `controller` and `handover` make all decisions; a `Life` carries them out. No error is dropped:
each one ends the session and is told as an event. Then the next life begins. Only misuse ends the member.
Refuses: threads. The driver runs on the I/O thread's loop, or on the loop of the simulated world.
"""

import asyncio
from collections.abc import Callable, Coroutine

from apportion.errors import BadSnapshot, DuplicateMember, InvalidInput, NotPromised, StoreClosed, StoreDenied
from apportion.groups.agreement import Agreement
from apportion.groups.controller.controller import Controller
from apportion.groups.holdings import Holdings
from apportion.groups.life.life import Life
from apportion.groups.life.parts import MemberParts
from apportion.groups.member import MemberMachine
from apportion.groups.opening import Options
from apportion.groups.session import Sessions
from apportion.groups.statistics import GroupSummary, Statistics, sight
from apportion.groups.view.view import View
from apportion.runtime.clock import Clock
from apportion.runtime.events import Departed, Observer, SessionBegan, SessionEnded, Unguarded
from apportion.stores.api import CoordinationStore

_MISUSE = (DuplicateMember, InvalidInput, NotPromised, StoreClosed)
_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 2.0


class Driver:
    """One member of one group. `run` starts life after life until the member is asked to leave."""

    options: Options
    view: View
    member: MemberMachine
    controller: Controller
    holdings: Holdings
    statistics: Statistics
    turn: Callable[[], Coroutine[object, object, None]]
    note_turn: Callable[[], None]
    tell: Observer

    def __init__(self, store: CoordinationStore, sessions: Sessions, clock: Clock, options: Options) -> None:
        self.options, self._sessions, self._clock = options, sessions, clock
        self.parts: MemberParts = MemberParts(store, clock, options)
        parts = self.parts
        self._agreement = Agreement(store, options.group, options.record, parts.events.tell)
        self.view, self.member, self.controller = parts.view, parts.member, parts.controller
        self.holdings, self.statistics = parts.holdings, parts.statistics
        self._inbox, self._feed, self._departure = parts.inbox, parts.feed, parts.departure
        self._events = parts.events
        self.turn, self.note_turn, self.tell = self._inbox.turn, self._inbox.note_turn, parts.tell
        self.life: Life | None = None

    async def run(self) -> None:
        """Live one life after another; return when the member has left; raise an error that no new life can avoid."""
        try:
            await self._live_on()
        finally:
            if self.holdings.unguarded:
                self._events.tell(Unguarded(partitions=tuple(sorted(self.holdings.unguarded))))
            self._events.tell(Departed())

    async def _live_on(self) -> None:
        pause = _PAUSE_SECONDS
        while not self._departure.is_wanted:
            lives = self.statistics.sessions
            [error] = await asyncio.gather(self._live(), return_exceptions=True)
            is_final = error is not None and self._is_final(error)
            self._events.tell(SessionEnded(error=error, is_final=is_final))
            if error is None:
                continue
            if is_final:
                raise error
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS) if lives == self.statistics.sessions else _PAUSE_SECONDS
            await asyncio.sleep(pause)

    def _is_final(self, error: BaseException) -> bool:
        """Whether a new life would meet the same error: a misuse, a refusal before the first session, an interrupt."""
        if isinstance(error, StoreDenied):
            return not self.statistics.sessions
        is_misuse = isinstance(error, _MISUSE) and not isinstance(error, BadSnapshot)
        return is_misuse or not isinstance(error, Exception)

    def leave(self) -> None:
        """Hand over all partitions and leave; `run` returns after that. From any thread."""
        self._departure.is_wanted = True
        self._inbox.tell(None)

    def sight(self) -> GroupSummary:
        """Return this member's view of its group. O(partitions)."""
        is_controller = self.controller.term is not None
        return sight(self.view, owned=len(self.holdings), is_controller=is_controller, now=self._clock.elapsed())

    async def _live(self) -> None:
        """Agree with the group, take the lease, and live until the first part of the life ends."""
        parts = self.parts
        parts.deadlines.renew()
        agreed = await self._agreement.reached(is_over=lambda: self._departure.is_wanted)
        # This must be the last scan before the watch. A scan accepts any life of the store, and the watch must follow
        # the life of this scan.
        scan = await self._feed.scan()
        ttl_seconds, confirm = self.options.ttl_seconds, self.holdings.confirm
        lease = await self._sessions.join(ttl_seconds, confirm, incarnation=scan.incarnation)
        self._events.tell(SessionBegan())
        self._inbox.keep_quiet()
        if scan.incarnation != self.view.incarnation:
            parts.former.clear()  # revisions of the store's former life say nothing about this life
            parts.predecessors.awaited = None
        self.life = Life(parts, lease, agreed=agreed)
        await self.life.run(scan)
