"""A store keeps its promises also where users hold it: in their own event loop, while it runs on the I/O thread."""

import pytest

from apportion.sim.conformance.plugin import certify
from tests.stores.rigs import rig_of

pytestmark = pytest.mark.slow

TestSqliteOnTheThread = certify(rig_of("sqlite_thread"))
