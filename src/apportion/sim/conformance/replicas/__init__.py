"""The suite that certifies a kind of node: `ReplicaNode` as cases, run by pytest against a rig of the node."""

from apportion.sim.conformance.replicas.rig import NodeRig
from apportion.sim.conformance.replicas.suite import check_node, node_cases

__all__ = ["NodeRig", "check_node", "node_cases"]
