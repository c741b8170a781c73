"""The memory node: entries within one process. It is the reference for every other kind, and serves tests and worlds.

Promises: the semantics of `ReplicaNode`, in the plainest form. Each call is one step without an await.
Refuses: to survive its process.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.nodes.api import (
    MOST_LISTED,
    EntryAnswer,
    EntryStored,
    KeyState,
    NodeIdentity,
    PartDigest,
    PurgeKind,
    ReadAnswer,
    ReplicaNode,
    StaleNumber,
)
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.nodes.rules import SlotMarks, answer_to, is_purged, refused_map, refused_table
from apportion.shards.replicas.slot_space import SlotPart, SlotSpace


@dataclass(slots=True)
class MapShelf:
    """The entries of one map on a memory node, with its marks, its number and its beat."""

    map_id: str
    number: int = 0
    table: bytes = b""
    beat: int = 0
    entries: dict[int, dict[bytes, NodeEntry]] = field(default_factory=lambda: defaultdict(dict))
    marks: dict[int, SlotMarks] = field(default_factory=lambda: defaultdict(SlotMarks))


@dataclass(slots=True)
class MemoryData:
    """The data of a memory node: a shelf for each map, by name. It outlives the handles of the node."""

    life: str
    is_durable: bool = True
    shelves: dict[str, MapShelf] = field(default_factory=dict)


class MemoryNode(ReplicaNode):
    """A handle of one map on a memory node. `clock_ms` is the node's clock, None for a node without one."""

    def __init__(self, name: str, data: MemoryData, of: NodeMap, *, clock_ms: Callable[[], int] | None = None) -> None:
        self._name, self._data, self._of, self._clock_ms = name, data, of, clock_ms

    async def apply(self, entries: Sequence[NodeEntry], *, number: int, copy: bool = False) -> tuple[EntryAnswer, ...]:
        shelf = self._shelf()
        if number < shelf.number:
            return (StaleNumber(shelf.number),) * len(entries)
        return tuple(self._applied(shelf, entry, copy=copy) for entry in entries)

    async def read(self, keys: Sequence[bytes], *, number: int) -> tuple[ReadAnswer, ...]:
        shelf = self._shelf()
        if number < shelf.number:
            return (StaleNumber(shelf.number),) * len(keys)
        return tuple(self._state(shelf, key) for key in keys)

    async def digest(
        self, parts: Sequence[SlotPart], *, at_most_ms: int, number: int
    ) -> tuple[PartDigest, ...] | StaleNumber:
        shelf = self._shelf()
        if number < shelf.number:
            return StaleNumber(shelf.number)
        return tuple(self._digest(shelf, part, at_most_ms) for part in parts)

    async def list(self, part: SlotPart, *, after: bytes | None, number: int) -> tuple[NodeEntry, ...] | StaleNumber:
        shelf = self._shelf()
        if number < shelf.number:
            return StaleNumber(shelf.number)
        space = self._space
        begin = (-1, b"") if after is None else (space.position(after), after)
        found = ((space.position(each.key), each.key) for each in self._in_part(shelf, part))
        listed = sorted(place for place in found if place > begin)[:MOST_LISTED]
        return tuple(shelf.entries[part.slot][key] for _, key in listed)

    async def seal(self, slots: Sequence[int], *, at_ms: int, number: int, clean: bool = False) -> StaleNumber | None:
        shelf = self._shelf()
        if number < shelf.number:
            return StaleNumber(shelf.number)
        for slot in slots:
            shelf.marks[slot] = shelf.marks[slot].raised(at_ms, clean=clean)
        shelf.beat += 1
        return None

    async def purge(self, slots: Sequence[int], *, kind: PurgeKind, number: int) -> StaleNumber | None:
        shelf = self._shelf()
        if number < shelf.number or (kind is not PurgeKind.BEHIND_CLEAN and number != shelf.number):
            return StaleNumber(shelf.number)
        for slot in slots:
            self._purged(shelf, slot, kind)
        return None

    async def fence(self, number: int, table: bytes) -> StaleNumber | None:
        shelves = self._data.shelves
        shelf = shelves.setdefault(self._of.name, MapShelf(self._of.id))
        if shelf.map_id != self._of.id:
            raise refused_map(self._name, self._of.name, f"a node of the map with the id {shelf.map_id}")
        if number < shelf.number:
            return StaleNumber(shelf.number)
        if number == shelf.number and table != shelf.table:
            raise refused_table(self._name, number)
        shelf.number, shelf.table, shelf.beat = number, table, shelf.beat + 1
        return None

    async def identity(self) -> NodeIdentity:
        shelves = self._data.shelves
        shelf = shelves.get(self._of.name)
        return NodeIdentity(
            life=self._data.life,
            is_durable=self._data.is_durable,
            clock_ms=None if self._clock_ms is None else self._clock_ms(),
            map_id=None if shelf is None else shelf.map_id,
            number=0 if shelf is None else shelf.number,
            beat=0 if shelf is None else shelf.beat,
        )

    async def close(self) -> None:
        """Do nothing: the data belongs to the process."""

    @property
    def _space(self) -> SlotSpace:
        return self._of.space

    def _shelf(self) -> MapShelf:
        shelves = self._data.shelves
        shelf = shelves.get(self._of.name)
        if shelf is None:
            raise refused_map(self._name, self._of.name, "a node of no such map")
        if shelf.map_id != self._of.id:
            raise refused_map(self._name, self._of.name, f"a node of the map with the id {shelf.map_id}")
        return shelf

    def _applied(self, shelf: MapShelf, entry: NodeEntry, *, copy: bool) -> EntryAnswer:
        slot = self._space.slot_of(entry.key)
        held = shelf.entries[slot].get(entry.key)
        answer = answer_to(entry, None if held is None else held.version, shelf.marks[slot], copy=copy)
        if answer == EntryStored():
            shelf.entries[slot][entry.key] = entry
        return answer

    def _state(self, shelf: MapShelf, key: bytes) -> KeyState:
        slot = self._space.slot_of(key)
        return KeyState(entry=shelf.entries[slot].get(key), clean_ms=shelf.marks[slot].clean_ms)

    def _in_part(self, shelf: MapShelf, part: SlotPart) -> tuple[NodeEntry, ...]:
        entries = shelf.entries[part.slot].values()
        return tuple(each for each in entries if part.leaf is None or self._space.part_of(each.key) == part)

    def _digest(self, shelf: MapShelf, part: SlotPart, at_most_ms: int) -> PartDigest:
        found = [each for each in self._in_part(shelf, part) if each.version.milliseconds <= at_most_ms]
        mark = 0
        for each in found:
            mark ^= each.mark
        marks = shelf.marks[part.slot]
        return PartDigest(count=len(found), mark=mark, seal_ms=marks.seal_ms, clean_ms=marks.clean_ms)

    def _purged(self, shelf: MapShelf, slot: int, kind: PurgeKind) -> None:
        marks, entries = shelf.marks[slot], shelf.entries[slot]
        if kind is PurgeKind.BEHIND_CLEAN:
            for entry in [each for each in entries.values() if is_purged(each, marks.clean_ms)]:
                del entries[entry.key]
        elif kind is PurgeKind.OPEN and marks.opened != shelf.number:
            entries.clear()
            shelf.marks[slot] = marks.opened_under(shelf.number)
        elif kind is PurgeKind.LEFT:
            entries.clear()
            del shelf.marks[slot]
