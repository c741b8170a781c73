"""Troubles: the present faults of a world's store, for all of its handles."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from apportion.sim.facts import Fact
from apportion.sim.world.loop import settle
from apportion.sim.world.losses import Losses, Way
from apportion.sim.world.network import STORE, Network
from apportion.sim.world.process import outside
from apportion.sim.world.trace import Trace
from apportion.stores import Scan

REPLY_SECONDS = 1.5  # the time that a caller waits for a reply, while its time to live is not known
_REPLIES_PER_TTL = 4
_SHORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """The ratios of calls with a fault at the store itself, not on the way.

    With the ratio `cancelled`, the run of a member or worker is cancelled at some turn of the loop. With `transaction`,
    the end of a handler's transaction is lost: its commit, or the reply.
    """

    stale_scan: float = 0.0
    watch_gap: float = 0.0
    watch_silent: float = 0.0
    sync_error: float = 0.0
    cancelled: float = 0.0
    transaction: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A silence: connections that a process opened up to `at` carry no more requests, or no more replies."""

    at: float
    way: Way


class Troubles:
    """The present faults of one store, for all of its handles; `place` is the name of the store in the network.

    `ttl_seconds` has the shortest time to live of each process. Another store may share this mapping.
    """

    place: str
    ttl_seconds: dict[str, float]
    draw: Random
    network: Network
    trace: Trace
    record: Callable[[Fact], None]
    odds: Odds
    life: int
    wave: int
    away_until: float
    full_until: float
    calls: int

    def __init__(
        self,
        draw: Random,
        network: Network,
        trace: Trace,
        *,
        record: Callable[[Fact], None],
        place: str = STORE,
        ttl_seconds: dict[str, float] | None = None,
    ) -> None:
        self.draw, self.network, self.trace, self.record = draw, network, trace, record
        self.place, self.ttl_seconds = place, {} if ttl_seconds is None else ttl_seconds
        self.odds = Odds()
        self.losses: Losses = Losses(trace.inject)
        self.life = 1
        self.wave = 1  # the number of the present connections: older messages are dropped, even within one life
        self.away_until = 0.0
        self.full_until = 0.0
        self.calls = 0
        self.open_handles: Counter[str] = Counter()
        self._denied_until: dict[str | None, float] = {}
        self._silences: dict[str, Silence] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._late: dict[asyncio.Future[None], None] = {}  # in the order in which they began
        self.recent: dict[str, deque[tuple[int, Scan]]] = {}

    def happens(self, ratio: float, kind: str, detail: str) -> bool:
        """Return whether a fault of this ratio happens now."""
        return ratio > 0 and self.draw.random() < ratio and self.trace.inject(kind, detail)

    def begin_life(self) -> None:
        """End the life of the store, with all messages on their way to it or from it."""
        self.life += 1
        self.cut()

    def cut(self) -> None:
        """End all connections, with all messages on their way."""
        self.wave += 1
        self.recent.clear()

    def deny(self, process: str | None, until: float) -> None:
        """Let the store refuse one process, or all (None), up to a true time: rights revoked, a password changed."""
        self._denied_until[process] = until

    def denies(self, process: str, now: float) -> bool:
        """Return whether the store refuses a process now."""
        return now < max(self._denied_until.get(None, 0.0), self._denied_until.get(process, 0.0))

    def silence(self, process: str, at: float, way: Way) -> None:
        """Silence the present connections of a process; later ones work."""
        self._silences[process] = Silence(at=at, way=way)

    def silence_of(self, process: str, since: float) -> Silence | None:
        """Return the silence of a connection that a process has opened at a time, None if there is none."""
        silence = self._silences.get(process)
        return None if silence is None or silence.at < since else silence

    def granted(self, process: str, ttl_seconds: float) -> None:
        """Note that a process has a lease, which limits how long it waits for replies."""
        self.ttl_seconds[process] = min(ttl_seconds, self.ttl_seconds.get(process, ttl_seconds))

    def patience_seconds(self, process: str) -> float:
        """Return how long a process waits for a reply before it takes its connection for dead."""
        return min(REPLY_SECONDS, self.ttl_seconds.get(process, float("inf")) / _REPLIES_PER_TTL)

    async def delay(self, seconds: float) -> None:
        """Delay a message to a watch. The delay ends at once when everything is mended."""
        if seconds <= _SHORT_SECONDS:
            await asyncio.sleep(max(0.0, seconds))
            return
        late = asyncio.get_running_loop().create_future()
        self._late[late] = None
        timer = asyncio.get_running_loop().call_later(seconds, settle, late, None)
        try:
            await late
        finally:
            timer.cancel()
            del self._late[late]

    def mend(self) -> None:
        """End all faults."""
        for late in list(self._late):
            settle(late, None)
        self.odds = Odds()
        self.away_until = self.full_until = 0.0
        self.losses.clear()
        self._denied_until.clear()
        self._silences.clear()

    def keep(self, task: "asyncio.Task[None]") -> None:
        """Keep a task until it is done."""
        self._serving.add(task)
        task.add_done_callback(self._serving.discard, context=outside())

    def number(self) -> int:
        """Return the number of the next commit or watch."""
        self.calls += 1
        return self.calls
