"""Slots of a set: a key's hash picks one of a fixed number of slots, and the published table names the shard of each.

The table names each partition by its slot: `"17"`, or `"9000=acme"` for a key that has a slot of its own. In a set by
ranges, `"17[m,t)"` is the slot of the keys from "m" up to "t". Keys are percent-encoded there. So the table is
published like any other assignment, and a follower needs no second format.

Promises: an unpinned key has the same slot as in `Slots` with this number of slots and the default hasher.
Refuses: names of any other form, a gap in the slots or ranges, and a slot or key that is named twice.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args
from urllib.parse import quote_from_bytes, unquote_to_bytes

from apportion.errors import BadRange, BadSnapshot, InvalidInput, UnknownOption
from apportion.model.assignment import Assignment
from apportion.model.plan import Key
from apportion.model.rows import NOBODY, Rows
from apportion.model.topology import MAX_NAME_BYTES, Node
from apportion.placement.hashers import DEFAULT, resolve
from apportion.placement.keys.key_bytes import key_bytes
from apportion.shards.ranges.range_map import Bound, RangeBounds, RangeMap, range_map
from apportion.tables.layout import Version

DEFAULT_SLOTS = 4096
MOST_HASH_SLOTS = 8192
MOST_SLOTS = 16_384

ShardKey: TypeAlias = Key | tuple[Key, ...]
"""The value of the shard key of a row, or a tuple of values for several columns."""

SlotRule: TypeAlias = Literal["hash", "lists", "ranges"]
"""The way in which the keys of a set get their slots."""

_hash = resolve(DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTable:
    """One version of a set's table: the shard of each slot, and the keys with slots of their own.

    In a set by ranges, `ranges` has the range of each slot, and `hash_slots` is 1.
    """

    version: Version
    hash_slots: int
    owners: Mapping[int, str | None]
    pinned: Mapping[bytes, int]
    ranges: RangeMap | None = None

    @classmethod
    def of(cls, version: Version, assignment: Assignment) -> "SlotTable":
        """Read a published assignment. `BadSnapshot` if its partitions are not the slots of a set. O(slots)."""
        slots, pinned, ranges, hashed = _numbered(_names(assignment))
        check_hash_slots(hashed)
        ids, nobody = assignment.topology.ids, None
        rows = zip(slots, assignment.rows, strict=True)
        owners = {slot: ids[row[0]] if row else nobody for slot, row in rows}
        if any(slot not in owners for slot in range(hashed)):
            raise _refusal(hashed, f"hash slots 0 .. {hashed - 1}, each named once")
        return cls(version=version, hash_slots=hashed, owners=owners, pinned=pinned, ranges=ranges)

    def slot(self, key: ShardKey) -> int:
        """Return the slot of a key. O(length). `InvalidInput` for a value that cannot be a key."""
        data = shard_key_bytes(key)
        own = self.pinned.get(data) if self.pinned else None
        if own is not None:
            return own
        return _hash(data) * self.hash_slots >> 64 if self.ranges is None else self.ranges.slot(key, data)

    def arrivals(self, older: "SlotTable") -> frozenset[int]:
        """Return the slots with another shard than in an older table. O(slots)."""
        return frozenset(slot for slot, owner in self.owners.items() if older.owners.get(slot) != owner)

    def shard(self, slot: int) -> str:
        """Return the id of the shard that owns a slot. `InvalidInput` if no shard owns it."""
        owner = self.owners.get(slot)
        if owner is None:
            raise InvalidInput("slot", slot, "a slot with a shard", "Look at it: apportion shards status URL SET")
        return owner


def hash_slot(key: ShardKey, count: int) -> int:
    """Return the hash slot of a key, one of `count`. A pinned key has another slot."""
    return _hash(shard_key_bytes(key)) * count >> 64


def shard_key_bytes(key: ShardKey) -> bytes:
    """Return the bytes of a key. For several columns, join the bytes of each value after their length.

    >>> shard_key_bytes(("a", "bc")) == shard_key_bytes(("ab", "c"))
    False
    """
    if not isinstance(key, tuple):
        return key_bytes(key)
    if len(key) < 2:
        raise InvalidInput("key", key, "at least two values in a tuple", "Pass a single value without a tuple.")
    parts = [key_bytes(part) for part in key]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def partition_of(slot: int, key: bytes | None = None, bounds: RangeBounds | None = None) -> str:
    """Return the name of a slot in the published table.

    >>> partition_of(17), partition_of(9000, b"acme & co"), partition_of(17, bounds=RangeBounds(start="m", end="t"))
    ('17', '9000=acme%20%26%20co', '17[m,t)')
    """
    if bounds is not None:
        return f"{slot}{bounds}"
    return str(slot) if key is None else f"{slot}={quote_from_bytes(key, safe='')}"


FIRST_RANGE = partition_of(0, bounds=RangeBounds())
"""The name of the only slot of a new set by ranges."""


def partitions(hash_slots: int, pinned: Mapping[bytes, int]) -> tuple[str, ...]:
    """Return the names of all slots, the hash slots first."""
    own: Iterable[tuple[int, bytes]] = sorted((slot, key) for key, slot in pinned.items())
    return (*map(partition_of, range(check_hash_slots(hash_slots))), *(partition_of(slot, key) for slot, key in own))


def shifted(assignment: Assignment, slots: Iterable[int], shard: Node) -> Assignment:
    """Return the assignment in which a shard owns these slots. A shard that the assignment lacks is added."""
    wanted = set(slots)
    old, laid = assignment.topology, Rows.of(assignment.rows)
    topology = old if shard.id in old.ids else old.add(shard)
    places = [topology.index(each) for each in old.ids]
    buffer, width = laid.buffer[:], laid.width
    if places != [*range(len(places))]:
        buffer = array("I", [each if each == NOBODY else places[each] for each in buffer])
    row = array("I", [topology.index(shard.id), *repeat(NOBODY, width - 1)])
    for place, slot in enumerate(_numbered(_names(assignment))[0]):
        if slot in wanted:
            buffer[place * width : (place + 1) * width] = row
    return Assignment(topology=topology, rows=Rows(buffer, width=width), names=assignment.names)


def free_slot(table: SlotTable, taken: Collection[int] = ()) -> int:
    """Return the lowest number that is free for the slot of a pinned key. `InvalidInput` if none is left.

    `taken` are slots that are not in the table yet, because they are on their way.
    """
    numbers = range(table.hash_slots, MOST_SLOTS)
    slot = next((each for each in numbers if each not in table.owners and each not in taken), None)
    if slot is None:
        most = MOST_SLOTS - table.hash_slots
        raise InvalidInput("pinned keys", len(table.pinned), f"fewer than {most}", "Leave the key in its hash slot.")
    return slot


def check_pinnable(key: ShardKey) -> bytes:
    """Return the bytes of a key that can have its own slot. `InvalidInput` for a key too long for a table."""
    data = shard_key_bytes(key)
    if len(partition_of(MOST_SLOTS, data)) > MAX_NAME_BYTES:
        expected = f"one with at most {MAX_NAME_BYTES - len(partition_of(MOST_SLOTS, b''))} bytes, percent-encoded"
        raise InvalidInput("key to pin", key, expected, "Leave such a long key in its hash slot.")
    return data


def with_own_slot(assignment: Assignment, slot: int, key: bytes, shard: str) -> Assignment:
    """Return the assignment in which a key has its own slot, on a shard of the assignment."""
    topology, lists = assignment.topology, assignment.preference_lists
    rows = [tuple(map(topology.index, row)) for row in lists.values()]
    names = (*lists, partition_of(slot, key))
    return Assignment(topology=topology, rows=(*rows, (topology.index(shard),)), names=names)


def with_part(assignment: Assignment, slot: int, at: Bound, own: int, shard: str) -> Assignment:
    """Return the assignment in which the keys of a slot from a bound on have the slot `own`, on a shard.

    `BadRange` for a bound that does not divide the range of the slot, or that is too long for a table.
    """
    ranges = ranges_of(assignment).split(slot, at, own)
    for each in (slot, own):
        if len(name := partition_of(each, bounds=ranges.bounds[each])) > MAX_NAME_BYTES:
            expected = f"one with which range {name} has at most {MAX_NAME_BYTES} bytes"
            raise BadRange("boundary of the split", at, expected, "Take a shorter key: its beginning divides as well.")
    topology, lists = assignment.topology, assignment.preference_lists
    rows = {_renamed(name, ranges): tuple(map(topology.index, row)) for name, row in lists.items()}
    rows[partition_of(own, bounds=ranges.bounds[own])] = (topology.index(shard),)
    return Assignment(topology=topology, rows=tuple(rows.values()), names=tuple(rows))


def without_own_slot(assignment: Assignment, slot: int) -> Assignment:
    """Return the assignment without a slot. Its key goes back to its hash slot, and its range to the range before."""
    topology = assignment.topology
    ranges = _numbered(_names(assignment))[2]
    left = ranges.without(slot) if ranges is not None and slot in ranges.bounds else ranges
    kept = {name: row for name, row in assignment.preference_lists.items() if _read(name)[0] != slot}
    rows = [tuple(map(topology.index, row)) for row in kept.values()]
    return Assignment(topology=topology, rows=rows, names=tuple(_renamed(name, left) for name in kept))


def ranges_of(assignment: Assignment) -> RangeMap:
    """Return the ranges of an assignment. `InvalidInput` for a set by hash."""
    return checked_ranges(_numbered(_names(assignment))[2])


def checked_ranges(ranges: RangeMap | None) -> RangeMap:
    """Return ranges that are there. `InvalidInput` for a set by hash."""
    if ranges is None:
        hint = "Give a key a slot of its own: apportion shards isolate URL SET KEY"
        raise InvalidInput("set", "one by hash or by lists", "one made with shards init --by ranges", hint)
    return ranges


def _renamed(name: str, ranges: RangeMap | None) -> str:
    """Return the name of a partition with the range that its slot has in a map."""
    slot, key, bounds = _read(name)
    return name if bounds is None or ranges is None else partition_of(slot, key, ranges.bounds[slot])


def check_hash_slots(count: object) -> int:
    """Return a checked number of hash slots: a power of two, at most 8 192."""
    if type(count) is not int or not 0 < count <= MOST_HASH_SLOTS or count & (count - 1):
        expected = f"a power of two, at most {MOST_HASH_SLOTS}"
        raise InvalidInput("slots", count, expected, f"It is fixed for the life of a set; take {DEFAULT_SLOTS}.")
    return count


def slots_by(by: SlotRule, slots: int | None) -> int:
    """Return the number of hash slots of a new set. A set by lists or ranges begins with one slot."""
    if by not in get_args(SlotRule):
        raise UnknownOption("by", by, get_args(SlotRule))
    if by == "hash":
        return check_hash_slots(DEFAULT_SLOTS if slots is None else slots)
    if slots not in (None, 1):
        raise InvalidInput(
            "slots", slots, f"no number of hash slots with {by}", "Leave it out. The set begins with one."
        )
    return 1


def _names(assignment: Assignment) -> tuple[str, ...]:
    return assignment.names or tuple(assignment.preference_lists)


@lru_cache(maxsize=4)
def _numbered(names: tuple[str, ...]) -> tuple[tuple[int, ...], Mapping[bytes, int], RangeMap | None, int]:
    """Return the slots of partitions, the pinned keys, the ranges if there are any, and the number of hash slots.

    The result is cached: a switch changes no name, and all programs read the new table while writers wait.
    """
    slots: dict[int, bytes | None] = {}
    pinned: dict[bytes, int] = {}
    bounds: dict[int, RangeBounds] = {}
    for name in names:
        slot, key, range_bounds = _read(name)
        if slot in slots or key in pinned:
            raise _refusal(name, "a slot and a key that no other partition names")
        slots[slot] = key
        if key is not None:
            pinned[key] = slot
        if range_bounds is not None:
            bounds[slot] = range_bounds
    hashed = len(slots) - len(pinned)
    if not bounds:
        return tuple(slots), MappingProxyType(pinned), None, hashed
    if len(bounds) != hashed:
        plain = next(name for name in names if _read(name)[1:] == (None, None))
        raise _refusal(plain, "a range in each name, as in the other ones")
    return tuple(slots), MappingProxyType(pinned), range_map(bounds), 1


def _read(name: str) -> tuple[int, bytes | None, RangeBounds | None]:
    digits = name.partition("=")[0].partition("[")[0]
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 6 and str(int(digits)) == digits):
        raise _refusal(name, "a slot, such as 17, 9000=acme or 17[m,t)")
    slot, rest = int(digits), name.removeprefix(digits)
    if slot >= MOST_SLOTS:
        raise _refusal(name, f"a slot below {MOST_SLOTS}")
    if not rest.startswith("["):
        return slot, unquote_to_bytes(rest[1:]) if rest else None, None
    try:
        return slot, None, RangeBounds.of(rest)
    except BadRange as error:
        raise _refusal(name, "a range such as 17[m,t)") from error


def _refusal(found: object, expected: str) -> BadSnapshot:
    return BadSnapshot("partition of a set's table", found, expected, "Publish the table of the set again.")
