"""The stores that need no server keep every promise of `CoordinationStore`."""

from apportion.sim.conformance.plugin import certify
from tests.stores.rigs import rig_of

TestMemory = certify(rig_of("memory"))
TestSqlite = certify(rig_of("sqlite"))
