"""Every kind of node passes the suite, and each broken node fails at least three of its cases."""

import pytest

from apportion.errors import ApportionError
from apportion.sim.conformance.replicas.plugin import certify_nodes
from apportion.sim.conformance.replicas.suite import check_node, node_cases
from tests.shards.replicas.rigs import (
    ForgetsFences,
    ForgetsMarks,
    LastArrivalWins,
    MemoryRig,
    SaysStored,
    SqliteRig,
    broken_rig,
)

TestMemory = certify_nodes(MemoryRig)
TestSqlite = certify_nodes(SqliteRig)


def test_the_suite_has_a_case_for_each_promise():
    assert len(node_cases()) >= 36


@pytest.mark.parametrize("kind", [LastArrivalWins, SaysStored, ForgetsFences, ForgetsMarks])
def test_a_broken_node_fails_at_least_three_cases(kind):
    failed = []
    for case in node_cases():
        try:
            check_node(case, broken_rig(kind)())
        except (AssertionError, ApportionError):
            failed.append(case.name)
    assert len(failed) >= 3, failed
