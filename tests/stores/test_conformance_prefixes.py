"""A prefix store keeps every promise of `CoordinationStore` for the names of each prefix, or says that it does not."""

import pytest

from apportion.sim.conformance import context
from apportion.sim.conformance.plugin import certify
from tests.stores.rigs import rig_of
from tests.stores.rigs.memory import MemoryRig
from tests.stores.rigs.prefixes import PrefixRig
from tests.stores.rigs.sqlite import SqliteRig
from tests.stores.slow_cases import SLOW

OTHERS, EVENTS = "users", "events-1"


@pytest.fixture(autouse=True)
def other_processes_have_a_prefix_store_too(monkeypatch):
    monkeypatch.setattr(context, "_MEMBER", "tests.stores.prefix_member")


def on_memory(name):
    return lambda: PrefixRig(MemoryRig(), MemoryRig(), name)


def on_sqlite(name):
    return lambda: PrefixRig(SqliteRig(), SqliteRig(), name)


TestMemoryOfOthers = certify(on_memory(OTHERS))
TestMemoryOfEvents = certify(on_memory(EVENTS))
TestSqliteOfOthers = pytest.mark.soak(certify(on_sqlite(OTHERS), slow=SLOW))
TestSqliteOfEvents = certify(on_sqlite(EVENTS), slow=SLOW)


def on_etcd(name):
    return lambda: PrefixRig(rig_of("etcd")(), rig_of("etcd")(), name)


TestEtcdOfEvents = pytest.mark.soak(certify(on_etcd(EVENTS)))
