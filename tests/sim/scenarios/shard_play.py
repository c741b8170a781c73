"""The shards' scenario: slots move between shards by the shipped mover, while all of them are written to.

The seed draws two or three shards, the rows of a slot, writers of several kinds, another publisher, the orders of an
operator, the steps at which movers are killed or paused, and the faults of stores, shards and the network.
"""

import asyncio
import random
from contextlib import suppress
from dataclasses import replace

from apportion.errors import ApportionError
from apportion.model.assignment import Assignment
from apportion.shards.mover import look
from apportion.sim.invariants.shards import INVARIANTS, SETTLE_SECONDS
from apportion.sim.invariants.store import ALL
from apportion.sim.shards.faults import ShardFaults
from apportion.sim.world.nemesis import Mix, Nemesis
from apportion.sim.world.network import FAIR, STORE
from apportion.sim.world.process import outside
from apportion.sim.world.troubles import Odds
from apportion.sim.world.world import World
from apportion.tables.publisher import Publisher
from tests.sim.scenarios.shard_movers import TTL_SECONDS, MoverProcess, ShardOperator
from tests.sim.scenarios.shard_set import SET, ShardSet, assignment
from tests.sim.scenarios.shard_writers import ShardWriter
from tests.sim.scenarios.survival import NobodyFails
from tests.sim.scenarios.switch_faults import SwitchFaults

HELD = (*ALL, NobodyFails, *INVARIANTS)
BLOWS = (
    "pause", "kill", "partition", "one-way partition", "clogged link", "store away", "disk full", "lost commit",
    "store denied", "connection silent", "store restart", "wall clock step",
)  # fmt: skip
_AIMED_RATIO = 0.6  # of the seeds: nothing fails but movers at their steps, so that moves come far
_FENCED = frozenset({"fence", "drain", "announce", "switch", "retreat", "abort-record", "unfence", "raise", "own"})
_FENCED_FACTOR = 8  # these steps matter most, and a move must come to them before the faults end
_STEP_SECONDS = 0.03
_MOST_KILLS = 3
_ELECTION_SECONDS = 0.6  # nothing can move before there is a leader


