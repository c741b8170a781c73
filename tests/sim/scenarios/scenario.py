"""Scenarios: a few members share resources through a store that fails, and must end up in agreement.

The store's scenario plays `member.py`, the smallest honest member; the group's scenario plays the shipped driver. In
the safety phase the nemesis rages, and the invariants must hold at every transition. In the liveness phase nothing
fails any more. Then the right members must own and serve all resources, within a bound.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from apportion.errors import InvariantBroken
from apportion.groups.crash_loops import HEALTHY_SECONDS
from apportion.sim.facts import Calm
from apportion.sim.invariants import groups
from apportion.sim.invariants.orphans import BoundedOrphan
from apportion.sim.invariants.ownership import INVARIANTS, ownership
from apportion.sim.invariants.store import ALL, Invariant, Violation
from apportion.sim.world.backings import MemoryBacking
from apportion.sim.world.nemesis import Mix, Nemesis
from apportion.sim.world.sink import Sink
from apportion.sim.world.sites.site import MakeBacking
from apportion.sim.world.world import World
from tests.sim.scenarios import cron_play, effect_play, key_play, shard_play, task_play
from tests.sim.scenarios import damage as damage_play
from tests.sim.scenarios.cron_play import CronPlay
from tests.sim.scenarios.cron_schedules import foreign_zone_data
from tests.sim.scenarios.damage import DamagePlay
from tests.sim.scenarios.effect_play import EffectPlay
from tests.sim.scenarios.group import SAFETY_SECONDS, GroupPlay, watched
from tests.sim.scenarios.key_play import KeyPlay
from tests.sim.scenarios.shard_play import ShardPlay
from tests.sim.scenarios.sqlite_backing import SqliteBacking
from tests.sim.scenarios.store_member import StoreMember, wanted
from tests.sim.scenarios.survival import NobodyFails
from tests.sim.scenarios.task_play import TaskPlay

HELD = (*ALL, NobodyFails, *INVARIANTS)
STORES: dict[str, MakeBacking] = {"memory": MemoryBacking, "sqlite": SqliteBacking}
_LOOK_SECONDS = 0.25
_STEADY_LOOKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The actions and the results of one seed."""

    seed: int
    digest: str
    seconds: float
    yields: int
    injected: Counter[str]
    covered: Counter[str]
    figures: dict[str, float]
    violations: tuple[Violation, ...]
    story: tuple[str, ...]


class Play(Protocol):
    """One seed of a scenario in a world: how long faults strike, and how soon after the last one all is at rest."""

    world: World
    nemesis: Nemesis
    safety_seconds: float
    liveness_seconds: float

    def begin(self) -> None:
        """Start all members."""
        ...

    def rest(self) -> None:
        """Let no member come or go any more."""
        ...

    @property
    def has_suspects(self) -> bool:
        """Whether the play must be checked again after a longer time."""
        ...

    def unsettled(self, calm: float) -> list[str]:
        """Return the deviations from the settled state, when nothing has failed since `calm`."""
        ...


class StorePlay:
    """One seed of the store's scenario."""

    safety_seconds = SAFETY_SECONDS
    liveness_seconds = 20.0  # a late write of an ended session can keep its place for one more time to live

    def __init__(self, world: World) -> None:
        self.world = world
        draw = world.draws("play")
        self.members = [f"m{number}" for number in range(1, draw.randint(2, 4) + 1)]
        self.resources = [f"r{number}" for number in range(draw.randint(1, 5))]
        self.sink = Sink(world)
        self.nemesis = Nemesis(world, Mix.drawn(world.seed), start=self._start)

    def begin(self) -> None:
        """Start all members."""
        for name in self.members:
            self._start(name)

    def rest(self) -> None:
        """No member comes or goes by itself."""

    @property
    def has_suspects(self) -> bool:
        """Always False: this scenario counts no deaths."""
        return False

    def _start(self, name: str) -> None:
        member = StoreMember(name, self.world, self.sink, self.resources)
        self.world.spawn(name, member.run())

    def unsettled(self, calm: float) -> list[str]:
        """Return the deviations from the settled state."""
        items = self.world.checker.history.items
        sessions = {
            key.removeprefix("member/"): item.revision for key, item in items.items() if key.startswith("member/")
        }
        if sorted(sessions) != self.members:
            return [f"members are {sorted(sessions)}"]
        wrong = []
        for resource in self.resources:
            item, owner = items.get(f"own/{resource}"), wanted(resource, self.members)
            own = None if item is None else ownership(item.value)
            if own is None or (own.owner, own.session) != (owner, sessions[owner]):
                wrong.append(f"{resource} belongs to {own}, not to {owner}")
                continue
            token, _, at = self.sink.accepted.get(resource, (None, "", 0.0))
            if token is None or at < calm or token.epoch != own.epoch:
                wrong.append(f"{resource} was last written under {token}, not under {own}")
        return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededScenario:
    """A play, the invariants that it is checked against, and a limit of many times the steps of a usual seed.

    `group_url` draws whether the groups of a seed have a store of their own, and its URL.
    """

    make: Callable[[World], Play]
    held: tuple[type[Invariant], ...]
    step_limit: int
    group_url: Callable[[int], str | None] = lambda _: None


