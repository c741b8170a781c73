"""Nodes of a map in a world: memory nodes behind the world's network, with troubles of their own for each.

A process of the world finds them when `NODES_HERE` is set to `WorldNodes.here(name)` in its coroutine; then the shipped
`open_map` runs unchanged. A request may be lost, late, or carried out with its answer lost. A node that is down answers
nothing, and keeps its data: it is durable.

Promises: each call of a node is one step of the world. Every event of every map is added to `history`.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.map_events import MapEvent
from apportion.shards.replicas.nodes.api import (
    EntryAnswer,
    NodeIdentity,
    PartDigest,
    PurgeKind,
    ReadAnswer,
    ReplicaNode,
    StaleNumber,
)
from apportion.shards.replicas.nodes.connect import NodesHere, OpenedNode
from apportion.shards.replicas.nodes.memory import MemoryData, MemoryNode
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.slot_space import SlotPart
from apportion.sim.replicas.history import MapHistory
from apportion.sim.world.troubles import Troubles
from apportion.sim.world.wire import FaultyWire
from apportion.sim.world.world import World

Result = TypeVar("Result")


class WorldNodes:
    """The nodes of a world, by URL; a node begins to exist when its URL is first used."""

    history: MapHistory

    def __init__(self, world: World) -> None:
        self.world = world
        self.history = MapHistory()
        self.troubles: dict[str, Troubles] = {}
        self.data: dict[str, MemoryData] = {}
        self.numbers: count[int] = count(1)

    def here(self, process: str) -> NodesHere:
        """Return the nodes as one life of a process finds them."""
        return _NodesOfProcess(self, process, next(self.numbers))

    def add(self, url: str) -> None:
        """Let a node exist."""
        if url in self.data:
            return
        world, place = self.world, f"node {url}"
        self.data[url] = MemoryData(life=url)
        self.troubles[url] = Troubles(
            world.draws(place), world.network, world.trace, record=lambda _: None, place=place
        )
        world.network.places.add(place)
        world.network.databases.add(place)

    def stop(self, url: str, seconds: float) -> None:
        """Let a node answer nothing for some time. Messages on their way to it are lost; its data stays."""
        troubles = self.troubles[url]
        troubles.cut()
        troubles.away_until = self.world.now + seconds
        trace = self.world.trace
        trace.say(f"node {url} is down for {seconds:.3f} s")


class _NodesOfProcess(NodesHere):
    """See `NodesHere`."""

    def __init__(self, nodes: WorldNodes, process: str, life: int) -> None:
        self._nodes, self._process, self._life = nodes, process, life

    def connect(self, url: str, of: NodeMap) -> OpenedNode:
        nodes = self._nodes
        nodes.add(url)
        inner = MemoryNode(url, nodes.data[url], of)
        wire = FaultyWire(self._process, nodes.troubles[url], now=nodes.world.now)
        return _NodeThroughWire(inner, wire)

    def tell(self, event: MapEvent) -> None:
        nodes = self._nodes
        nodes.history.take(self._life, event, nodes.world.now)


class _NodeThroughWire(ReplicaNode):
    """A node as a process reaches it; see `ReplicaNode`."""

    def __init__(self, inner: MemoryNode, wire: FaultyWire) -> None:
        self._inner, self._wire = inner, wire

    async def apply(self, entries: Sequence[NodeEntry], *, number: int, copy: bool = False) -> tuple[EntryAnswer, ...]:
        return await self._asked("apply", partial(self._inner.apply, entries, number=number, copy=copy), changes=True)

    async def read(self, keys: Sequence[bytes], *, number: int) -> tuple[ReadAnswer, ...]:
        return await self._asked("read", partial(self._inner.read, keys, number=number))

    async def digest(
        self, parts: Sequence[SlotPart], *, at_most_ms: int, number: int
    ) -> tuple[PartDigest, ...] | StaleNumber:
        return await self._asked("digest", partial(self._inner.digest, parts, at_most_ms=at_most_ms, number=number))

    async def list(self, part: SlotPart, *, after: bytes | None, number: int) -> tuple[NodeEntry, ...] | StaleNumber:
        return await self._asked("list", partial(self._inner.list, part, after=after, number=number))

    async def seal(self, slots: Sequence[int], *, at_ms: int, number: int, clean: bool = False) -> StaleNumber | None:
        perform = partial(self._inner.seal, slots, at_ms=at_ms, number=number, clean=clean)
        return await self._asked("seal", perform, changes=True)

    async def purge(self, slots: Sequence[int], *, kind: PurgeKind, number: int) -> StaleNumber | None:
        return await self._asked("purge", partial(self._inner.purge, slots, kind=kind, number=number), changes=True)

    async def fence(self, number: int, table: bytes) -> StaleNumber | None:
        return await self._asked("fence", partial(self._inner.fence, number, table), changes=True)

    async def identity(self) -> NodeIdentity:
        return await self._asked("identity", self._inner.identity)

    async def close(self) -> None:
        """Do nothing: the world ends connections."""

    async def _asked(self, what: str, perform: Callable[[], Awaitable[Result]], *, changes: bool = False) -> Result:
        return await self._wire.certain(what, perform, changes=changes)
