"""The set of shards of a scenario: its shards, its tables and keys, and every table that was published."""

from collections.abc import Mapping
from functools import lru_cache
from random import Random

from apportion.errors import StoreUnavailable
from apportion.model.assignment import Assignment
from apportion.model.topology import Node, Topology
from apportion.shards.mover.records import MoveEntry, decode_moving, slot_of_pin
from apportion.shards.records import SetKeys
from apportion.shards.slot_rows import SlotRow
from apportion.shards.slots import SlotTable, partitions
from apportion.sim.facts import Changed, Fact
from apportion.sim.shard_facts import MoveLeftBehind, MoveSeen, RowPlace, TableSeen
from apportion.sim.shards.database import Row
from apportion.sim.shards.wire import ShardPlace
from apportion.sim.world.world import World
from apportion.stores import CoordinationStore, Item
from apportion.tables.layout import TableKeys, Version, decode_head, resolved

SET, URL = "places", "sqlite:///control.db"
PARENT, CHILD = "place", "visit"
SLOTS = 4
FIRST_TABLES = 2  # of a set whose slots may have moved before
_TABLE, _MOVE, _MOVING = TableKeys(SET), SetKeys(SET).move(""), SetKeys(SET).moving
_PINS = 2  # keys that are to get a slot of their own


class ShardSet:
    """The set. `tables` are all versions of its table in the order of their publication."""

    def __init__(self, world: World, draw: Random) -> None:
        self.world = world
        self._tell = world.record
        self.open_moves: dict[str, MoveSeen] = {}
        self.open_pins: frozenset[str] = frozenset()
        self.quiet_until = 0.0
        self._attempts: dict[str, int] = {}
        world.site.listeners.append(self._hear)
        self.names = ("a", "b", "c")[: draw.choice([2, 2, 3])]
        former, owners = ([draw.choice(self.names) for _ in range(SLOTS)] for _ in range(2))
        owners = former if draw.random() < 0.3 else owners
        self.nodes = {name: Node(name) for name in self.names}
        self.first = (assignment(former, self.names), assignment(owners, self.names, 2.0))
        self.tables: list[SlotTable] = []
        second = Version(incarnation=world.backing.incarnation, number=2)
        rows = {name: _first_rows(name, former, owners, second) for name in self.names}
        self.places = {name: ShardPlace(world, name, rows[name], self._tell) for name in self.names}
        self._writes = 0
        self._slots = SlotTable.of(second, self.first[1])
        per_slot = draw.choice([1, 2, 3])
        self.keys = {slot: self._keys(slot, per_slot) for slot in range(SLOTS)}
        self.pins = [f"p{number}" for number in range(_PINS)]
        named = (key for keys in (self.pins, *self.keys.values()) for key in keys)
        self._homes = {key: self._slots.slot(key) for key in named}

    def _hear(self, fact: Fact) -> None:
        """Tell the moves and the table that a change of the store shows."""
        if isinstance(fact, Changed):
            for key, item in fact.items:
                if key.startswith(_MOVE):
                    self._hear_of_move(key.removeprefix(_MOVE), item, fact.at)
                elif key == _MOVING:
                    moving = {} if item is None else decode_moving(item.value)
                    self.open_pins = frozenset(name for name in moving if slot_of_pin(name) is not None)
            if any(key == _TABLE.head and item is not None for key, item in fact.items):
                table = table_of(self.world.checker.history.items, fact.incarnation)
                self.tables.append(table)
                pinned = {key.decode(): slot for key, slot in table.pinned.items()}
                self._tell(TableSeen(at=fact.at, version=table.version, owners=table.owners, pinned=pinned))
                if len(self.tables) > 1 and len(pinned) > len(self.tables[-2].pinned):
                    self.world.trace.cover("pin begun")

    def _hear_of_move(self, move: str, item: Item | None, at: float) -> None:
        if item is None:
            over = self.open_moves.pop(move)
            for shard in (over.source, over.target):
                names = self.places[shard].database.left_behind(move)
                self._tell(MoveLeftBehind(at=at, shard=shard, move=move, names=names))
            return
        entry = MoveEntry.decode(item.value)
        group, state = entry.group, entry.record.state
        if move not in self.open_moves or self.open_moves[move].state != state:
            self.world.trace.cover(f"move {state}")
        if move in self.open_moves and self.open_moves[move].source != group.source:
            self.world.trace.cover("move reversed")
        elif self.open_moves.get(move) is None or entry.record.attempt > self._attempts.get(move, 1):
            self.world.trace.cover("retreat" if move in self.open_moves else "move begun")
        self._attempts[move] = entry.record.attempt
        seen = MoveSeen(at=at, move=move, state=state, source=group.source, target=group.target, slots=group.slots)
        self.open_moves[move] = seen
        self._tell(seen)

    @property
    def is_quiet(self) -> bool:
        """Whether neither the operator nor the publisher does anything now."""
        return self.world.now < self.quiet_until

    def write(self) -> int:
        """Return the number of the next write."""
        self._writes += 1
        return self._writes

    def row(self, place: RowPlace, write: int) -> Row:
        """Return the row that a write leaves. A key in a slot of its own is at home there."""
        return write, place.slot if place.slot >= SLOTS else self._homes[place.key.partition("/")[0]]

    def _keys(self, slot: int, count: int) -> list[str]:
        found = (f"k{number}" for number in range(1_000))
        return [key for key in found if self._slots.slot(key) == slot][:count]


def assignment(
    owners: list[str], names: tuple[str, ...], weight: float = 1.0, slots: tuple[str, ...] | None = None
) -> Assignment:
    """Return the table of slots with these owners; the first shard has a weight. Without `slots`, no key is pinned."""
    topology = Topology(Node(name, weight=weight if name == names[0] else 1.0) for name in names)
    rows = tuple((topology.index(owner),) for owner in owners)
    return Assignment(topology=topology, rows=rows, names=slots or partitions(len(owners), {}))


def _first_rows(name: str, former: list[str], owners: list[str], second: Version) -> dict[int, SlotRow]:
    """Return the rows of slots of a shard after the second table; the first one names other shards for some."""
    rows = {}
    for slot, owner in enumerate(owners):
        has_moved = former[slot] != owner
        if owner == name:
            rows[slot] = SlotRow(state="owner", number=second if has_moved else None)
        elif former[slot] == name:
            rows[slot] = SlotRow(state="moved")
    return rows


def table_of(items: Mapping[str, Item], incarnation: int) -> SlotTable:
    """Return the table that items of the store hold."""
    return _table_in(
        incarnation, tuple((key, item.value) for key, item in items.items() if key.startswith(_TABLE.prefix))
    )


@lru_cache(maxsize=64)  # each of many readers reads the few tables of a run
def _table_in(incarnation: int, chunks: tuple[tuple[str, bytes], ...]) -> SlotTable:
    values = dict(chunks)
    head = decode_head(values[_TABLE.head])
    value = resolved(head, _TABLE, values)
    assert isinstance(value, Assignment)
    return SlotTable.of(Version(incarnation=incarnation, number=head.version), value)


async def read_table(store: CoordinationStore) -> SlotTable:
    """Read the newest table; `StoreUnavailable` if the answer is older than the first one."""
    scan = await store.scan(_TABLE.prefix)
    items = {item.key: item for item in scan.items}
    if _TABLE.head not in items:
        raise StoreUnavailable("the table", "nothing is published yet")
    return table_of(items, scan.incarnation)
