"""Stores on real engines keep every promise of `CoordinationStore`, or say which they do not make.

All cases are marked `slow`.
"""

from dataclasses import fields

import pytest

from apportion.sim.conformance import cases
from apportion.sim.conformance.plugin import certify
from apportion.stores.etcd import store as etcd
from apportion.stores.postgres import store as postgres
from apportion.stores.redis import store as redis
from tests.stores.rigs import rig_of
from tests.stores.slow_cases import SLOW

TestPostgres = pytest.mark.slow(certify(rig_of("postgres")))
TestEtcd = pytest.mark.slow(certify(rig_of("etcd")))
TestRedis = pytest.mark.slow(certify(rig_of("redis")))


def test_each_slow_case_is_a_case():
    assert set() == SLOW - {each.name for each in cases()}


@pytest.mark.parametrize(
    ("store", "lacks"),
    [
        (etcd.CAPABILITIES, set()),
        (postgres.CAPABILITIES, {"restore_seen"}),
        (redis.CAPABILITIES, {"linearizable", "durable", "fencing", "gapless_watch", "restore_seen"}),
    ],
    ids=["etcd", "postgresql", "redis"],
)
def test_no_engine_is_let_off_a_promise_that_it_made(store, lacks):
    assert lacks == {field.name for field in fields(store) if getattr(store, field.name) is False}
