"""NodeStage: a fenced node for one case, and short forms for entries and answers."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.nodes.api import EntryAnswer, KeyState, ReadAnswer
from apportion.shards.replicas.nodes.connect import OpenedNode
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.slot_space import SlotSpace
from apportion.shards.replicas.version import EntryVersion
from apportion.sim.conformance.expect import holds
from apportion.sim.conformance.replicas.rig import NodeRig

MAP = NodeMap(name="flags", id="11aa", space=SlotSpace(4))
FIRST = 10
TABLE = b"table 10"


@dataclass(frozen=True, slots=True)
class NodeStage:
    """A node that was fenced with number 10 for one map, and the rig for more handles."""

    rig: NodeRig
    exits: AsyncExitStack
    node: OpenedNode

    def open(self, of: NodeMap = MAP) -> OpenedNode:
        """Return one more handle, which the end of the case closes."""
        node = self.rig.open(of)
        self.exits.push_async_callback(node.close)
        return node

    async def put(self, key: str, at_ms: int, value: bytes | None = b"on", *, number: int = FIRST) -> EntryAnswer:
        """Send a put of one entry; return its answer."""
        (answer,) = await self.node.apply([entry(key, at_ms, value)], number=number)
        return answer

    async def copy(self, key: str, at_ms: int, value: bytes | None = b"on", *, number: int = FIRST) -> EntryAnswer:
        """Send a copy of one entry; return its answer."""
        (answer,) = await self.node.apply([entry(key, at_ms, value)], number=number, copy=True)
        return answer

    async def state(self, key: str, *, number: int = FIRST) -> KeyState:
        """Return the state of a key."""
        answer = await self.read(key, number=number)
        holds(isinstance(answer, KeyState), f"a read under number {number} is answered: {answer}")
        assert isinstance(answer, KeyState)  # noqa: S101 - for type checkers; the line above fails first
        return answer

    async def read(self, key: str, *, number: int = FIRST) -> ReadAnswer:
        """Return the answer to a read of one key."""
        (answer,) = await self.node.read([key.encode()], number=number)
        return answer


def entry(
    key: str, at_ms: int, value: bytes | None = b"on", *, writer: int = 1, expires_ms: int | None = None
) -> NodeEntry:
    """Return an entry with a version of that time."""
    version = EntryVersion(milliseconds=at_ms, writer=writer)
    return NodeEntry(key=key.encode(), version=version, value=value, expires_ms=expires_ms)


def slot(key: str) -> int:
    """Return the slot of a key."""
    return MAP.space.slot_of(key.encode())
