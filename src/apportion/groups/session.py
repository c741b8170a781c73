"""Session: the one lease that a process keeps alive in a store, on the I/O thread, for all its groups.

Promises: the deadline lies before the moment at which the store may end the lease, in any state of the network. It
counts from the moment a renewal was sent, on this machine's own clock, less a margin for clocks that drift. A blocked
event loop of the user does not delay a renewal. If a C call holds the interpreter's lock for the TTL less the margin,
the session ends. After the deadline, a process renews nothing until the store replies. Until then, a renewal would keep
other processes from partitions that this process may not use either. A group that leaves or gives up costs the other
groups nothing if it deleted all its records on the lease. Otherwise the lease ends for all groups, because the
remaining records would live as long as those groups do.
Refuses: to renew for other processes, and to revive a lease that has ended. The next life has another lease.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from apportion.errors import InvalidInput, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import Clock
from apportion.runtime.endings import or_undo, outlasting
from apportion.runtime.simulated import clock_here, simulated
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import connect, parsed_url
from apportion.stores.url import StoreUrl

MARGIN_RATIO = 0.1
RENEWALS_PER_TTL = 4
_PAUSE_RATIO = 0.05
_NOTHING = "session/"  # no record has this prefix


class Sessions:
    """The sessions of one process in one store: one per time to live, so usually a single one.

    `store` is a handle for these sessions alone: to begin a session, it accepts any life of the store.
    """

    def __init__(self, store: CoordinationStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._newest: dict[float, Session] = {}
        self._beginning = asyncio.Lock()

    async def join(self, ttl_seconds: float, confirmed: Callable[[float], None], *, incarnation: int) -> "GroupLease":
        """Return a group's part in the session, which the first call begins. `confirmed` gets each new deadline.

        `incarnation` is the life of the store in which the group is. A session of an earlier life ends for all
        groups, because its renewals do not show how long its lease lasts in this life.
        """
        async with self._beginning:
            session = self._newest.get(ttl_seconds)
            if session is not None:
                session.outlived_by(incarnation)
            if session is None or session.is_over:
                session = Session(self._store, self._clock, ttl_seconds=ttl_seconds)
                await session.begin()
                self._newest[ttl_seconds] = session
            return GroupLease(session, confirmed)


class Session:
    """A lease in one life of the store, and the parts that groups have in this session."""

    lease: int
    incarnation: int
    deadline: float
    is_over: bool

    def __init__(self, store: CoordinationStore, clock: Clock, *, ttl_seconds: float) -> None:
        self.ttl_seconds = ttl_seconds
        self.lease = self.incarnation = 0
        self.deadline = float("-inf")
        self.is_over = False
        self.parts: list[GroupLease] = []  # in the order in which they came
        self._store, self._clock = store, clock
        self._keeping: asyncio.Future[None] | None = None

    async def begin(self) -> None:
        """Ask the store for the lease, and keep it alive; `InvalidInput` if the store grants none of this length."""
        self.incarnation = (await self._store.scan(_NOTHING)).incarnation  # a scan accepts any life
        sent = self._clock.elapsed()
        try:
            self.lease = (await self._store.grant(ttl_seconds=self.ttl_seconds)).id
        except InvalidInput as error:
            raise self._refused(error) from error
        self._confirm(sent)
        self._keeping = asyncio.ensure_future(self._keep())
        self._keeping.add_done_callback(self._kept)

    async def end(self) -> None:
        """Give the lease back, for all groups.

        If the store does not answer, its lease ends by itself. If the store went back, the lease there is another one.
        """
        self._stop(None)
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])
            with suppress(StoreDenied, StoreUnavailable, StoreWentBack):
                await self._store.revoke(self.lease)

    def outlived_by(self, incarnation: int) -> None:
        """End the session if the store is in a later life than the one that granted the lease."""
        if self.incarnation < incarnation:
            found = f"it is in incarnation {incarnation}"
            self._stop(StoreWentBack("the store", f"incarnation {self.incarnation}", found))
            if self._keeping is not None:  # a restored store may have the lease too, and there it must end
                self._keeping.cancel()

    async def _keep(self) -> None:
        interval = self.ttl_seconds / RENEWALS_PER_TTL
        while True:
            await asyncio.sleep(interval)
            try:
                if self._clock.elapsed() >= self.deadline:
                    await self._store.renew([])
                sent = self._clock.elapsed()
                alive = await self._store.renew([self.lease])
            except (StoreUnavailable, StoreDenied):
                interval = self.ttl_seconds * _PAUSE_RATIO
                continue
            interval = self.ttl_seconds / RENEWALS_PER_TTL
            if self.lease not in alive:
                return
            self._confirm(sent)

    def _refused(self, error: InvalidInput) -> InvalidInput:
        """Return an error that names the user's argument. The limits are read now: etcd's refusal may change them."""
        limits = self._store.capabilities()
        bounds = f"{limits.min_ttl_seconds:g} to {limits.max_ttl_seconds:g} seconds"
        expected = f"a timedelta that the store grants: {bounds}"
        return InvalidInput("lease_ttl", str(timedelta(seconds=self.ttl_seconds)), expected, error.hint)

    def _confirm(self, sent: float) -> None:
        self.deadline = sent + self.ttl_seconds * (1 - MARGIN_RATIO)
        for part in self.parts:
            part.confirm(self.deadline)

    def _kept(self, keeping: "asyncio.Future[None]") -> None:
        if not keeping.cancelled():
            self._stop(keeping.exception())

    def _stop(self, trouble: BaseException | None) -> None:
        """Tell all parts, once, that the session is over, and the error that ended it."""
        if not self.is_over:
            self.is_over = True
            for part in self.parts:
                part.trouble = trouble
                part.ended.set()


class GroupLease:
    """One group's part in a session. `ended` is set once the part has ended, and `trouble` may say why.

    `lease` is the id of the session's lease, `ttl_seconds` its time to live, `incarnation` the life of the store.
    """

    is_forfeit: bool
    lease: int
    ttl_seconds: float

    def __init__(self, session: Session, confirmed: Callable[[float], None]) -> None:
        self.ended: asyncio.Event = asyncio.Event()
        self.is_forfeit = False
        self.trouble: BaseException | None = None
        self._session, self._confirmed = session, confirmed
        self.lease, self.ttl_seconds = session.lease, session.ttl_seconds
        self.incarnation: int = session.incarnation
        session.parts.append(self)
        self.confirm(session.deadline)

    @property
    def is_alone(self) -> bool:
        """Whether the lease ends with this part."""
        return self._session.is_over or len(self._session.parts) == 1

    async def keep(self) -> None:
        """Return when this part has ended; raise the error that ended it, if any."""
        await self.ended.wait()
        if self.trouble is not None:
            raise self.trouble

    def confirm(self, deadline: float) -> None:
        """Note the new deadline of the session, unless this part has ended."""
        if not self.ended.is_set():
            self._confirmed(deadline)

    def forfeit(self) -> None:
        """Give up the session for this group, because some of its work cannot be stopped in any other way."""
        self.is_forfeit = True
        self.ended.set()

    async def end(self, *, is_clear: bool) -> None:
        """Leave. `is_clear`: no record of this group is on the lease, and no write under way will put one there."""
        self.ended.set()
        self._session.parts.remove(self)
        if not (is_clear and self._session.parts):
            await self._session.end()


class SharedSessions:
    """The sessions of this process in the store of a URL, for as long as one of its groups uses them; see `taken`."""

    sessions: Sessions

    def __init__(self, url: str) -> None:
        self._key = _key(url)
        self._opening = asyncio.ensure_future(self._open(url))
        self._users = 0

    @classmethod
    async def taken(cls, url: str) -> "SharedSessions":
        """Connect, or share the connection of an earlier user; errors are those of `stores.connect`."""
        machine = simulated()
        there = _shared if machine is None else machine.shared
        shared = there.get(_key(url)) or cls(url)
        there[shared._key] = shared
        shared._users += 1
        async with or_undo(shared.let_go):
            await outlasting(shared._opening)
        return shared

    async def let_go(self) -> None:
        """Stop using the sessions; the last user closes the handle."""
        self._users -= 1
        if self._users:
            return
        machine = simulated()
        (_shared if machine is None else machine.shared).pop(self._key, None)
        self._opening.cancel()  # has no effect on a task that is done
        await asyncio.wait([self._opening])
        if not self._opening.cancelled() and self._opening.exception() is None:
            await self._opening.result().close()

    async def _open(self, url: str) -> CoordinationStore:
        store = await connect(url)
        self.sessions = Sessions(store, clock_here())
        return store


def _key(url: str) -> tuple[int, StoreUrl]:
    """Return a key of a store in this process, the same for any spelling of its URL and any working directory."""
    return os.getpid(), parsed_url(url).canonical()


_shared: dict[tuple[int, StoreUrl], SharedSessions] = {}
