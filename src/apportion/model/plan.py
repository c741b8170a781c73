"""Plan: a change of owners as a value, with its moves, the least possible share of moves, and its two epochs.

A plan contains the items with different owners, the two topologies, and the widths that their nodes own. Moves, ratios
and bounds are derived from these, so a saved plan cannot contradict itself.

Widths are integers. They count positions of the circle if the plan is exact, and keys or partitions if it is counted.
Ratios are widths divided by the total width owned afterwards (for n replicas, n times the circle).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Literal, TypeAlias
from uuid import UUID

from apportion.errors import InvalidInput, shown
from apportion.errors.brief import brief
from apportion.model.epoch import Epoch
from apportion.model.token import KeyRange, is_before
from apportion.model.topology import Topology

Key: TypeAlias = str | bytes | int | UUID
"""A key that can be routed; `placement.keys` defines the bytes of each kind."""


@brief
@dataclass(frozen=True, slots=True)
class Change:
    """A range or a key with different ordered owners before and after."""

    item: KeyRange | Key
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def width(self) -> int:
        """The number of positions of a range of tokens; 1 for a key; 0 for a range of bytes, which has no count."""
        if isinstance(self.item, KeyRange):
            return self.item.width if isinstance(self.item.start, int) else 0
        return 1


@brief
@dataclass(frozen=True, slots=True)
class Move:
    """The move of one copy of an item. Without a source, a new copy is made. Without a target, a copy is dropped."""

    item: KeyRange | Key
    source: str | None
    target: str | None
    width: int

    def __str__(self) -> str:
        item = self.item if isinstance(self.item, KeyRange) else shown(self.item)
        return f"{item} {self.source or '(new copy)'} -> {self.target or '(dropped)'}"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """The effect of a plan on one node, as ratios of the total: its share before and after, its gain and its loss."""

    before_ratio: float
    after_ratio: float
    gained_ratio: float
    lost_ratio: float


# No `slots=True`: a cached property keeps its value in the object's own dictionary.
@brief
@dataclass(frozen=True, kw_only=True)
class Plan:
    """The difference of two placements, exact (of two tables) or counted (over keys, or partitions of assignments).

    - `before`, `after`: the epochs that the plan leads from and to.
    - `old`, `new`: the two topologies.
    - `hasher`: the hash that made positions of keys.
    - `changes`: the changes, in order.
    - `span`: the whole circle, the number of keys or the number of partitions. It is 0 if positions are bytes, because
      then ratios do not exist.
    - `widths_before`, `widths_after`: the width that each node owns before and after.
    - `slots`: the number of slots of the new table, if the table is made of slots.
    - `counted`: the unit of the count, if the plan is not exact.

    All other values are derived at their first use, in O(changes).
    """

    before: Epoch
    after: Epoch
    old: Topology
    new: Topology
    hasher: str
    exact: bool
    changes: tuple[Change, ...]
    span: int
    widths_before: Mapping[str, int]
    widths_after: Mapping[str, int]
    slots: int | None = None
    counted: Literal["keys", "partitions"] = "keys"

    def __post_init__(self) -> None:
        if type(self.span) is not int or self.span < 0:
            raise InvalidInput("span of the plan", self.span, "an int, not negative", "Make plans with plan().")
        for side, topology, widths, lists in (
            ("before", self.old, self.widths_before, {change.before for change in self.changes}),
            ("after", self.new, self.widths_after, {change.after for change in self.changes}),
        ):
            _check_side(side, topology, widths if self.span else None, lists)
        ranges = [change.item for change in self.changes if isinstance(change.item, KeyRange)]
        in_order = all(
            left.end is not None and not is_before(right.start, left.end) for left, right in pairwise(ranges)
        )
        if self.exact and not (in_order and len(ranges) == len(self.changes)):
            expected = "ranges, sorted, without an overlap"
            raise InvalidInput("changes of the plan", len(self.changes), expected, "Make plans with plan().")
        if self.span == 0 and any(change.width for change in self.changes):
            hint = "Make plans with plan()."
            raise InvalidInput("span of the plan", 0, "more than 0, because its ranges have widths", hint)

    @property
    def is_pending(self) -> bool:
        """Whether the plan changes anything. A new topology is a change, even if no key moves."""
        return bool(self.changes) or self.before.digest != self.after.digest

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Every single move, in the order of the changes."""
        return tuple(move for change in self.changes for move in moves_of(change, self.old, self.new))

    @cached_property
    def moved_ratio(self) -> float:
        """The share of copies that nodes must receive. A change of order alone moves nothing."""
        return self._ratio(sum(move.width for move in self.moves if move.target is not None))

    @cached_property
    def leader_moved_ratio(self) -> float:
        """The share of the span with another first owner than before."""
        return (
            sum(change.width for change in self.changes if change.before[:1] != change.after[:1])
            / self._measured_span()
        )

    @cached_property
    def stray_ratio(self) -> float:
        """The share of moves without a cause in the change of topology; see `is_stray`."""
        return self._ratio(sum(move.width for move in self.moves if self.is_stray(move)))

    @cached_property
    def lower_bound_ratio(self) -> float:
        """The smallest share that must move between the two distributions of widths."""
        return self._ratio(_gain(self.widths_before, self.widths_after))

    @cached_property
    def fair_bound_ratio(self) -> float:
        """The same bound for shares exactly proportional to weight, for information: placements may be less even."""
        old_total = max(1, sum(node.millionths for node in self.old))
        new_total = max(1, sum(node.millionths for node in self.new))
        before = {node.id: node.millionths * new_total for node in self.old}
        after = {node.id: node.millionths * old_total for node in self.new}
        return _gain(before, after) / (old_total * new_total)

    @cached_property
    def per_node(self) -> Mapping[str, NodeChange]:
        """The effect of the plan on each node of either topology, by id."""
        self._measured_span()
        gained: Counter[str | None] = Counter()
        lost: Counter[str | None] = Counter()
        for move in self.moves:
            gained[move.target] += move.width
            lost[move.source] += move.width
        total_before = sum(self.widths_before.values())
        return {
            node_id: NodeChange(
                before_ratio=self.widths_before.get(node_id, 0) / total_before,
                after_ratio=self._ratio(self.widths_after.get(node_id, 0)),
                gained_ratio=self._ratio(gained[node_id]),
                lost_ratio=self._ratio(lost[node_id]),
            )
            for node_id in sorted({*self.old.ids, *self.new.ids})
        }

    def is_stray(self, move: Move) -> bool:
        """Whether a move lacks a cause.

        A move has a cause if the source left, drains or lost weight, or if the target is new or gained weight. To make
        or drop a copy is a cause too. Weights are compared node by node, as absolute numbers.
        """
        if not isinstance(move, Move):
            raise InvalidInput("move", move, "a Move", "Pass one of plan.moves.")
        if move.source is None or move.target is None:
            return False
        left_over = self.new[move.source].weight if move.source in self.new else 0
        source_shrank = left_over == 0 or left_over < self.old[move.source].weight
        target_grew = move.target not in self.old or self.new[move.target].weight > self.old[move.target].weight
        return not (source_shrank or target_grew)

    def __str__(self) -> str:
        if self.span == 0:
            return f"plan: {len(self.changes)} ranges of bytes change owners, {self.from_to}"
        if self.counted == "partitions" and not self.exact:
            # A plan does not know which nodes are up, so it cannot find the moves without a cause.
            return (
                f"plan: {self.moved_ratio:.2%} of the {sum(self.widths_after.values())} replicas move "
                f"(bound {self.lower_bound_ratio:.2%}), {len(self.changes)} of {self.span} partitions, {self.from_to}"
            )
        what, unit = ("key space moves", "ranges") if self.exact else (f"{self.span} keys move", "keys")
        return (
            f"plan: {self.moved_ratio:.2%} of the {what} (bound {self.lower_bound_ratio:.2%}, "
            f"fair {self.fair_bound_ratio:.2%}), stray {self.stray_ratio:.2%}, {len(self.changes)} {unit}, "
            f"{self.from_to}"
        )

    def _repr_html_(self) -> str:
        from apportion.model.notebook import html_of  # noqa: PLC0415 - only notebooks pay for it

        nodes = self.per_node if self.span else {}
        ratios = {
            node_id: (each.before_ratio, each.after_ratio, each.gained_ratio, each.lost_ratio)
            for node_id, each in nodes.items()
        }
        rows = ((node_id, *(f"{ratio:.2%}" for ratio in of_node)) for node_id, of_node in ratios.items())
        return html_of(str(self), ("node", "share before", "share after", "gains", "gives"), rows, len(nodes))

    @property
    def from_to(self) -> str:
        """The numbers of nodes and the epochs that the plan leads from and to, as text."""
        return f"{len(self.old)} -> {len(self.new)} nodes, epoch {self.before} -> {self.after}"

    def _ratio(self, width: int) -> float:
        self._measured_span()
        return width / sum(self.widths_after.values())

    def _measured_span(self) -> int:
        if self.span == 0:
            raise InvalidInput("ratio", "one over byte strings", "tokens or keys to count", "Pass keys= to plan.")
        return self.span


