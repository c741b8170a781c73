"""The stores that need no server keep every promise of `CoordinationStore`.

The cases of SQLite that kill processes or wait are marked `slow`.
"""

from apportion.sim.conformance.plugin import certify
from tests.stores.rigs import rig_of
from tests.stores.slow_cases import SLOW

TestMemory = certify(rig_of("memory"))
TestSqlite = certify(rig_of("sqlite"), slow=SLOW)