SCENARIOS = {
    "cron": SeededScenario(make=CronPlay, held=cron_play.HELD, step_limit=120_000),
    "damage": SeededScenario(make=DamagePlay, held=damage_play.HELD, step_limit=120_000),
    "effects": SeededScenario(make=EffectPlay, held=effect_play.HELD, step_limit=120_000),
    "group": SeededScenario(
        make=GroupPlay, held=(*ALL, NobodyFails, *groups.INVARIANTS, BoundedOrphan), step_limit=120_000
    ),
    "keys": SeededScenario(make=KeyPlay, held=key_play.HELD, step_limit=240_000, group_url=key_play.group_url),
    "shards": SeededScenario(make=ShardPlay, held=shard_play.HELD, step_limit=120_000),
    "store": SeededScenario(make=StorePlay, held=HELD, step_limit=40_000),
    "tasks": SeededScenario(make=TaskPlay, held=task_play.HELD, step_limit=120_000),
}


def play(
    seed: int,
    *,
    scenario: str = "store",
    store: str = "memory",
    invariants: Iterable[type[Invariant]] | None = None,
    fault_limit: int | None = None,
    story: bool = False,
    collect: bool = False,
) -> Report:
    """Play one seed and report on it. Broken promises are in the report, and raise nothing.

    All of the scenario's `invariants` are checked, unless some are named.
    """
    played = SCENARIOS[scenario]
    world = World(
        seed,
        store=STORES[store],
        group_url=played.group_url(seed),
        invariants=played.held if invariants is None else invariants,
        fault_limit=fault_limit,
        story=story,
        collect=collect,
        step_limit=played.step_limit,
    )
    broken: list[Violation] = []
    with world, watched(world.trace), foreign_zone_data():
        try:
            world.run(_phases(played.make(world)))
        except InvariantBroken as error:
            broken = [] if world.checker.violations else [Violation(invariant="Settles", at=world.now, what=str(error))]
        return Report(
            seed=seed,
            digest=world.trace.digest(world.loop.steps),
            seconds=world.now,
            yields=world.loop.steps,
            injected=world.trace.injected,
            covered=world.trace.covered,
            figures=world.checker.figures,
            violations=(*world.checker.violations, *broken),
            story=tuple(world.trace.lines or ()),
        )


async def _phases(play: Play) -> None:
    """Play both phases; `InvariantBroken` when the second phase does not come to rest."""
    world, nemesis = play.world, play.nemesis
    play.begin()
    await nemesis.rage(play.safety_seconds)
    play.rest()
    nemesis.rest()
    calm = world.now
    world.record(Calm(at=calm))
    await _settled(play, calm)
    if play.has_suspects and world.seed % 16 == 0:
        await asyncio.sleep(HEALTHY_SECONDS)
        await _settled(play, world.now)


async def _settled(play: Play, since: float) -> None:
    """Wait until everything has been settled for some time."""
    world, steady = play.world, 0
    while steady < _STEADY_LOOKS:
        await asyncio.sleep(_LOOK_SECONDS)
        wrong = play.unsettled(since)
        steady = 0 if wrong else steady + 1
        if world.now > since + play.liveness_seconds:
            lasted = f"{play.liveness_seconds} s after the last fault"
            raise InvariantBroken(f"seed {world.seed}: not settled {lasted}: {wrong}")
