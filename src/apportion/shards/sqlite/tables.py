"""The sharded tables of a file, as read from the file: the tables with the triggers that a set adds.

Promises: parents come before their children. Columns that the database computes are left out, because they cannot be
written.
Refuses: a table without a primary key, or with a key of more than four columns, because the log keeps four. It also
refuses a table with the index of a sharded table and without triggers. Changes of such a table would not be logged, and
its rows would stay behind. It also refuses a foreign key from outside of the set to a sharded table: it would name rows
that have moved away.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from apportion.errors import InvalidInput, SchemaDiffers
from apportion.shards.move_group import MoveGroup
from apportion.shards.schema import affinity_of
from apportion.shards.sqlite.schema import quoted

MOST_KEY_COLUMNS = 4
_NAMED = """SELECT tbl_name FROM {schema}.sqlite_master
    WHERE type = 'trigger' AND name = 'apportion_' || tbl_name || '_insert'"""
_NAMING = """SELECT kept.name, named."table" FROM {schema}.sqlite_master kept
    JOIN pragma_foreign_key_list(kept.name, '{schema}') named WHERE kept.type = 'table' ORDER BY 1, 2"""
_INDEXED = "SELECT tbl_name FROM {schema}.sqlite_master WHERE type = 'index' AND name = tbl_name || '_by_slot'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTable:
    """One sharded table. `columns` are the columns with stored values, in the order of their names, each with its form.

    The form is the affinity of the declared type, by which the database converts values. So the declarations may differ
    in a file that had rows before. They may have other words, another order of columns, or no NOT NULL for a key or a
    slot.

    `uniques` are the other lists of columns with unique values. `origin` is the view of the rows of an isolated key.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    uniques: frozenset[tuple[str, ...]]
    parents: frozenset[str]
    origin: str = field(default="", compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.columns)

    @property
    def quoted(self) -> str:
        """The name, quoted for SQL."""
        return quoted(self.name)

    @property
    def source(self) -> str:
        """The table, or the view of the moving rows, on an attached source."""
        return self.origin or f"source.{self.quoted}"

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key's columns in the log and in cursors."""
        return key_names(len(self.key))


def key_names(count: int) -> tuple[str, ...]:
    """Return the names of the first `count` columns of a key in the log."""
    return tuple(f"k{number}" for number in range(1, count + 1))


def columns(names: Iterable[str], table: str = "") -> str:
    """Return a list of columns for SQL. With `table`, the name of the table stands before each column."""
    return ", ".join(f"{table}.{quoted(name)}" if table else quoted(name) for name in names)


def tables_of(connection: sqlite3.Connection, schema: str = "main") -> tuple[ShardTable, ...]:
    """Return the sharded tables, parents before their children."""
    found = {name: _table(connection, name, schema) for name in sorted(names_of(connection, schema))}
    graph = {name: sorted(table.parents & found.keys() - {name}) for name, table in found.items()}
    try:
        return tuple(found[name] for name in TopologicalSorter(graph).static_order())
    except CycleError:
        return tuple(found.values())  # Foreign keys do nothing here, so any order is right.


def swept(connection: sqlite3.Connection, tables: Iterable[ShardTable], slots: Sequence[int], most: int) -> int:
    """Delete at most `most` rows of some slots, from one table after another. Return their number."""
    count = 0
    for table in tables:
        key = columns(table.key)
        found = f"SELECT {key} FROM main.{table.quoted} WHERE slot = ? LIMIT ?"
        for slot in slots:
            if count < most:
                delete = f"DELETE FROM main.{table.quoted} WHERE ({key}) IN ({found})"
                count += connection.execute(delete, (slot, most - count)).rowcount
    return count


def names_of(connection: sqlite3.Connection, schema: str = "main") -> set[str]:
    """Return the names of the sharded tables."""
    return {name for (name,) in connection.execute(_NAMED.format(schema=schema))}


class EqualTables:
    """The tables of both shards of a group. They are read again after each change of a schema."""

    def __init__(self, group: MoveGroup) -> None:
        self._group = group
        self._seen: object = None
        self._tables: tuple[ShardTable, ...] = ()

    def read(self, connection: sqlite3.Connection) -> tuple[ShardTable, ...]:
        """Return the tables. `SchemaDiffers` if they are not the same on both shards."""
        sides = ("main", "source")
        seen = [connection.execute(f"PRAGMA {side}.schema_version").fetchone() for side in sides]
        if seen != self._seen:
            self._tables = equal_tables(connection, self._group)
            self._seen = seen
        return self._tables


