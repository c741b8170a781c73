"""The faults of the tasks' scenario: those of all stores, those of tasks, and callers that are cancelled."""

from apportion.sim.world.nemesis import _ASKED_FOR, BLOWS, OF_TASKS, Mix

KINDS = tuple(name for name in BLOWS if name in OF_TASKS or name not in _ASKED_FOR)


def drawn(seed: int) -> Mix:
    """Draw the faults of a seed."""
    return Mix.drawn(seed, blows=KINDS)
