"""The suite that certifies a store: `CoordinationStore` as cases, run by pytest against a rig of the store."""

from apportion.sim.conformance.case import Case
from apportion.sim.conformance.rig import Impossible, Rig
from apportion.sim.conformance.suite import cases, check

__all__ = ["Case", "Impossible", "Rig", "cases", "check"]
