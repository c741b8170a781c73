"""Child tables of a file that had rows before it became a shard: triggers keep the slots of children and parents equal.

In other files, a foreign key (slot, parent) does this. SQLite adds no foreign key to a table that is there.

    apportion_<table>_parent_*   a child has the slot of its parent
"""

from collections.abc import Iterator

from sqlalchemy import Connection, Table

from apportion.shards.models import parent_of
from apportion.shards.sqlite.schema import literal, quoted

_LISTED = """SELECT name FROM sqlite_schema WHERE type = 'trigger'
    AND name IN ('apportion_' || tbl_name || '_parent_insert', 'apportion_' || tbl_name || '_parent_update')"""
_REFUSED = "BEGIN SELECT RAISE(ABORT, 'apportion: a child has the slot of its parent'); END"


def child_triggers(connection: Connection, table: Table) -> Iterator[tuple[str, str]]:
    """Yield the name and the statement of each trigger that a table needs. None for a table with the foreign key."""
    parent = parent_of(table)
    keyed = f"SELECT 1 FROM pragma_foreign_key_list({literal(table.name)}) WHERE \"from\" = 'slot'"  # noqa: S608
    if parent is None or connection.exec_driver_sql(keyed).first() is not None:
        return
    column, owner, target = map(quoted, parent)
    differs = f"EXISTS (SELECT 1 FROM {owner} WHERE {target} = NEW.{column} AND slot IS NOT NEW.slot)"  # noqa: S608
    for act, of in (("insert", "INSERT"), ("update", f"UPDATE OF {column}, slot")):
        name = f"apportion_{table.name}_parent_{act}"
        made = f"CREATE TRIGGER IF NOT EXISTS {quoted(name)} BEFORE {of} ON {quoted(table.name)}"
        yield name, f"{made} WHEN {differs} {_REFUSED}"


def drop_child_triggers(connection: Connection) -> None:
    """Drop these triggers on all tables. SQLite renames no table while a trigger names a parent that is gone.

    A revision that makes a parent anew drops it, and then renames the new table.
    """
    is_begun = connection.in_transaction()
    for name in connection.exec_driver_sql(_LISTED).scalars().all():
        connection.exec_driver_sql(f"DROP TRIGGER {quoted(name)}")
    if not is_begun:
        connection.commit()
