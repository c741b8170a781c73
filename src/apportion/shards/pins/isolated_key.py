"""Isolated key: the rows of one key that leave their slot, and the slot of their own that they get.

The rows of a key are found by its values, because all keys of a slot share the slot's index. A child without the shard
key belongs to the key of its parent. So each table of the set has a condition, in the words of its database.

In a set by ranges, all keys of a slot from a bound on may leave it together. Then the condition compares by order.

Promises: the conditions are kept with the move, so any mover finds the same rows, without the models.
Refuses: a table without a condition. Its rows would stay behind.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote_from_bytes, unquote_to_bytes

from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.codec.parsing import integer, items, members, pairs, refuse, text
from apportion.shards.ranges.range_map import Bound, check_bound
from apportion.shards.slots import SlotTable, with_own_slot, with_part

_MOST_SLOTS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCondition:
    """The condition of one table for the rows of a key.

    - `columns`, `values`: the columns of the shard key, and their values as the database stores them. Without columns,
      the table has no row of the key, because its own key has another form.
    - `parent`, `target`: for a child, the table of its parents, and the column that the child's only column names.
    - `is_from`: the rows with the value or a greater one, in place of those with the value alone.
    """

    table: str
    columns: tuple[str, ...] = ()
    values: tuple[int | str, ...] = ()
    parent: str = ""
    target: str = ""
    is_from: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedKey:
    """A key by its bytes, the slot that it gets, and the condition of each table for its rows.

    With `at`, these are all keys of the former slot from `at` on, and `key` is empty.
    """

    key: bytes
    slot: int
    conditions: tuple[KeyCondition, ...]
    at: Bound | None = None

    def line_of(self, table: str) -> tuple[KeyCondition, ...]:
        """Return the condition of a table, and then those of its parents, up to the table with the shard key."""
        line = [self._of(table)]
        while line[-1].parent and len(line) <= len(self.conditions):
            line.append(self._of(line[-1].parent))
        if line[-1].parent:
            hint = "Let each __shard_parent__ lead to a table with a shard key."
            raise InvalidInput(f"parents of table {table}", "a circle", "a table with a shard key", hint)
        return tuple(line)

    @property
    def command(self) -> str:
        """The command that moves the rows to another shard."""
        return "isolate URL SET KEY --to ID" if self.at is None else f"split URL SET SLOT {self.at} --to ID"

    def is_placed(self, table: SlotTable) -> bool:
        """Whether a table has the own slot."""
        return self.slot in table.owners if self.at is not None else self.key in table.pinned

    def is_free(self, table: SlotTable, former: int) -> bool:
        """Whether a table has no place for the own slot or its keys, other than their former slot."""
        bounds = None if table.ranges is None else table.ranges.bounds.get(former)
        is_inside = self.at is None or (bounds is not None and bounds.holds_inside(self.at))
        return is_inside and self.slot not in table.owners and (self.at is not None or self.key not in table.pinned)

    def placed_in(self, value: Assignment, former: int, shard: str) -> Assignment:
        """Return the assignment with the own slot, on a shard of the assignment."""
        if self.at is not None:
            return with_part(value, former, self.at, self.slot, shard)
        return with_own_slot(value, self.slot, self.key, shard)

    def check(self, tables: Iterable[str]) -> None:
        """Raise `InvalidInput` for a sharded table that the models did not have when the isolation began."""
        known = {each.table for each in self.conditions}
        for table in sorted({*tables} - known):
            hint = "Declare it in the models, as shards.Sharded. Then run the same call again."
            raise InvalidInput(f"sharded table {table}", "one without a model", "a table of the models", hint)

    def _of(self, table: str) -> KeyCondition:
        found = next((each for each in self.conditions if each.table == table), None)
        if found is None:
            self.check((table,))
        return found or KeyCondition(table=table)


def isolated_form(isolated: IsolatedKey) -> dict[str, object]:
    """Return an isolated key as it stands in the record of a move."""
    conditions = [
        [each.table, list(each.columns), list(each.values), each.parent, each.target] for each in isolated.conditions
    ]
    at = {} if isolated.at is None else {"at": isolated.at}
    return {"key": quote_from_bytes(isolated.key, safe=""), "slot": isolated.slot, "conditions": conditions, **at}


def isolated_in(value: object) -> IsolatedKey:
    """Return the isolated key in the record of a move. `BadSnapshot` for any other value."""
    noted = ["at"] if "at" in pairs(value) else []
    key, number, listed, *rest = members(value, "key", "slot", "conditions", *noted)
    slot, at = integer(number), check_bound(rest[0]) if noted else None
    if not 0 < slot < _MOST_SLOTS:
        refuse(slot, f"a slot below {_MOST_SLOTS}")
    conditions = tuple(replace(_condition(*items(each, 5)), is_from=bool(noted)) for each in items(listed))
    return IsolatedKey(key=unquote_to_bytes(text(key)), slot=slot, conditions=conditions, at=at)


def _condition(table: object, columns: object, values: object, parent: object, target: object) -> KeyCondition:
    return KeyCondition(
        table=text(table),
        columns=tuple(map(text, items(columns))),
        values=tuple(each if type(each) is int else text(each) for each in items(values)),
        parent=text(parent),
        target=text(target),
    )
