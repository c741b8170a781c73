"""Troubles: what is wrong with a world's store now, for all of its handles."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from apportion.sim.facts import Fact
from apportion.sim.network import Network
from apportion.sim.process import outside
from apportion.sim.trace import Trace
from apportion.stores import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """The ratio of calls that something happens to at the store itself, not on the way."""

    stale_scan: float = 0.0
    watch_gap: float = 0.0
    watch_silent: float = 0.0
    sync_error: float = 0.0


class Troubles:
    """What is wrong with one store now, for all of its handles."""

    def __init__(self, draw: Random, network: Network, trace: Trace, *, record: Callable[[Fact], None]) -> None:
        self.draw, self.network, self.trace, self.record = draw, network, trace, record
        self.odds = Odds()
        self.life = 1
        self.away_until = 0.0
        self.full_until = 0.0
        self.calls = 0
        self._serving: set[asyncio.Task[None]] = set()
        self.recent: dict[str, deque[tuple[int, Scan]]] = {}

    def happens(self, ratio: float, kind: str, detail: str) -> bool:
        """Return whether a fault of this ratio happens now."""
        return ratio > 0 and self.draw.random() < ratio and self.trace.inject(kind, detail)

    def begin_life(self) -> None:
        """End the life of the store, with all that is on its way to it or from it."""
        self.life += 1
        self.recent.clear()

    def keep(self, task: "asyncio.Task[None]") -> None:
        """Keep a task until it is done."""
        self._serving.add(task)
        task.add_done_callback(self._serving.discard, context=outside())

    def number(self) -> int:
        """Return the number of the next commit or watch."""
        self.calls += 1
        return self.calls
