"""The faults of shards in a world: a shard is away for a while, and replies to commits are lost.

Their times are drawn from the seed. The faults of the network and of processes are those of the world's nemesis.
"""

import asyncio
from collections.abc import Mapping
from random import Random

from apportion.sim.shards.wire import ShardPlace
from apportion.sim.world.troubles import Odds
from apportion.sim.world.world import World

_LONGEST_AWAY_SECONDS = 0.8


class ShardFaults:
    """The faults of all shards of a world, from `begin` to `rest`. With `is_calm`, only `take_away` makes faults."""

    def __init__(self, world: World, places: Mapping[str, ShardPlace], *, is_calm: bool) -> None:
        self._world, self._places, self._is_calm = world, places, is_calm
        self._draw: Random = world.draws("shard faults")
        self._pause_seconds: float = self._draw.choice([0.7, 3.0, 20.0])
        self._broken_ratio: float = self._draw.choice([0.0, 0.02, 0.1])
        self._work: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Do harm from now on."""
        if self._is_calm:
            return
        for place in self._places.values():
            place.troubles.odds = Odds(sync_error=self._broken_ratio)
        self._work = asyncio.create_task(self._strike())

    def take_away(self, name: str, seconds: float) -> None:
        """Let a shard be away for some time; messages on their way to it or from it are lost."""
        troubles = self._places[name].troubles
        troubles.cut()
        troubles.away_until = self._world.now + seconds

    def rest(self) -> None:
        """Mend everything."""
        if self._work is not None:
            self._work.cancel()
        for place in self._places.values():
            place.troubles.mend()

    async def _strike(self) -> None:
        draw, world = self._draw, self._world
        while True:
            await asyncio.sleep(draw.expovariate(1 / self._pause_seconds))
            name = draw.choice(sorted(self._places))
            if world.trace.inject("shard away", name):
                self.take_away(name, draw.uniform(0.05, _LONGEST_AWAY_SECONDS))