def equal_tables(connection: sqlite3.Connection, group: MoveGroup) -> tuple[ShardTable, ...]:
    """Return the tables of `main`, which must be equal to the tables of `source`.

    `SchemaDiffers` names all differences.
    """
    tables = tables_of(connection)
    here, there = ({table.name: table for table in each} for each in (tables, tables_of(connection, "source")))
    if here != there:
        source, target = f"shard {group.source}", f"shard {group.target}"
        found = [
            f"{place} is {first} in {source} and {second} in {target}"
            for name in sorted(here.keys() | there.keys())
            for place, first, second in _differences(name, there.get(name), here.get(name))
        ]
        raise SchemaDiffers(source, target, found)
    for shard, schema in ((group.source, "source"), (group.target, "main")):
        _require_triggers(connection, shard, schema)
        _require_inside(connection, shard, schema)
    return tables


def _require_triggers(connection: sqlite3.Connection, shard: str, schema: str) -> None:
    indexed = {name for (name,) in connection.execute(_INDEXED.format(schema=schema))}
    for name in sorted(indexed - names_of(connection, schema)):
        hint = f"Make them, then go on: apportion shards add URL SET {shard}=URL --models MODULE:Base"
        raise InvalidInput(f"triggers of table {name} in shard {shard}", "absent", "those of a sharded table", hint)


def _require_inside(connection: sqlite3.Connection, shard: str, schema: str) -> None:
    sharded = {name.lower() for name in names_of(connection, schema)}
    for name, parent in connection.execute(_NAMING.format(schema=schema)).fetchall():
        if parent.lower() in sharded and name.lower() not in sharded:
            hint = "Declare it as shards.Sharded with this parent, or drop the foreign key."
            problem = f"a foreign key to {parent}"
            raise InvalidInput(f"table {name} in shard {shard}", problem, "none from outside of the set", hint)


def _differences(name: str, source: ShardTable | None, target: ShardTable | None) -> Iterator[tuple[str, str, str]]:
    if source is None or target is None:
        first, second = ("no sharded table" if each is None else "a sharded table" for each in (source, target))
        yield name, first, second
        return
    forms, others = dict(source.columns), dict(target.columns)
    for column in sorted(forms.keys() | others.keys()):
        if forms.get(column) != others.get(column):
            yield f"{name}.{column}", forms.get(column, "absent"), others.get(column, "absent")
    shapes: tuple[tuple[str, Collection[object], Collection[object]], ...] = (
        ("primary key", source.key, target.key),
        ("unique index", source.uniques, target.uniques),
        ("foreign key", source.parents, target.parents),
    )
    yield from ((f"{noun} of {name}", _listed(a), _listed(b)) for noun, a, b in shapes if a != b)


def _listed(found: Collection[object]) -> str:
    return " and ".join(sorted(map(str, found))) or "absent"


def _table(connection: sqlite3.Connection, name: str, schema: str) -> ShardTable:
    described = 'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?, ?) ORDER BY name'
    rows = connection.execute(described, (name, schema)).fetchall()
    key = tuple(row[0] for row in sorted(rows, key=lambda row: int(row[3])) if row[3])
    if not 0 < len(key) <= MOST_KEY_COLUMNS:
        expected = f"1 to {MOST_KEY_COLUMNS} columns"
        raise InvalidInput(f"primary key of table {name}", key, expected, "Give the table such a key, then go on.")
    parents = connection.execute('SELECT DISTINCT "table" FROM pragma_foreign_key_list(?, ?)', (name, schema))
    return ShardTable(
        name=name,
        key=key,
        columns=tuple(
            (column, _form(kind, is_strict=strict and not place and column != "slot"))
            for column, kind, strict, place, hidden in rows
            if not hidden
        ),
        uniques=frozenset(_uniques(connection, name, schema, key)),
        parents=frozenset(parent for (parent,) in parents),
    )


def _form(kind: str, *, is_strict: bool) -> str:
    affinity = kind.upper() if kind.upper() == "ANY" else affinity_of(kind).upper()
    return f"{affinity}{' NOT NULL' if is_strict else ''}"


def _uniques(connection: sqlite3.Connection, name: str, schema: str, key: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the unique lists of columns that the key does not imply. Partial indexes are left out."""
    listed = 'SELECT name FROM pragma_index_list(?, ?) WHERE "unique" AND NOT partial'
    for (index,) in connection.execute(listed, (name, schema)).fetchall():
        found = connection.execute("SELECT name FROM pragma_index_info(?, ?)", (index, schema)).fetchall()
        parts = tuple(column for (column,) in found)
        if None not in parts and not set(key) <= set(parts):
            yield parts
