"""The scenario of effects: the tasks' scenario, where most tasks have effects that must not happen twice.

On a database, the end of a transaction that completes a task may be lost: its commit, or the reply.

It has seeds of its own, so that a task function more leaves every seed of the tasks' scenario as it was.
"""

import random
from dataclasses import replace

from apportion.sim.facts import EffectHappened
from apportion.sim.invariants.store import Invariant
from apportion.sim.invariants.task_effects import OnceIsOnce
from apportion.sim.world.world import World
from apportion.work.current import current_task
from apportion.work.effects.once import OnUnknown
from apportion.work.running_task import CURRENT
from tests.sim.scenarios import task_play
from tests.sim.scenarios.task_functions import _QUICKLY, DECLARED, STAGE, USUAL, _runs, transfers
from tests.sim.scenarios.task_play import TaskPlay

HELD: tuple[type[Invariant], ...] = (*task_play.HELD, OnceIsOnce)
_LOST_RATIO = 0.2  # of the ends of transactions
_SHARED_BY = 3  # so many calls have an effect in common


async def _charge(key: str, may_repeat: bool) -> str:
    """Take some time, happen, and take some more; now and then no answer comes."""
    stage, task = STAGE.get(), CURRENT.get()
    assert task is not None
    await stage.take(0.3)
    receipt = task.claim.receipt
    stage.world.record(EffectHappened(at=stage.world.now, key=key, receipt=receipt, may_repeat=may_repeat))
    await stage.take(0.5)
    if random.random() < 0.2 and not stage.calmed.is_set():
        raise ValueError("no answer")
    return key


@DECLARED.task(failures=3, **_QUICKLY)
async def charges(number: int) -> None:
    """Have an effect that some other tasks ask for too; half of all effects must not happen twice."""
    async with _runs(0.2) as (stage, run):
        name = number // _SHARED_BY
        on_unknown: OnUnknown = "run" if name % 2 else "fail"
        key = f"{on_unknown}/{name}"
        assert key == await current_task().once(key, _charge, key, on_unknown == "run", on_unknown=on_unknown)
        if random.random() < 0.05 and not stage.calmed.is_set():
            await stage.die(run)


class EffectPlay(TaskPlay):
    """One seed of the scenario."""

    damage_ratio = 0.0

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.usual = (*USUAL, *[transfers] * 3, *[charges] * len(USUAL))
        mix = self.nemesis.mix
        self.nemesis.mix = replace(mix, odds=replace(mix.odds, transaction=_LOST_RATIO))
