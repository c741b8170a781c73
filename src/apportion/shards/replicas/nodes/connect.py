"""The node of a URL: `sqlite:////srv/flags.db`, or `memory://name` within this process.

A handle does no I/O before its first call, so a map can be opened while a node is down.
Refuses: a scheme that no kind of node has, and options that the kind does not use.
"""

from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from apportion.errors import InvalidInput
from apportion.shards.replicas.map_events import MapEvent
from apportion.shards.replicas.nodes.api import ReplicaNode
from apportion.shards.replicas.nodes.memory import MemoryData, MemoryNode
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.nodes.sqlite.node import SqliteNode
from apportion.stores.url import Part, StoreUrl, parse


class OpenedNode(ReplicaNode, Protocol):
    """A handle of a node, which its opener closes."""

    async def close(self) -> None:
        """Close the connections of this handle. May be called twice."""


class NodesHere(Protocol):
    """The nodes that a simulated process finds, and the listener to its calls."""

    def connect(self, url: str, of: NodeMap) -> OpenedNode:
        """Return a handle of a node of the world."""

    def tell(self, event: MapEvent) -> None:
        """Take an event of a call."""


NODES_HERE: ContextVar[NodesHere | None] = ContextVar("nodes_here", default=None)
"""The nodes of a simulated process. None in a real process."""

_MEMORY: dict[str, MemoryData] = {}


def connect_node(url: str, of: NodeMap, *, makes: bool = False) -> OpenedNode:
    """Return a handle of a node, without I/O. With `makes`, its first call makes the file that a URL names."""
    here = NODES_HERE.get()
    if here is not None:
        return here.connect(url, of)
    parsed = node_url(url)
    return _KINDS[parsed.scheme](parsed, of, makes)


def node_url(url: str) -> StoreUrl:
    """Return the parts of the URL of a node; `UnknownOption` or `InvalidInput` names the mistake."""
    parsed = parse(url, schemes=_KINDS)
    part: Part = "path" if parsed.scheme == "sqlite" else "host"
    parsed.expect(options=(), parts=(part,))
    if not (parsed.path if part == "path" else parsed.host):
        hint = "Write for example sqlite:////srv/flags.db"
        raise InvalidInput("URL of a node", f"{parsed}", f"one that names a {part}", hint)
    return parsed.canonical()


def _sqlite(url: StoreUrl, of: NodeMap, makes: bool) -> OpenedNode:
    return SqliteNode(Path(url.path), of, makes=makes)


def _memory(url: StoreUrl, of: NodeMap, makes: bool) -> OpenedNode:  # noqa: ARG001 - there is no file to make
    return MemoryNode(f"{url}", _MEMORY.setdefault(url.host, MemoryData(life=url.host)), of)


_KINDS: dict[str, Callable[[StoreUrl, NodeMap, bool], OpenedNode]] = {"memory": _memory, "sqlite": _sqlite}
