"""Takeover in SQLite: adds a column that may be empty, and triggers that empty it when the key of a row changes.

To add NOT NULL or a foreign key, SQLite would need a copy of the table, made under the lock of the file. So triggers do
this work here. The triggers of the fence refuse each row without a slot, because no shard owns it. Other triggers
refuse a child with another slot than its parent.

    apportion_<table>_rekey      until the end: a row with a changed key, or a child with another parent, loses its slot
    apportion_<table>_orphan_*   until the end: the children of a changed, deleted or replaced parent lose their slots

At the end, the triggers of the fence and those of `child_tables` take their place.

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
        """Drop the triggers of the takeover. By now each row has a slot, and the fence makes those of a shard."""
        for name, _ in _following(tables):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {quoted(name)}")


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


def _emptied(table: str, rows: str) -> str:
    return f"BEGIN UPDATE {quoted(table)} SET slot = NULL WHERE {rows}; END"  # noqa: S608 - names of models, quoted


def _exists(table: str, rows: str) -> str:
    return f"EXISTS (SELECT 1 FROM {quoted(table)} WHERE {rows})"  # noqa: S608 - names of models, quoted
