"""Kafka's default partitioner: which partition of a topic a keyed record goes to.

Promises: the partition that Kafka's Java client and librdkafka's `murmur2` partitioner choose for the same bytes;
equal shares.
Refuses: weights, preference lists, and stable keys. The partition is the hash modulo the number of partitions. When n
becomes n + 1, all but one in n + 1 of the keys move. Kafka never moves the existing records, so a key's older records
stay behind. Create the topic anew, or route by `jump` or `ring` and name the partition yourself.

Format: (murmur2(key) & 0x7fffffff) % partitions; murmur2 is MurmurHash2 of 32 bits with hash seed 0x9747b28c. A key
becomes bytes as everywhere in this library (see `keys`). Kafka's StringSerializer and UUIDSerializer write the same
bytes. Its LongSerializer writes 8 bytes big-endian (`n.to_bytes(8, "big", signed=True)`), but an int given here is
little-endian. Records without a key are spread by other rules. The default of librdkafka itself is another function.

Source: `Utils.murmur2` and `BuiltInPartitioner` of Apache Kafka; MurmurHash2, A. Appleby 2008.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from struct import unpack_from
from typing import ClassVar, Self

from apportion import native
from apportion.errors import CannotPlace, InvalidInput
from apportion.model.plan import Key
from apportion.model.topology import MAX_NODES, Topology
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import Digest
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.computed import Computed, equal_weights

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 2**32 - 1
_POSITIVE = 2**31 - 1


def partition(key: Key, partitions: int) -> int:
    """Return the partition of a key, 0 <= partition < partitions. O(length).

    >>> partition(b"key", 12), partition("key", 12)
    (1, 1)
    """
    if type(partitions) is not int or not 0 < partitions < 2**31:
        raise InvalidInput(
            "partitions", partitions, "an int in 1 .. 2**31 - 1", "Pass the number of partitions of the topic."
        )
    return (_unsigned(key_bytes(key)) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """Return the hash as a signed integer of 32 bits, as Kafka does. O(length).

    >>> murmur2(b"21"), murmur2(b"foobar")
    (-973932308, -790332482)
    """
    return (_unsigned(data) ^ 2**31) - 2**31


def _unsigned(data: bytes) -> int:
    words, rest = divmod(len(data), 4)
    state = _SEED ^ len(data)
    for word in unpack_from(f"<{words}I", data):
        mixed = word * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ ((mixed ^ mixed >> 24) * _MULTIPLIER & _MASK)
    if rest:
        state = (state ^ int.from_bytes(data[-rest:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15


@dataclass(frozen=True, slots=True)
class Murmur2:
    """The hasher: murmur2 as an unsigned integer."""

    label: str = "kafka-murmur2"
    bits: int = 32
    digest: Digest = _unsigned
    has_twin: ClassVar[bool] = True

    def __call__(self, data: bytes) -> int:
        """Return the hash of `data`, 0 <= hash < 2**32. O(length)."""
        return self.digest(data)


HASHER = Murmur2()


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Kafka(Computed):
    """A topic with node i as partition i, in the order given (a topology gives its own, by id). Lookup: O(1).

    >>> topic = Kafka([f"mail-{number}" for number in range(12)])
    >>> topic.route("key"), topic.order[1]
    ('mail-1', 'mail-1')
    """

    order: tuple[str, ...]
    _indexes: tuple[int, ...]

    def __init__(self, nodes: Nodes) -> None:
        if isinstance(nodes, (set, frozenset)):
            raise InvalidInput(
                "nodes", nodes, "nodes in an order", "A set has none and partitions are numbered: pass a list."
            )
        # A generator can be read only once, but both the order and the topology come from it.
        listed = tuple(islice(nodes, MAX_NODES + 1)) if isinstance(nodes, Iterator) else nodes
        topology = topology_of(listed)
        self._fill_in_order(topology, (node if isinstance(node, str) else node.id for node in listed))

    def _fill_in_order(self, topology: Topology, ids: Iterable[str]) -> None:
        owning = {node.id for node in equal_weights(topology, "Kafka's partitioner")}
        order = tuple(node_id for node_id in ids if node_id in owning)
        self._fill(topology, HASHER)
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "_indexes", tuple(topology.index(node_id) for node_id in order))

    def _make_twin(self) -> "native.extension.Chooser":
        return native.extension.Chooser.kafka(self.topology.ids, self.hasher, self._indexes)

    def _owner(self, key_hash: int) -> int:
        return self._indexes[(key_hash & _POSITIVE) % len(self._indexes)]

    def explain(self, key: Key) -> Explanation:
        """Return the number of the partition, and the partition of the key with one partition fewer."""
        key_hash = self._hash(key_bytes(key))
        number, partitions = partition(key, len(self.order)), len(self.order)
        is_last = number == partitions - 1 and number > 0
        return Explanation(
            key=key,
            placement="kafka",
            hasher=self.hasher.label,
            hash=key_hash,
            range=None,
            owner=self.order[number],
            why=f"(hash & 0x7fffffff) % {partitions} = {number}; a change of {partitions} moves nearly every key",
            next=(),
            if_owner_left=self.order[partition(key, partitions - 1)] if is_last else None,
        )

    def on(self, topology: Topology) -> Self:
        """Return the topic on a topology that differs only at the end of the order; nearly every key moves.

        New nodes are appended, sorted by id. Raises `CannotPlace` if a node leaves from elsewhere than the end of the
        order: the nodes after it would get new numbers.
        """
        owning = dict.fromkeys(node.id for node in equal_weights(topology, "Kafka's partitioner"))
        kept = [node_id for node_id in self.order if node_id in owning]
        for node_id, expected in zip(kept, self.order, strict=False):
            if node_id != expected:
                raise CannotPlace(
                    f"partition {expected!r} leaves from the middle, which would renumber those after it.",
                    "Build it again, Kafka([...]), or remove partitions from the end; Kafka itself removes none.",
                )
        return self._in_order(topology, dict.fromkeys([*kept, *owning]))

    @classmethod
    def _in_order(cls, topology: Topology, ids: Iterable[str]) -> Self:
        topic = object.__new__(cls)
        topic._fill_in_order(topology, ids)
        return topic

    def __reduce__(self) -> "tuple[Callable[..., Kafka], tuple[Topology, tuple[str, ...]]]":
        return self._in_order, (self.topology, self.order)

    def __repr__(self) -> str:
        return f"Kafka({self.topology!r}, order={self.order!r}, hasher={self.hasher.label!r})"


SPEC = PlacementSpec(
    name="kafka",
    build=Kafka,
    source="Apache Kafka",
    minimal_disruption=False,
    weighted=False,
    ranked=False,
    tabular=False,
    lookup="O(1)",
    removes="last",
)
