"""Takeover in SQLite: adds a column that may be empty, and triggers that empty it when the key of a row changes.

To add NOT NULL or a foreign key, SQLite would need a copy of the table, made under the lock of the file. So triggers do
this work here. The triggers of the fence refuse each row without a slot, because no shard owns it. Other triggers
refuse a child with another slot than its parent.

    apportion_<table>_rekey      until the end: a row with a changed key, or a child with another parent, loses its slot
    apportion_<table>_orphan_*   until the end: the children of a changed, deleted or replaced parent lose their slots
    apportion_<table>_parent_*   for ever: a child has the slot of its parent

Promises: each row has the slot of its key, or none, even if an old program wrote it. Writers wait for one statement at
a time.
Source: https://www.sqlite.org/lang_altertable.html#otheralter
"""

from collections.abc import Iterator

from sqlalchemy import Connection, Engine

from apportion.shards.sqlite.schema import quoted
from apportion.shards.takeover.rows import Tables, has_slot
from apportion.shards.takeover.sharded_table import ParentColumn, ShardedTable


class SqliteTakeover:
    """See `TakeoverStatements`. The statements of SQLite before and after the fill of the slots."""

    def begin(self, connection: Connection, tables: Tables) -> None:
        """Add the columns, and the triggers that keep them right. Parts that exist already stay."""
        for table in tables.each:
            if not has_slot(connection, table):
                # A STRICT table has no type SMALLINT.
                connection.exec_driver_sql(f"ALTER TABLE {quoted(table.name)} ADD COLUMN slot INTEGER")
        for name, body in _following(tables):
            connection.exec_driver_sql(f"CREATE TRIGGER IF NOT EXISTS {quoted(name)} {body}")

    def index(self, engine: Engine, table: ShardedTable) -> None:
        """Make the unique index over (slot, primary key). Writers wait for it."""
        with engine.begin() as connection:
            for index in table.mapped.indexes:
                if index.name == f"{table.name}_by_slot":
                    index.create(connection, checkfirst=True)

    def lock(self, connection: Connection, tables: Tables) -> None:
        """Do nothing, because the transaction has the lock of the file."""

    def seal(self, engine: Engine, tables: Tables) -> None:
        """Do nothing, because triggers keep the slots."""

    def end(self, connection: Connection, tables: Tables) -> None:
        """Replace the triggers of the takeover by those of a shard. By now each row has a slot."""
        for name, _ in _following(tables):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {quoted(name)}")
        for table in tables.each:
            if table.parent is not None:
                for name, body in _of_child(table, table.parent):
                    connection.exec_driver_sql(f"CREATE TRIGGER IF NOT EXISTS {quoted(name)} {body}")


def _following(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield the name and the body of each trigger that stands until the end."""
    for table in tables.each:
        named = (table.parent.column,) if table.parent else table.key
        changed = " OR ".join(f"NEW.{quoted(each)} IS NOT OLD.{quoted(each)}" for each in named)
        place = " AND ".join(f"{quoted(each)} IS NEW.{quoted(each)}" for each in table.primary_key)
        columns = ", ".join(map(quoted, named))
        emptied = _emptied(table.name, place)
        body = f"AFTER UPDATE OF {columns} ON {quoted(table.name)} WHEN {changed} {emptied}"
        yield f"apportion_{table.name}_rekey", body
        if table.parent is not None:
            yield from _of_parent(table, table.parent)


def _of_parent(child: ShardedTable, parent: ParentColumn) -> Iterator[tuple[str, str]]:
    owner, target, column = quoted(parent.table), quoted(parent.target), quoted(parent.column)

    def _of(*rows: str) -> str:
        named = ", ".join(f"{row}.{target}" for row in rows)
        return _emptied(child.name, f"{column} IN ({named})")

    name = f"apportion_{child.name}_orphan"
    emptying = "WHEN NEW.slot IS NULL AND OLD.slot IS NOT NULL"
    yield f"{name}_slot", f"AFTER UPDATE OF slot ON {owner} {emptying} {_of('NEW')}"
    renamed = f"WHEN NEW.{target} IS NOT OLD.{target}"
    yield f"{name}_key", f"AFTER UPDATE OF {target} ON {owner} {renamed} {_of('NEW', 'OLD')}"
    yield f"{name}_delete", f"AFTER DELETE ON {owner} {_of('OLD')}"
    replaced = f"WHEN {_exists(parent.table, f'{target} = NEW.{target}')}"
    yield f"{name}_replace", f"BEFORE INSERT ON {owner} {replaced} {_of('NEW')}"


def _of_child(child: ShardedTable, parent: ParentColumn) -> Iterator[tuple[str, str]]:
    target, column = quoted(parent.target), quoted(parent.column)
    differs = _exists(parent.table, f"{target} = NEW.{column} AND slot IS NOT NEW.slot")
    refused = "BEGIN SELECT RAISE(ABORT, 'apportion: a child has the slot of its parent'); END"
    for act, of in (("insert", "INSERT"), ("update", f"UPDATE OF {column}, slot")):
        yield f"apportion_{child.name}_parent_{act}", f"BEFORE {of} ON {quoted(child.name)} WHEN {differs} {refused}"


def _emptied(table: str, rows: str) -> str:
    return f"BEGIN UPDATE {quoted(table)} SET slot = NULL WHERE {rows}; END"  # noqa: S608 - names of models, quoted


def _exists(table: str, rows: str) -> str:
    return f"EXISTS (SELECT 1 FROM {quoted(table)} WHERE {rows})"  # noqa: S608 - names of models, quoted
