"""Stores on real engines keep every promise of `CoordinationStore`, or say which they do not make.

All cases of PostgreSQL and etcd are marked `slow`, and those of Redis that restart it, step its clock or wait.
"""

from dataclasses import fields

import pytest

from apportion.sim.conformance import cases
from apportion.sim.conformance.plugin import certify
from apportion.stores.etcd import store as etcd
from apportion.stores.postgres import store as postgres
from apportion.stores.redis import store as redis
from tests.stores.rigs import rig_of

SLOW = {
    "a copy that keeps the identity of its store gives no token twice once it is told",
    "a copy that keeps the identity of its store is seen without a word",
    "a crash begins no new incarnation",
    "a crash ends no lease early",
    "a crash lets no revision be given twice",
    "a crash loses nothing that was acknowledged",
    "a full disk loses nothing that was acknowledged",
    "a handle sees that an old copy was restored",
    "a lease that has ended cannot be renewed",
    "a lease that nobody watches ends where the store decides",
    "a process killed in a commit leaves all of it or nothing",
    "a renewed lease lives on",
    "a restore that is told begins a new incarnation",
    "a scan accepts a store that was restored",
    "a server that is silent keeps nobody waiting",
    "a step of the wall clock changes no order",
    "a step of the wall clock ends no lease",
    "a watch goes on after a crash without gap",
    "a watch sees that an old copy was restored",
    "all keys of a lease go in one change",
    "increments by many processes add up",
    "no lease is given again after a restore",
    "the lease of a killed process ends",
}

TestPostgres = pytest.mark.slow(certify(rig_of("postgres")))
TestEtcd = pytest.mark.slow(certify(rig_of("etcd")))
TestRedis = certify(rig_of("redis"), slow=SLOW)


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
