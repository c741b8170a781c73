"""The store's scenario: a few members share resources through a store that fails, and must end up in agreement.

In the safety phase the nemesis rages, and the invariants must hold at every transition. In the liveness phase nothing
fails any more, and all resources must be owned and served by whom they should, within a bound.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from apportion.errors import InvariantBroken
from apportion.sim.backing import MemoryBacking
from apportion.sim.facts import Calm
from apportion.sim.invariants import ALL, Invariant, Violation
from apportion.sim.member import Member, wanted
from apportion.sim.nemesis import Mix, Nemesis
from apportion.sim.ownership import INVARIANTS, ownership
from apportion.sim.sink import Sink
from apportion.sim.sqlite_backing import SqliteBacking
from apportion.sim.world import MakeBacking, World

SAFETY_SECONDS = 12.0
STEP_LIMIT = 40_000  # many times what a seed takes
LIVENESS_SECONDS = 20.0  # a late write of a session that is over can keep its place for one more time to live
HELD = (*ALL, *INVARIANTS)
STORES: dict[str, MakeBacking] = {"memory": MemoryBacking, "sqlite": SqliteBacking}
_LOOK_SECONDS = 0.25
_STEADY_LOOKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one seed did and found."""

    seed: int
    digest: str
    seconds: float
    yields: int
    injected: Counter[str]
    covered: Counter[str]
    violations: tuple[Violation, ...]
    story: tuple[str, ...]


class Play:
    """One seed of the scenario."""

    def __init__(self, world: World) -> None:
        self.world = world
        draw = world.draws("play")
        self.members = [f"m{number}" for number in range(1, draw.randint(2, 4) + 1)]
        self.resources = [f"r{number}" for number in range(draw.randint(1, 5))]
        self.sink = Sink(world)
        self._nemesis = Nemesis(world, Mix.drawn(world.seed), start=self._start)

    async def run(self) -> None:
        """Play both phases; `InvariantBroken` when the second does not come to rest."""
        for name in self.members:
            self._start(name)
        await self._nemesis.rage(SAFETY_SECONDS)
        self._nemesis.rest()
        calm = self.world.now
        self.world.record(Calm(at=calm))
        steady = 0
        while steady < _STEADY_LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            wrong = self._unsettled(calm)
            steady = 0 if wrong else steady + 1
            if self.world.now > calm + LIVENESS_SECONDS:
                raise InvariantBroken(
                    f"seed {self.world.seed}: not settled {LIVENESS_SECONDS} s after the last fault: {wrong}"
                )

    def _start(self, name: str) -> None:
        member = Member(name, self.world, self.sink, self.resources)
        self.world.spawn(name, member.run())

    def _unsettled(self, calm: float) -> list[str]:
        """Say what is not as it should be."""
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


def play(
    seed: int,
    *,
    store: str = "memory",
    invariants: Iterable[type[Invariant]] = HELD,
    fault_limit: int | None = None,
    story: bool = False,
    collect: bool = False,
) -> Report:
    """Play one seed and report on it; what breaks is in the report, and raises nothing."""
    world = World(
        seed,
        store=STORES[store],
        invariants=invariants,
        fault_limit=fault_limit,
        story=story,
        collect=collect,
        step_limit=STEP_LIMIT,
    )
    broken: list[Violation] = []
    with world:
        try:
            world.run(Play(world).run())
        except InvariantBroken as error:
            broken = [] if world.checker.violations else [Violation(invariant="Settles", at=world.now, what=str(error))]
        return Report(
            seed=seed,
            digest=world.trace.digest(world.loop.steps),
            seconds=world.now,
            yields=world.loop.steps,
            injected=world.trace.injected,
            covered=world.trace.covered,
            violations=(*world.checker.violations, *broken),
            story=tuple(world.trace.lines or ()),
        )
