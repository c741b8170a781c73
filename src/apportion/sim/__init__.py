"""Sim: a seeded world with virtual time and faults, and the suites that stores are certified with."""

from apportion.sim.invariants import Checker, Invariant, Violation
from apportion.sim.loop import Deadlock, VirtualLoop
from apportion.sim.nemesis import Mix, Nemesis
from apportion.sim.refusal import LeavesTheWorld
from apportion.sim.scenario import Report, play
from apportion.sim.sink import Sink, SinkToken
from apportion.sim.world import World

__all__ = [
    "Checker",
    "Deadlock",
    "Invariant",
    "LeavesTheWorld",
    "Mix",
    "Nemesis",
    "Report",
    "Sink",
    "SinkToken",
    "Violation",
    "VirtualLoop",
    "World",
    "play",
]
