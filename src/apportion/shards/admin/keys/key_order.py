"""Key order: the check that models have one ordered shard key, and that their database orders it as a router does.

Integers are ordered by value. Text is ordered by its bytes in UTF-8: as `str` in Python, under BINARY in SQLite, and
under the collation "C" in PostgreSQL. Statements name the collation, so that of the column does not matter.

Refuses (`InvalidInput`): keys of several columns, UUIDs, types that convert values, models with keys of both kinds, and
databases with text in another encoding than UTF-8.
"""

from sqlalchemy import Connection, Enum, Integer, String, Uuid
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.shards.ranges.range_map import Bound, check_bound
from apportion.shards.takeover.sharded_table import ShardedTable, sharded_in_order

_HINT = "Make the set by hash: leave out --by ranges."
_ENCODING = {"sqlite": "PRAGMA encoding", "postgresql": "SHOW server_encoding"}


def check_ordered(base: type[DeclarativeBase]) -> type[int] | type[str]:
    """Return the type of the shard keys of all models: int or str. `InvalidInput` names the key that has no order."""
    kinds: dict[type[int] | type[str], str] = {}
    for table in sharded_in_order(base):
        if table.parent is None:
            kinds.setdefault(_kind(table), f"{table.name}.{table.key[0]}")
    if len(kinds) != 1:
        raise InvalidInput("shard keys", " and ".join(kinds.values()), "keys of one kind: integers or text", _HINT)
    return next(iter(kinds))


def check_at(base: type[DeclarativeBase], at: object) -> Bound:
    """Return a checked bound for the ranges of a base. `InvalidInput` if it is of another kind than the keys."""
    kind, checked = check_ordered(base), check_bound(at)
    if not isinstance(checked, kind):
        hint = 'Write the first key of the new slot, such as "m" or 100.'
        raise InvalidInput("boundary of the split", at, f"a value of {kind.__name__}, as the shard keys are", hint)
    return checked


def check_encoding(connection: Connection, shard: str) -> None:
    """Raise `InvalidInput` for a database with text in another encoding than UTF-8. Its order is another one."""
    found = f"{connection.exec_driver_sql(_ENCODING[connection.dialect.name]).scalar_one()}"
    if found.upper().replace("-", "") != "UTF8":
        hint = "Copy the rows into a database in UTF-8."
        raise InvalidInput(f"encoding of shard {shard}", found, "UTF-8, because the set is by ranges", hint)


def _kind(table: ShardedTable) -> type[int] | type[str]:
    types = [table.mapped.c[name].type for name in table.key]
    if len(types) == 1 and isinstance(types[0], Integer):
        return int
    if len(types) == 1 and isinstance(types[0], String) and not isinstance(types[0], Enum | Uuid):
        return str
    found = ", ".join(f"{table.name}.{name} ({kind})" for name, kind in zip(table.key, types, strict=True))
    raise InvalidInput("shard key", found, "one column of text or integers, because the set is by ranges", _HINT)
