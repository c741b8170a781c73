"""Wire: the requests of one process to one store, through a network and to a machine that fails.

A request travels to the store and is carried out there, also when its caller is gone; the reply travels back. So a
lost request changes nothing, and a lost reply hides a change from the caller. A late request arrives long after its
caller has given up. The copy of a repeated request follows at once: no connection delivers a copy later. When a life
of the store ends, messages on their way are lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from apportion.errors import ApportionError, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.sim.world.loop import settle
from apportion.sim.world.losses import Way
from apportion.sim.world.process import outside
from apportion.sim.world.troubles import Troubles
from apportion.stores import Outcome

Result = TypeVar("Result")
NAME = "the simulated store"


class NoReply(Exception):
    """The caller gave up, or its connection broke after the request was sent."""


class FaultyWire:
    """The way of one process to one store.

    `accepted_life` is the newest life of the store in which a scan or listing of this handle was carried out.
    `heard_life` is the newest life that its caller knows: a lost reply tells it nothing. Outside the simulation, each
    request names the life that its caller knows.
    """

    def __init__(self, process: str, troubles: Troubles, *, now: float) -> None:
        self.process = process
        self.troubles = troubles
        self.accepted_life: int = troubles.life
        self.heard_life: int = troubles.life
        self.connected_at: float = now

    def must_know_its_life(self) -> None:
        """Raise `StoreWentBack` if a scan or listing was carried out in a life that the caller does not know."""
        if self.accepted_life != self.heard_life:
            raise StoreWentBack(NAME, f"life {self.heard_life}", f"life {self.accepted_life}")

    async def certain(
        self, what: str, perform: Callable[[], Awaitable[Result]], *, changes: bool, accepts: bool = False
    ) -> Result:
        """Send a request that may be repeated without harm; raise `StoreUnavailable` if no reply comes."""
        try:
            return await self.ask(what, perform, changes=changes, accepts=accepts)
        except NoReply as error:
            raise StoreUnavailable(NAME, str(error), "Try again.") from None

    async def ask(
        self,
        what: str,
        perform: Callable[[], Awaitable[Result]],
        *,
        changes: bool = True,
        accepts: bool = False,
        lost: Way | None = None,
    ) -> Result:
        """Send a request, and wait `patience_seconds` for its reply. Without a reply, give up the connection too.

        With `accepts`, the store answers in any life.
        """
        loop, troubles = asyncio.get_running_loop(), self.troubles
        reply: asyncio.Future[Result] = loop.create_future()
        silence = troubles.silence_of(self.process, self.connected_at)
        lost = silence.way if lost is None and silence is not None else lost
        answer = loop.create_future() if lost is Way.REPLY else reply
        journeys = troubles.network.journeys(self.process, troubles.place)
        if journeys and lost is not Way.REQUEST:
            serving = self._serve(what, perform, answer, journeys, changes=changes, accepts=accepts)
            troubles.keep(loop.create_task(serving, context=outside()))
        patience_seconds = troubles.patience_seconds(self.process)
        timer = loop.call_later(patience_seconds, settle, reply, NoReply("no reply came in time"))
        try:
            return await reply
        except NoReply:
            self.connected_at = asyncio.get_running_loop().time()
            raise
        finally:
            timer.cancel()

    async def _serve(
        self,
        what: str,
        perform: Callable[[], Awaitable[Result]],
        reply: "asyncio.Future[Result]",
        journeys: tuple[float, ...],
        *,
        changes: bool,
        accepts: bool,
    ) -> None:
        """Carry out a request at the store. This goes on even if the caller stops."""
        troubles, wave, believed = self.troubles, self.troubles.wave, self.heard_life
        await asyncio.sleep(journeys[0])
        if wave != troubles.wave:
            return
        refusal = self._refusal(None if accepts else believed, changes=changes)
        if refusal is not None:
            settle(reply, refusal)
            return
        broken = changes and troubles.happens(troubles.odds.sync_error, "sync error", f"{what} of {self.process}")
        if broken and troubles.draw.random() < 0.5:
            settle(reply, NoReply("the disk failed at the commit"))
            return
        result: Result | ApportionError
        try:
            result = await perform()
        except ApportionError as error:
            result = error
        troubles.trace.cover(
            f"{what}: {type(result).__name__}" if isinstance(result, ApportionError | Outcome) else what
        )
        for _ in journeys[1:]:
            await _in_vain(perform)
        back = troubles.network.journeys(troubles.place, self.process)
        if back:
            await asyncio.sleep(back[0])
        if broken or (back and wave == troubles.wave):
            settle(reply, NoReply("the disk failed at the commit") if broken else result)

    def _refusal(self, believed: int | None, *, changes: bool) -> ApportionError | None:
        """Return the reason why the store refuses a request before it begins; None if it begins."""
        troubles, now = self.troubles, asyncio.get_running_loop().time()
        if troubles.denies(self.process, now):
            return denied()
        if now < troubles.away_until:
            return StoreUnavailable(NAME, "connection refused")
        if changes and now < troubles.full_until:
            return StoreUnavailable(NAME, "disk full")
        if believed is not None and self.accepted_life != believed:
            return StoreWentBack(NAME, f"life {believed}", f"life {self.accepted_life}")
        return None


def denied() -> StoreDenied:
    """Return the error of a store that refuses a process."""
    return StoreDenied(NAME, "its rights were revoked", "Grant them again.")


async def _in_vain(perform: Callable[[], Awaitable[object]]) -> None:
    """Carry out a copy of a request, and ignore its result."""
    try:
        await perform()
    except ApportionError:
        return
