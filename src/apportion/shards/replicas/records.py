"""Records of a map in its control store: the facts that never change, and the table by which processes route.

    replicas/<map>/map      id, number of slots, copies, hasher, grace period; written once
    replicas/<map>/table    number, nodes with zones and URLs, the list of each slot; each change has the next number

Promises: a table is one item, so one commit publishes it whole. A record with a damaged or unknown field raises
`BadSnapshot`; no field is guessed.
Refuses: passwords in URLs. Write `${NAME}`, and each process fills in the value from its environment.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from struct import pack, unpack

from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.codec.parsing import integer, items, pairs, text
from apportion.model.topology import Node, Topology
from apportion.placement.hashers import DEFAULT
from apportion.shards.records import Fields, decoded, encoded, number
from apportion.shards.replicas.slot_lists import Copies
from apportion.shards.replicas.slot_space import SlotSpace
from apportion.shards.shard_url import check_no_password
from apportion.tables.layout import TableKeys

REPLICAS = "replicas/"
_COPY = "Restore the control store from a copy."


@dataclass(frozen=True, slots=True)
class MapKeys:
    """The keys of one map in its control store."""

    name: str

    def __post_init__(self) -> None:
        TableKeys(self.name)  # the same rules for names

    @property
    def prefix(self) -> str:
        """The prefix of all keys of this map, and of no other."""
        return f"{REPLICAS}{self.name}/"

    @property
    def map(self) -> str:
        """The key of the map's own record."""
        return f"{self.prefix}map"

    @property
    def table(self) -> str:
        """The key of the table."""
        return f"{self.prefix}table"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRecord:
    """The facts that never change in a map."""

    id: str
    slots: int
    copies: Copies
    gc_grace: timedelta
    hasher: str = DEFAULT

    def encode(self) -> bytes:
        """Return the record as bytes."""
        copies = self.copies if isinstance(self.copies, int) else dict(self.copies)
        grace = self.gc_grace.total_seconds()
        return encoded({"id": self.id, "slots": self.slots, "copies": copies, "gc_grace": grace, "hasher": self.hasher})

    @classmethod
    def decode(cls, data: bytes) -> "MapRecord":
        """Return the record that bytes hold."""
        fields = Fields(decoded(data, "map"), "id", "slots", "copies", "gc_grace", "hasher")
        return cls(
            id=fields.read("id", text),
            slots=fields.read("slots", lambda value: SlotSpace(integer(value)).slots),
            copies=fields.read("copies", _copies),
            gc_grace=fields.read("gc_grace", lambda value: timedelta(seconds=number(value))),
            hasher=fields.read("hasher", text),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTable:
    """The table of a map under one number: its nodes, their URLs, and the list of each slot, by index of the node."""

    number: int
    topology: Topology
    urls: Mapping[str, str]
    rows: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls, number: int, topology: Topology, urls: Mapping[str, str], lists: Sequence[Sequence[str]]
    ) -> "ReplicaTable":
        """Return the table of lists of node ids."""
        rows = tuple(tuple(topology.index(node) for node in owners) for owners in lists)
        return cls(number=number, topology=topology, urls=dict(urls), rows=rows)

    def owners(self, slot: int) -> tuple[str, ...]:
        """Return the nodes that hold the copies of a slot, in the order of its list. O(copies)."""
        ids = self.topology.ids
        return tuple(ids[index] for index in self.rows[slot])

    @property
    def datacenters(self) -> dict[str, str]:
        """The data centre of each node that has a zone: its first level."""
        return {node.id: node.zone[0] for node in self.topology if node.zone}

    def encode(self) -> bytes:
        """Return the table as bytes: 2 bytes for each copy of a slot, and some for each node."""
        nodes = [
            {"id": node.id, "zone": list(node.zone), "weight": node.weight, "url": self.urls[node.id]}
            for node in self.topology
        ]
        width = len(self.rows[0])
        flat = [index for row in self.rows for index in row]
        lists = b64encode(pack(f">{len(flat)}H", *flat)).decode()
        return encoded({"number": self.number, "nodes": nodes, "width": width, "lists": lists})

    @classmethod
    def decode(cls, data: bytes) -> "ReplicaTable":
        """Return the table that bytes hold."""
        fields = Fields(decoded(data, "table"), "number", "nodes", "width", "lists")
        nodes = fields.read("nodes", lambda value: [_node(each) for each in items(value)])
        topology = Topology([node for node, _ in nodes])
        width, flat = fields.read("width", integer), fields.read("lists", _indexes)
        if not 0 < width <= len(topology) or len(flat) % width or any(index >= len(topology) for index in flat):
            raise BadSnapshot("field lists", f"{len(flat)} indexes", f"lists of {width} known nodes", _COPY)
        rows = tuple(tuple(flat[start : start + width]) for start in range(0, len(flat), width))
        urls = {node.id: url for node, url in nodes}
        return cls(number=fields.read("number", integer), topology=topology, urls=urls, rows=rows)


def _copies(value: object) -> Copies:
    if isinstance(value, int):
        return integer(value)
    return {name: integer(count) for name, count in pairs(value).items()}


def _node(value: object) -> tuple[Node, str]:
    form = pairs(value)
    if form.keys() != {"id", "zone", "weight", "url"}:
        raise BadSnapshot("node of a table", sorted(form), "the fields id, url, weight, zone", _COPY)
    zone = tuple(map(text, items(form["zone"])))
    url = text(form["url"])
    check_no_password(url, "URL of a node")
    return Node(text(form["id"]), zone=zone, weight=number(form["weight"])), url


def _indexes(value: object) -> tuple[int, ...]:
    try:
        data = b64decode(text(value), validate=True)
    except (Base64Error, ValueError) as error:
        raise InvalidInput("lists", value, "base64 of pairs of bytes", _COPY) from error
    if len(data) % 2:
        raise InvalidInput("lists", value, "an even number of bytes", _COPY)
    return unpack(f">{len(data) // 2}H", data)
