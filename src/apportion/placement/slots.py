"""Fixed slots: a key's hash picks one of a fixed number of slots, and an assignment names the owner of each slot.

The default for new users. Shares are as even as the assignment, and `balance.slots` makes it even to one slot. The
assignment decides the moves: `balance.slots` moves the fewest slots that make the new assignment even. The price is
that you must keep the assignment.

Promises: a key's slot never changes; owners change only where the assignment does. Slots made from nodes alone
start with the assignment of `balance.slots`.
Refuses: to assign again. `on(topology)` keeps every slot at its owners, or raises `CannotPlace` if a slot has no
owner left.

The slot is the hash's leading part: `hash * slots >> 64`. Source: the fixed hash slots of Redis Cluster, the
equal-sized partitions of Dynamo (DeCandia et al. 2007, strategy 3).
"""

from dataclasses import dataclass
from functools import partial
from typing import Self

from apportion.errors import CannotPlace, InvalidInput, NotEnoughNodes
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.model.token import Slot, slot_start
from apportion.model.topology import Topology
from apportion.placement.api import Nodes, PlacementSpec, check_topology, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.first_assignment import first_assignment
from apportion.placement.hashers import DEFAULT, Hasher, resolve
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.tabular import Tabular
from apportion.placement.spread import Spread, spread_rule

LEAST_SLOTS = 4096
SLOTS_PER_NODE = 32


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Slots(Tabular):
    """Hash slots over an assignment of them. Build: O(slots). Lookup: O(log slots).

    Pass the assignment that you keep. Nodes alone are good for the first time: they get an even assignment.

    >>> from apportion import Slots, balance
    >>> slots = Slots(["a", "b", "c"])
    >>> slots.slot("tenant-42"), slots.route("tenant-42")
    (3815, 'c')
    >>> next_slots = Slots(balance.slots(slots.topology.add("d"), previous=slots.assignment))
    """

    _NEXT = "{kind}(balance.slots({to}, previous={it}.assignment))"

    assignment: Assignment

    def __init__(self, assignment: Assignment | Nodes, *, hasher: str | Hasher = DEFAULT) -> None:
        chosen = resolve(hasher)
        assignment = assigned(assignment)
        self._fill(assignment.topology, chosen)
        object.__setattr__(self, "assignment", assignment)
        self._lay_table(self._leaders)

    @property
    def slot_count(self) -> int:
        """The number of slots."""
        return len(self.assignment.rows)

    def _make_table(self) -> Table:
        return _table(self.assignment, self.hasher, replicas=1)

    def slot(self, key: Key) -> Slot:
        """Return the slot of a key; it depends only on the key, the hasher and the number of slots. O(length)."""
        return self._position(key_bytes(key)) * len(self.assignment.rows) >> 64

    def _preferred(self, key: Key, count: int, *, spread_level: int | None, spread: Spread) -> tuple[str, ...]:
        """Return the first `count` owners of the key's slot. The assignment decides about their zones. O(nodes)."""
        spread_rule(self.topology, count, level=spread_level, spread=spread)
        owners = self.assignment[self.slot(key)]
        if count > len(owners):
            raise NotEnoughNodes(count, owners, f"from an assignment of {len(owners)} per slot")
        return owners[:count]

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table:
        """Return the slots as a table; its rows are the first `replicas` owners. O(slots)."""
        spread_rule(self.topology, replicas, level=spread_level, spread=spread)
        return self._leaders if replicas == 1 else _table(self.assignment, self.hasher, replicas=replicas)

    def explain(self, key: Key) -> Explanation:
        """Return the slot of a key and its owners."""
        data = key_bytes(key)
        slot = self.slot(key)
        owner, *others = self.assignment[slot]
        takeover = "" if others else "; if it left, balance.slots would decide"
        return Explanation(
            key=key,
            placement="slots",
            hasher=self.hasher.label,
            hash=self.hasher(data),
            range=self._leaders.range_at(self._position(data)),
            owner=owner,
            why=f"slot {slot} of {len(self.assignment.rows)} is assigned to {owner}{takeover}",
            next=tuple(others),
            if_owner_left=others[0] if others else None,
        )

    def on(self, topology: Topology) -> Self:
        """Return the same slots on another topology, less the owners that left or drain.

        Raises `CannotPlace` if a slot has no owner left: `balance.slots(topology, previous=...)` makes a new
        assignment.
        """
        keeps = {node.id for node in check_topology(topology) if node.weight > 0}
        rows = [
            [node_id for node_id in owners if node_id in keeps] for owners in self.assignment.preference_lists.values()
        ]
        if not all(rows):
            raise CannotPlace(
                f"slot {rows.index([])} and {rows.count([]) - 1} more would have no owner on {topology!r}.",
                "Assign the slots again: Slots(balance.slots(topology, previous=slots.assignment)).",
            )
        kept = tuple(tuple(map(topology.index, row)) for row in rows)
        return type(self)(Assignment(topology=topology, rows=kept), hasher=self.hasher)

    @classmethod
    def of_table(cls, table: Table, *, hasher: str | Hasher = DEFAULT) -> Self:
        """Return the slots that a saved table was made of; `InvalidInput` if it was not made of slots. O(slots)."""
        chosen = resolve(hasher)
        if not isinstance(table, Table):
            raise InvalidInput("table", table, "a Table", "Pass the table() of a placement.")
        if table.slots is None or table.hasher != chosen.label:
            hint = "Export it from Slots, with the same hasher."
            raise InvalidInput("table", repr(table), f"one made of slots with {chosen.label}", hint)
        starts = (slot_start(slot, table.slots) for slot in range(table.slots))
        rows = tuple(tuple(map(table.topology.index, table.owners(start))) for start in starts)
        return cls(Assignment(topology=table.topology, rows=rows), hasher=chosen)

    def __reduce__(self) -> "tuple[partial[Slots], tuple[Assignment]]":
        return partial(type(self), hasher=self.hasher), (self.assignment,)

    def __repr__(self) -> str:
        slots = f"{len(self.assignment.rows)} slots over {self.topology!r}"
        return f"{type(self).__name__}({slots}, hasher={self.hasher.label!r})"


def assigned(slots: Assignment | Nodes, *, count: int | None = None) -> Assignment:
    """Return the assignment that the caller passed, or the first assignment of the listed nodes."""
    return slots if isinstance(slots, Assignment) else first_assignment(topology_of(slots), count)


def default_slots(nodes: int) -> int:
    """Return a number of slots to start with: at least 32 per node.

    So one slot is about 3 % of a node's share, or less.

    >>> default_slots(3), default_slots(128), default_slots(129)
    (4096, 4096, 8192)
    """
    return max(LEAST_SLOTS, 1 << (SLOTS_PER_NODE * nodes - 1).bit_length())


def _table(assignment: Assignment, hasher: Hasher, *, replicas: int) -> Table:
    rows = assignment.rows
    shortest = min(rows, key=len)
    if len(shortest) < replicas:
        owners = assignment[rows.index(shortest)]
        raise NotEnoughNodes(replicas, owners, f"of slot {rows.index(shortest)}")
    return Table(
        topology=assignment.topology,
        hasher=hasher.label,
        starts=tuple(slot_start(slot, len(rows)) for slot in range(len(rows))),
        rows=tuple(row[:replicas] for row in rows),
        slots=len(rows),
    )


SPEC = PlacementSpec(
    name="slots",
    build=Slots,
    source="Redis Cluster; DeCandia et al. 2007",
    minimal_disruption=True,
    weighted=True,
    tabular=True,
    lookup="O(log tokens)",
    takes="assignment",
)
