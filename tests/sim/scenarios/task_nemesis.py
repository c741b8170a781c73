"""The faults of the tasks' scenario: those of all stores, those of tasks, and callers that are cancelled.

In some seeds rows of tasks are damaged too. The others are as they would be without damage.
"""

from dataclasses import replace
from random import Random

from apportion.sim.world.nemesis import _ASKED_FOR, BLOWS, OF_TASKS, Mix

KINDS = tuple(name for name in BLOWS if name in OF_TASKS or name not in _ASKED_FOR)


DAMAGE = "damaged task"


def drawn(seed: int, *, damage_ratio: float) -> Mix:
    """Draw the faults of a seed; in so many of the seeds rows of tasks are damaged."""
    mix = Mix.drawn(seed, blows=KINDS)
    is_damaged = Random(f"{seed} damage").random() < damage_ratio
    return replace(mix, blows=(*mix.blows, DAMAGE)) if is_damaged else mix
