"""NodeRig: a kind of node that the suite may open several times, for one map or another."""

from abc import ABC, abstractmethod

from apportion.shards.replicas.nodes.connect import OpenedNode
from apportion.shards.replicas.nodes.node_map import NodeMap


class NodeRig(ABC):
    """One node with its data, empty at first. A rig serves one case, and has one event loop."""

    name: str
    keeps_data: bool

    @abstractmethod
    def open(self, of: NodeMap) -> OpenedNode:
        """Return a new handle for a map; several may be open. With `keeps_data`, data outlives all handles."""

    @abstractmethod
    async def close(self) -> None:
        """Remove the data."""
