"""Kafka's default partitioner: which partition of a topic a keyed record goes to.

Promises: the partition that Kafka's Java client and librdkafka's `murmur2` partitioner choose for the same bytes;
equal shares.
Refuses: weights, preference lists, and stable keys. The partition is the hash modulo the number of partitions. When n
becomes n + 1, only one key in n + 1 stays. Kafka never moves the existing records, so a key's older records stay
behind. Create the topic anew, or route by `jump` or `ring` and name the partition yourself.
An `int` is 8 bytes little-endian, as everywhere here; Kafka's LongSerializer writes it big-endian.

Format: `docs/algorithms/kafka.md`.
Source: `Utils.murmur2` and `BuiltInPartitioner` of Apache Kafka; MurmurHash2, A. Appleby 2008.
"""

from dataclasses import dataclass
from struct import unpack_from

from apportion import native
from apportion.errors import CannotPlace, InvalidInput
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.placement.api import Nodes, PlacementSpec
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import FixedHasher
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.ordered import Ordered, in_order

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
        hint = "Pass the number of partitions of the topic."
        raise InvalidInput("partitions", partitions, "an int in 1 .. 2**31 - 1", hint)
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


HASHER = FixedHasher("kafka-murmur2", 32, _unsigned)


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Kafka(Ordered):
    """A topic with node i as partition i, in the order given (a topology gives its own, by id). Lookup: O(1).

    >>> topic = Kafka([f"mail-{number}" for number in range(12)])
    >>> topic.route("key"), topic.order[1]
    ('mail-1', 'mail-1')
    """

    _KIND = "Kafka's partitioner"

    def __init__(self, nodes: Nodes) -> None:
        topology, ids = in_order(nodes, "A set has no order, and partitions need one: pass a list.")
        self._fill_in_order(topology, ids, HASHER)

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
            owner=self.order[number],
            why=f"(hash & 0x7fffffff) % {partitions} = {number}; another number of partitions moves nearly every key",
            if_owner_left=self.order[partition(key, partitions - 1)] if is_last else None,
        )

    def _refusal(self, node_id: str) -> CannotPlace:
        return CannotPlace(
            f"partition {node_id!r} leaves from the middle, which would renumber those after it.",
            "Build it again, Kafka([...]), or remove partitions from the end; Kafka itself removes none.",
        )


SPEC = PlacementSpec(
    name="kafka",
    build=Kafka,
    source="Apache Kafka",
    lookup="O(1)",
    removes="last",
)
