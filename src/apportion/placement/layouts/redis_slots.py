"""Redis Cluster's 16 384 slots, to the bit: CRC16 of a key's hash tag picks the slot, and an assignment its owner.

Promises: the slot that `CLUSTER KEYSLOT` answers, for every key; owners change only where the assignment does.
Refuses: another number of slots, another hash, and to assign (this is a kind of `slots`; see there).
An `int` is hashed as its 8 bytes, as everywhere here. If Redis stores it as digits, pass `str(number)`.

Format: `docs/algorithms/redis_slots.md`.
Source: Redis Cluster specification, section "Hash tags" and appendix A.
"""

from binascii import crc_hqx
from dataclasses import dataclass, replace
from typing import Self

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.model.token import Slot
from apportion.placement.api import Nodes, PlacementSpec
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import FixedHasher, Hasher
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.slots import Slots, assigned

SLOTS = 16_384


def slot(key: Key) -> Slot:
    """Return the slot of a key in Redis Cluster, 0 <= slot < 16384. O(length).

    >>> slot("{user1}.name") == slot("user1"), slot("123456789") == 0x31c3, slot("{}a") == slot("a")
    (True, True, False)
    """
    return slot_of_bytes(key_bytes(key))


def hash_tag(key: bytes) -> bytes:
    """Return the part of a key that is hashed.

    >>> hash_tag(b"{user1}.name"), hash_tag(b"a{{b}}c"), hash_tag(b"{}a"), hash_tag(b"a{b")
    (b'user1', b'{b', b'{}a', b'a{b')
    """
    start = key.find(b"{") + 1
    end = key.find(b"}", start) if start else -1
    return key[start:end] if end > start else key


def slot_of_bytes(key: bytes) -> Slot:
    """Return the slot of the bytes of a key, of any length. O(length)."""
    return crc_hqx(hash_tag(key), 0) % SLOTS


HASHER = FixedHasher("redis-slot", 14, slot_of_bytes)


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class RedisSlots(Slots):
    """The slots of a Redis Cluster over an assignment of all of them. Build: O(slots). Lookup: O(log slots).

    >>> from apportion import Topology, balance
    >>> cluster = RedisSlots(balance.slots(Topology(["a", "b", "c"]), count=SLOTS))
    >>> cluster.slot("{user1}.name"), cluster.route("{user1}.name") == cluster.route("{user1}.mail")
    (8106, True)
    """

    def __init__(self, assignment: Assignment | Nodes, *, hasher: str | Hasher = HASHER) -> None:
        if hasher != HASHER:
            label = hasher if isinstance(hasher, str) else getattr(hasher, "label", hasher)
            hint = "Leave it out, or take Slots with a hasher."
            raise InvalidInput("hasher", label, "none: Redis Cluster prescribes its own", hint)
        assignment = assigned(assignment, count=SLOTS)
        if len(assignment.rows) != SLOTS:
            hint = f"Make one: balance.slots(topology, count={SLOTS})."
            raise InvalidInput("slots of the assignment", len(assignment.rows), f"{SLOTS}, as Redis Cluster has", hint)
        # Not super(): a dataclass with slots replaces the class in which its methods were written.
        Slots.__init__(self, assignment, hasher=HASHER)

    def explain(self, key: Key) -> Explanation:
        """Return the hash tag, the slot and the owner of a key."""
        data = key_bytes(key)
        explained, tag = Slots.explain(self, key), hash_tag(data)
        hashed = "of the whole key" if tag == data else f"of the {len(tag)} bytes of its hash tag"
        return replace(explained, placement="redis_slots", why=f"CRC16 {hashed}: {explained.why}")

    @classmethod
    def of_table(cls, table: Table, *, hasher: str | Hasher = HASHER) -> Self:
        """Return the slots that a saved table was made of; `InvalidInput` if it was made of others. O(slots)."""
        assigned = Slots.of_table(table, hasher=hasher).assignment
        return cls(assigned, hasher=hasher)


SPEC = PlacementSpec(
    name="redis_slots",
    build=RedisSlots,
    source="Redis Cluster specification",
    minimal_disruption=True,
    weighted=True,
    tabular=True,
    lookup="O(log tokens)",
    takes="assignment",
)
