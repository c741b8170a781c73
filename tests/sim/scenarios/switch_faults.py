"""The faults at a switch: its commit is late, a retreat comes after it, or the target is away while it is drained to.

A late switch is on its way for longer than the lease of its mover, and the target is away. The next mover finds a fence
that stands, so it gives the fence up while the switch may still arrive: before the retreat, between two acts of it, or
after it. Meanwhile nobody else changes the table or the record of the move, so that the commit still holds.
"""

from random import Random

from apportion.shards.mover.records import MoveEntry
from apportion.shards.records import SetKeys
from apportion.sim.facts import Asked
from apportion.sim.shards.faults import ShardFaults
from apportion.sim.world.network import STORE
from apportion.sim.world.world import World
from tests.sim.scenarios.shard_set import SET, ShardSet

_RATIO = 0.3  # of the switches
_MOMENT_RATIO = 0.3  # of the drains
_QUIET_SECONDS = 0.05
_MEETING_RATIO = 0.5  # of the retreats under a late switch


class SwitchFaults:
    """The faults at the switches of a set."""

    def __init__(self, world: World, shards: ShardSet, faults: ShardFaults, ttl_seconds: float) -> None:
        self._world, self._shards, self._faults, self._ttl_seconds = world, shards, faults, ttl_seconds
        self._move = SetKeys(SET).move("")
        self._draw: Random = world.draws("switch faults")
        self._seen = 0
        self._journeys = world.network.journeys
        world.network.journeys = self._sent  # type: ignore[method-assign]

    def strike(self, process: str, label: str) -> None:
        """Do harm at a step of a mover, now and then."""
        if self._world.checker.history.calm_since is None:
            if label == "drain.before" and self._draw.random() < _MOMENT_RATIO:
                self._take_target_away(label)
            elif label == "retreat.before" and self._draw.random() < _MEETING_RATIO:
                self._meet(process)

    def _take_target_away(self, label: str) -> None:
        """Take the target away for a moment, so that the drain is cut, and the switch follows all the same."""
        for move in self._shards.open_moves.values():
            if move.state == "fenced" and self._world.trace.inject("target away for a moment", label):
                self._faults.take_away(move.target, self._draw.uniform(0.01, 0.25))

    def _meet(self, process: str) -> None:
        """Let a mover that is about to retreat sleep until the switch has arrived."""
        left = self._shards.quiet_until - self._world.now
        if left > 0 and self._world.trace.inject("retreat after a switch", process):
            self._world.pause(process, left + self._draw.uniform(0.01, 0.3))

    def _sent(self, source: str, target: str) -> tuple[float, ...]:
        journeys = self._journeys(source, target)
        newest = next(reversed(self._world.checker.history.attempts.values()), None)
        if target != STORE or not journeys or newest is None or newest.asked.process != source:
            return journeys
        entry = None if newest.asked.call == self._seen else self._switched(newest.asked)
        self._seen = newest.asked.call
        if entry is None or self._draw.random() >= _RATIO:
            return journeys
        if not self._world.trace.inject("switch on its way past a lease", source):
            return journeys
        seconds = self._ttl_seconds * self._draw.uniform(1.5, 4.0)
        self._shards.quiet_until = self._world.now + seconds + _QUIET_SECONDS
        self._world.pause(source, seconds)
        self._faults.take_away(entry.group.target, seconds + self._draw.uniform(-0.5, 0.5))
        return tuple(each + seconds for each in journeys)

    def _switched(self, asked: Asked) -> MoveEntry | None:
        """Return the move that a commit switches, if it does."""
        for put in asked.puts if self._world.checker.history.calm_since is None else ():
            if put.key.startswith(self._move):
                entry = MoveEntry.decode(put.value)
                return entry if entry.record.state == "switched" else None
        return None
