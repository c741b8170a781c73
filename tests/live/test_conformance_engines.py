"""Stores on real engines keep every promise of `CoordinationStore`, or say which they do not make."""

import pytest

from apportion.sim.conformance.plugin import certify
from tests.stores.rigs import rig_of

pytestmark = pytest.mark.live

TestPostgres = certify(rig_of("postgres"))
TestEtcd = certify(rig_of("etcd"))
TestRedis = certify(rig_of("redis"))
