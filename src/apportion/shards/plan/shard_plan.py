"""Shard plan: groups of slots that move between shards, the weights of the shards, and the lower bound.

The id of a plan is the digest of its content. The id of each move begins with the id of its plan. So a plan that is
applied again finds the moves that it began before.

Promises: a plan is carried out from the version of the table that it was made from, or goes on after its own switches.
Each of its groups lies as a whole on its source or on its target.
Refuses: groups of more than 256 slots, and a slot in two groups.
"""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Literal, TypeAlias

from apportion.errors import InvalidInput, PlanRefused, StaleEpoch
from apportion.errors.brief import brief
from apportion.shards.move_group import MOST_SLOTS, MoveGroup
from apportion.shards.slots import SlotTable
from apportion.tables.layout import Version

Measure: TypeAlias = Literal["slots", "rows", "bytes"]
"""The unit in which each shard gets its share."""

MEASURES: tuple[Measure, ...] = ("slots", "rows", "bytes")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """Slots, ascending, that move together from one shard to another, with the number and the bytes of their rows."""

    source: str
    target: str
    slots: tuple[int, ...]
    rows: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        if not 0 < len(self.slots) <= MOST_SLOTS or self.source == self.target:
            found = f"{len(self.slots)} from {self.source} to {self.target}"
            raise InvalidInput("slots of a group", found, f"1 .. {MOST_SLOTS}, between two shards", "Plan again.")
        if list(self.slots) != sorted(set(self.slots)):
            raise InvalidInput("slots of a group", self.slots, "each once, ascending", "Plan again.")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """A plan: the set, the version of the table before it, the groups, and the weights of the shards after it.

    `least` is the amount that any plan with the same aim must move, in slots, rows or bytes as `measure` says. `total`
    is the number of slots of the set.
    """

    name: str
    version: Version
    words: str
    weights: Mapping[str, float]
    groups: tuple[PlannedGroup, ...]
    least: int
    total: int
    measure: Measure = "slots"

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        named = [slot for group in self.groups for slot in group.slots]
        if len(named) != len(set(named)):
            raise InvalidInput("slots of a plan", len(named), "each in one group", "Plan again.")
        if unknown := {each for group in self.groups for each in (group.source, group.target)} - self.weights.keys():
            raise InvalidInput("shards of a plan", sorted(unknown), "shards with a weight", "Plan again.")

    @property
    def id(self) -> str:
        """The digest of the plan, 8 hexadecimal digits."""
        groups = [[each.source, each.target, each.slots] for each in self.groups]
        content = [self.name, str(self.version), sorted(self.weights.items()), groups]
        return sha256(json.dumps(content).encode()).hexdigest()[:8]

    @property
    def moved(self) -> int:
        """The number of slots that move."""
        return sum(len(each.slots) for each in self.groups)

    @property
    def rows(self) -> int:
        """The number of rows that move."""
        return sum(each.rows for each in self.groups)

    @property
    def bytes(self) -> int:
        """The bytes of the rows that move."""
        return sum(each.bytes for each in self.groups)

    @property
    def moves(self) -> tuple[MoveGroup, ...]:
        """The groups for a mover, each with the id of its move."""
        own = self.id
        return tuple(
            MoveGroup(move=f"{own}-{number:03}", source=each.source, target=each.target, slots=each.slots)
            for number, each in enumerate(self.groups)
        )

    @property
    def summary(self) -> str:
        """The moves and the lower bound in one line of text."""
        if not self.groups:
            return f"{self.words} moves no slot"
        amount = {"slots": self.moved, "rows": self.rows, "bytes": self.bytes}[self.measure]
        unit = "" if self.measure == "slots" else f" {self.measure}"
        proof = "the minimum" if amount == self.least else f"at least {self.least}{unit} must move"
        share = self.moved / self.total
        return f"{self.words} moves {self.moved} of {self.total} slots ({share:.2%}), {self.rows} rows; {proof}"


def groups_to_move(plan: ShardPlan, table: SlotTable) -> tuple[MoveGroup, ...]:
    """Return the groups that still lie on their sources.

    `PlanRefused` if a group as a whole lies neither on its source nor on its target.
    """
    left = []
    for group in plan.moves:
        owners = {table.owners.get(slot) for slot in group.slots}
        if owners == {group.source}:
            left.append(group)
        elif owners != {group.target}:
            found = ", ".join(sorted(str(each) for each in owners - {group.source, group.target})) or "both"
            raise PlanRefused(
                f"slots from {group.source} to {group.target} lie at {found} in version {table.version}", group.move
            )
    return tuple(left)


def check_plan(plan: ShardPlan, name: str, table: SlotTable, moving: Mapping[int, str], begun: Set[str]) -> None:
    """Refuse a plan of another set or of an older table, and slots that another move has already.

    `moving` maps slots to the ids of their moves, and `begun` has the moves that are not over. `StaleEpoch` for a plan
    of an older table.
    """
    if plan.name != name:
        raise InvalidInput("plan", f"a plan for set {plan.name}", f"a plan for set {name}", "Name the set of the plan.")
    if not begun & {move.move for move in plan.moves}:
        _check_newest(plan, table)
    others = [moving[slot] for move in plan.moves for slot in move.slots if moving.get(slot, move.move) != move.move]
    check_free(others)


def _check_newest(plan: ShardPlan, table: SlotTable) -> None:
    """Raise `StaleEpoch` unless all later versions come from the plan, or from pins that were made or taken back since.

    Each group that has switched, and each such pin, has made one version. A pin moves no slot.
    """
    switched = sum({table.owners.get(slot) for slot in move.slots} == {move.target} for move in plan.moves)
    pinned = abs(len(table.owners) - plan.total)
    if table.version != replace(plan.version, number=plan.version.number + switched + pinned):
        error = StaleEpoch(seen=plan.version, current=table.version)
        error.hint = "Nothing was changed. Plan again: apportion shards plan URL SET -o FILE"
        raise error


def check_free(moves: Sequence[str]) -> None:
    """Raise `PlanRefused` if any slot has a move already. `moves` names the move of each such slot."""
    if moves:
        named = sorted(set(moves))
        said = f"{len(moves)} of its slots belong to {len(named)} earlier moves, such as {named[0]}"
        error = PlanRefused(said)
        error.hint = "Nothing was changed. End these moves first: apportion shards apply, then clean; or abort."
        raise error
