"""Sim: a seeded world with virtual time and faults, and the suites that certify a store.

In a checkout, this module also exports `play` and `Report` of `tests.sim.scenarios`.
"""

from apportion.sim.invariants.store import Checker, Invariant, Violation
from apportion.sim.source_tree import scenarios
from apportion.sim.world.loop import Deadlock, VirtualLoop
from apportion.sim.world.nemesis import Mix, Nemesis
from apportion.sim.world.refusal import LeavesTheWorld
from apportion.sim.world.sink import Sink
from apportion.sim.world.world import World

__all__ = [
    "Checker",
    "Deadlock",
    "Invariant",
    "LeavesTheWorld",
    "Mix",
    "Nemesis",
    "Sink",
    "Violation",
    "VirtualLoop",
    "World",
]


def __getattr__(name: str) -> object:
    if name in {"play", "Report"}:
        return getattr(scenarios("scenario"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
