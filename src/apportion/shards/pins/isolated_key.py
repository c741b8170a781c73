"""Isolated key: the rows of one key that leave their hash slot, and the slot of their own that they get.

The rows of a key are found by its values, because all keys of a slot share the slot's index. A child without the shard
key belongs to the key of its parent. So each table of the set has a condition, in the words of its database.

Promises: the conditions are kept with the move, so any mover finds the same rows, without the models.
Refuses: a table without a condition. Its rows would stay behind.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote_to_bytes

from apportion.errors import InvalidInput
from apportion.model.codec.parsing import integer, items, members, refuse, text

_MOST_SLOTS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCondition:
    """The condition of one table for the rows of a key.

    - `columns`, `values`: the columns of the shard key, and their values as the database stores them. Without columns,
      the table has no row of the key, because its own key has another form.
    - `parent`, `target`: for a child, the table of its parents, and the column that the child's only column names.
    """

    table: str
    columns: tuple[str, ...] = ()
    values: tuple[int | str, ...] = ()
    parent: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedKey:
    """A key by its bytes, the slot that it gets, and the condition of each table for its rows."""

    key: bytes
    slot: int
    conditions: tuple[KeyCondition, ...]

    def line_of(self, table: str) -> tuple[KeyCondition, ...]:
        """Return the condition of a table, and then those of its parents, up to the table with the shard key."""
        line = [self._of(table)]
        while line[-1].parent and len(line) <= len(self.conditions):
            line.append(self._of(line[-1].parent))
        if line[-1].parent:
            hint = "Let each __shard_parent__ lead to a table with a shard key."
            raise InvalidInput(f"parents of table {table}", "a circle", "a table with a shard key", hint)
        return tuple(line)

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
    return {"key": quote_from_bytes(isolated.key, safe=""), "slot": isolated.slot, "conditions": conditions}


def isolated_in(value: object) -> IsolatedKey:
    """Return the isolated key in the record of a move. `BadSnapshot` for any other value."""
    key, number, listed = members(value, "key", "slot", "conditions")
    slot = integer(number)
    if not 0 < slot < _MOST_SLOTS:
        refuse(slot, f"a slot below {_MOST_SLOTS}")
    conditions = tuple(_condition(*items(each, 5)) for each in items(listed))
    return IsolatedKey(key=unquote_to_bytes(text(key)), slot=slot, conditions=conditions)


def _condition(table: object, columns: object, values: object, parent: object, target: object) -> KeyCondition:
    return KeyCondition(
        table=text(table),
        columns=tuple(map(text, items(columns))),
        values=tuple(each if type(each) is int else text(each) for each in items(values)),
        parent=text(parent),
        target=text(target),
    )
