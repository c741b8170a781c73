"""The class of tests that runs the suite of a node by pytest: one test per case.

TestMyNode = certify_nodes(MyRig)      # in a file of tests
"""

from collections.abc import Callable

import pytest

from apportion.sim.conformance.replicas.case import NodeCase
from apportion.sim.conformance.replicas.rig import NodeRig
from apportion.sim.conformance.replicas.suite import check_node, node_cases


def certify_nodes(rig: Callable[[], NodeRig]) -> type:
    """Return a class of tests that runs every case, each against a new rig."""

    class NodeConformance:
        """All cases against one kind of node."""

        @pytest.mark.parametrize("case", [pytest.param(each, id=each.name.replace(" ", "_")) for each in node_cases()])
        def test(self, case: NodeCase) -> None:
            """Run one case."""
            check_node(case, rig())

    return NodeConformance
