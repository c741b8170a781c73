"""Creation of a map: its record and its first table in the control store, then the first fence of each node.

Promises: a creation that was killed goes on when the same call runs again. A map that exists with other arguments is
refused, and so is a node that belongs to another map of the name; nothing is changed then.
Refuses: nodes without a URL, URLs without a node, and two nodes in one file or on one server.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from secrets import token_hex

from apportion.errors import Conflict, InvalidInput, StoreUnavailable, UnknownNode
from apportion.model.topology import Topology
from apportion.shards.records import read_record
from apportion.shards.replicas.nodes.connect import NODES_HERE, OpenedNode, connect_node, node_url
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.nodes.rules import refused_map
from apportion.shards.replicas.records import MapKeys, MapRecord, ReplicaTable
from apportion.shards.replicas.slot_lists import Copies, checked_copies, slot_lists
from apportion.shards.replicas.slot_space import SlotSpace
from apportion.stores.api import Absent, Committed, CoordinationStore, Put, Unknown
from apportion.stores.catalog import connect
from apportion.stores.url import StoreUrl

FIRST_NUMBER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCreation:
    """A map to create. `of` checks every argument before any effect."""

    keys: MapKeys
    record: MapRecord
    table: ReplicaTable

    @classmethod
    def of(
        cls,
        name: str,
        *,
        copies: Copies,
        slots: int,
        topology: Topology,
        urls: Mapping[str, str],
        gc_grace: timedelta,
    ) -> "MapCreation":
        """Return a checked creation; its lists are computed. O(slots · nodes)."""
        if not isinstance(topology, Topology):
            raise InvalidInput("topology", topology, "a Topology", 'Write Topology(["a", "b", "c"]).')
        if not isinstance(gc_grace, timedelta) or gc_grace < timedelta(minutes=10):
            hint = "Write timedelta(days=10): the longest time for which a node may be away."
            raise InvalidInput("gc_grace", gc_grace, "a timedelta of at least ten minutes", hint)
        slots = SlotSpace(slots).slots
        copies = checked_copies(copies, topology)
        _check_urls(topology, urls)
        lists = slot_lists(topology, copies, slots)
        record = MapRecord(id=token_hex(8), slots=slots, copies=copies, gc_grace=gc_grace)
        return cls(keys=MapKeys(name), record=record, table=ReplicaTable.of(FIRST_NUMBER, topology, urls, lists))


async def created(url: str, creation: MapCreation) -> None:
    """Create a map in the control store of a URL, and make its nodes nodes of the map."""
    async with AsyncExitStack() as stack:
        store = await connect(url, needs=["fencing"])
        stack.push_async_callback(store.close)
        begun = await _begun(store, creation)
        nodes = await _nodes(stack, begun or creation)
        if begun is None:
            await _commit(store, creation)
        data = (begun or creation).table.encode()
        for node in nodes:
            await node.fence(FIRST_NUMBER, data)


async def _begun(store: CoordinationStore, creation: MapCreation) -> MapCreation | None:
    """Return the creation that an earlier call has begun, None without one."""
    keys = creation.keys
    found = {item.key: item.value for item in (await store.scan(keys.prefix)).items}
    if keys.map not in found or keys.table not in found:
        return None
    record = read_record(keys.map, found[keys.map], MapRecord.decode)
    table = read_record(keys.table, found[keys.table], ReplicaTable.decode)
    same = replace(creation.record, id=record.id) == record and table == creation.table
    if not same:
        hint = "Nothing was changed. Choose another name, or open the map that exists."
        raise InvalidInput("map", keys.name, "a name that no map with other arguments has", hint)
    return replace(creation, record=record, table=table)


async def _nodes(stack: AsyncExitStack, creation: MapCreation) -> list[OpenedNode]:
    """Return handles of all nodes; `InvalidInput` if one of them belongs to another map of the name."""
    record, name = creation.record, creation.keys.name
    of = NodeMap(name=name, id=record.id, space=SlotSpace(record.slots))
    nodes = []
    for node_id, url in sorted(creation.table.urls.items()):
        node = connect_node(url, of, makes=True)
        stack.push_async_callback(node.close)
        found = await node.identity()
        if found.map_id not in (None, record.id):
            raise refused_map(node_id, name, f"a node of the map with the id {found.map_id}")
        nodes.append(node)
    return nodes


async def _commit(store: CoordinationStore, creation: MapCreation) -> None:
    keys = creation.keys
    puts = [Put(key=keys.map, value=creation.record.encode()), Put(key=keys.table, value=creation.table.encode())]
    outcome = await store.commit(when=[Absent(key=each.key) for each in puts], puts=puts)
    if isinstance(outcome, Unknown):
        hint = "The map may exist. Run the same call again: it goes on where this one ended."
        raise StoreUnavailable("the control store", outcome.reason, hint)
    if not isinstance(outcome, Committed):
        hint = "Nothing was changed. Run the same call again: it goes on if the other call had the same arguments."
        raise Conflict(f"map {keys.name} was created by another process meanwhile.", hint)


def _check_urls(topology: Topology, urls: Mapping[str, str]) -> None:
    if not isinstance(urls, Mapping):
        raise InvalidInput("urls", urls, "a mapping of node ids to URLs", 'Write {"a": "sqlite:////srv/a.db"}.')
    for node_id in urls:
        if node_id not in topology:
            raise UnknownNode(node_id, topology.ids)
    places = dict[StoreUrl, str]()
    for node in topology:
        if node.id not in urls:
            hint = "Name the URL of each node of the topology."
            raise InvalidInput("urls", f"no URL of {node.id}", f"a URL of node {node.id}", hint)
        place = node_url(urls[node.id]) if NODES_HERE.get() is None else StoreUrl(scheme="world", path=urls[node.id])
        if place in places:
            hint = "Give each node a file or a server of its own: together they would be lost together."
            raise InvalidInput(f"URL of node {node.id}", f"{place}", f"another one than that of {places[place]}", hint)
        places[place] = node.id