def _check_side(
    side: str, topology: Topology, widths: Mapping[str, int] | None, lists: Iterable[tuple[str, ...]]
) -> None:
    if widths is not None and (set(widths) != set(topology.ids) or sum(widths.values()) <= 0):
        hint = "Make plans with plan()."
        raise InvalidInput(f"widths {side} the plan", ", ".join(widths), "one for each node, not all 0", hint)
    for owners in lists:
        if len(set(owners)) != len(owners) or not all(node_id in topology for node_id in owners):
            hint = "Make plans with plan()."
            raise InvalidInput(f"owners {side} the plan", ", ".join(owners), "distinct nodes of the topology", hint)


def moves_of(change: Change, old: Topology, new: Topology) -> Iterator[Move]:
    """Pair each owner that leaves with one that arrives: in the same fault domain if possible, otherwise by id."""
    lost = sorted(set(change.before).difference(change.after))
    gained = sorted(set(change.after).difference(change.before))
    pairs: list[tuple[str | None, str | None]] = []
    for source in list(lost):
        domain = old[source].fault_domain()
        target = next((node_id for node_id in gained if new[node_id].fault_domain() == domain), None)
        if target is not None:
            pairs.append((source, target))
            lost.remove(source)
            gained.remove(target)
    pairs += zip_longest(lost, gained)
    return (Move(change.item, source, target, change.width) for source, target in pairs)


def _gain(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    """Sum the gains of all nodes. At least this much moves, because a node must receive its gain."""
    return sum(max(width - before.get(node_id, 0), 0) for node_id, width in after.items())