class ShardPlay:
    """One seed of the scenario."""

    safety_seconds, liveness_seconds = 7.0, SETTLE_SECONDS

    def __init__(self, world: World) -> None:
        self.world = world
        self.draw = draw = world.draws("shards")
        self.shards = ShardSet(world, draw)
        self._writers = {f"w{number}": self._drawn() for number in range(1, draw.randint(2, 3) + 1)}
        self._operator_seconds = draw.choice([0.1, 0.3])
        mix = replace(Mix.drawn(world.seed, blows=BLOWS), pause_seconds=draw.uniform(0.8, 4.0))
        is_aimed = draw.random() < _AIMED_RATIO
        mix = replace(mix, weather=FAIR, odds=Odds(), blows=()) if is_aimed else mix
        self.nemesis = Nemesis(world, mix, start=self.start)
        self._faults = ShardFaults(world, self.shards.places, is_calm=is_aimed)
        self._switch_faults = SwitchFaults(world, self.shards, self._faults, TTL_SECONDS)
        self._harm_ratio, self._kills = draw.choice([0.01, 0.04] if is_aimed else [0.0, 0.01]), 0
        self._dying: set[str] = set()
        self._lived: set[str] = set()
        look.NEAR_ROWS = draw.choice([3, 200])

    @property
    def has_suspects(self) -> bool:
        """Always False: no partition is served here."""
        return False

    def begin(self) -> None:
        """Start all processes."""
        for process in ("m1", "m2", "p"):
            self.start(process)
        for process in ("o", *self._writers):
            self.world.loop.call_later(_ELECTION_SECONDS, self.start, process, context=outside())
        self._faults.begin()

    def start(self, process: str) -> None:
        """Start a process, or a new life of it."""
        spawn, shards = self.world.spawn, self.shards
        if process in self._writers:
            seconds, is_bare, is_lazy = self._writers[process]
            spawn(process, ShardWriter(process, shards, seconds=seconds, is_bare=is_bare, is_lazy=is_lazy).run())
        elif process.startswith("m"):
            if process in self._lived:  # two faults may have ended it, and each brings it back
                self.world.kill(process)
            self._lived.add(process)
            spawn(process, MoverProcess(process, shards, lambda label: self._reached(process, label)).run())
        elif process == "o":
            spawn(process, ShardOperator(process, shards, self._operator_seconds).run())
        else:
            spawn(process, self._publish(process))

    def rest(self) -> None:
        """Mend the shards."""
        self._faults.rest()

    def unsettled(self, calm: float) -> list[str]:
        """Return the moves and the pins that are open."""
        shards = self.shards
        return [*(f"{move.move} is {move.state}" for move in shards.open_moves.values()), *sorted(shards.open_pins)]

    def _drawn(self) -> tuple[float, bool, bool]:
        draw, kind = self.draw, self.draw.random()
        return draw.choice([0.05, 0.2]), kind < 0.2, kind > 0.5

    def _reached(self, process: str, label: str) -> None:
        """Count a step of a mover, and now and then do harm there."""
        world, draw = self.world, self.draw
        world.trace.cover(f"step {label}")
        self._switch_faults.strike(process, label)
        ratio = self._harm_ratio * (_FENCED_FACTOR if label.partition(".")[0] in _FENCED else 1)
        if world.checker.history.calm_since is None and draw.random() < ratio:
            draw.choice((self._kill, self._pause, self._delay, self._delay, self._take_away))(process, label)

    def _kill(self, process: str, label: str) -> None:
        """End a mover at a step, or between two transactions of it; it comes back a little later."""
        world, draw = self.world, self.draw
        is_due = self._kills < _MOST_KILLS and process not in self._dying
        if is_due and world.trace.inject("mover killed at a step", label):
            self._kills += 1
            self._dying.add(process)
            seconds = draw.choice([0.0, draw.uniform(0.0, _STEP_SECONDS)])
            if seconds:
                world.loop.call_later(seconds, world.kill, process, context=outside())
            else:
                world.kill(process)
            world.loop.call_later(seconds + draw.uniform(0.1, 1.0), self._revive, process, context=outside())

    def _revive(self, process: str) -> None:
        self._dying.discard(process)
        self.start(process)

    def _pause(self, process: str, label: str) -> None:
        """Pause a mover at a step, perhaps for longer than its lease."""
        if self.world.trace.inject("mover paused at a step", label):
            self.world.pause(process, self.draw.uniform(0.2, 2.5 * TTL_SECONDS))

    def _delay(self, process: str, label: str) -> None:
        """Pause a mover past its lease, and keep the requests that it sends now: they arrive under the next mover."""
        world, draw = self.world, self.draw
        if world.trace.inject("mover paused past its lease", label):
            for place in (STORE, *(each.place for each in self.shards.places.values())):
                world.network.clog(process, place, draw.uniform(1.2, 3.0) * TTL_SECONDS)
            world.pause(process, draw.uniform(1.0, 2.0) * TTL_SECONDS)

    def _take_away(self, _: str, label: str) -> None:
        """Take a shard away at a step: for a moment, or for longer than writers of a fenced slot should wait."""
        draw = self.draw
        if self.world.trace.inject("shard away at a step", label):
            seconds = draw.choice([draw.uniform(0.02, 0.3), draw.uniform(0.4, 1.2)])
            self._faults.take_away(draw.choice(self.shards.names), seconds)

    async def _publish(self, process: str) -> None:
        """Publish the first tables, and then now and then the newest one with another weight."""
        store = self.world.store(process)
        for number, value in enumerate(self.shards.first, start=1):
            while len(self.shards.tables) < number:
                with suppress(ApportionError):
                    await Publisher(store, SET).publish(value, number=number)
        while self.world.checker.history.calm_since is None:
            await asyncio.sleep(random.expovariate(1.0))
            if self.shards.is_quiet:
                continue
            with suppress(ApportionError):
                publisher = Publisher(store, SET)
                newest = await publisher.newest()
                assert isinstance(newest, Assignment)
                owners = [newest.topology.ids[row[0]] for row in newest.rows]
                weight = random.choice([0.5, 2.0, 3.0])
                await publisher.publish(assignment(owners, self.shards.names, weight, newest.names))
