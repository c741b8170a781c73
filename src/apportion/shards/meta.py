"""Meta: the row by which a database says which shard of which set it is. It is compared at the first connection."""

from dataclasses import dataclass, fields

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from apportion.errors import InvalidInput

_ABSENT_CODES = frozenset({"42P01", "3F000"})
"""Of PostgreSQL: no such table, no such schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMeta:
    """The row by which a database says which shard it is."""

    set_id: str
    shard: str
    slots: int
    hasher: str
    format: int


def meta_of(connection: Connection, table: str) -> ShardMeta | None:
    """Return the row that a database has in this table, None if it has no such table. Other errors are the driver's."""
    try:
        columns = "set_id, shard, slots, hasher, format"
        row = connection.exec_driver_sql(f"SELECT {columns} FROM {table}").fetchone()  # noqa: S608 - ours
    except DBAPIError as error:
        if not _is_absent(error.orig):
            raise
        return None
    return None if row is None else ShardMeta(set_id=row[0], shard=row[1], slots=row[2], hasher=row[3], format=row[4])


def _is_absent(error: BaseException | None) -> bool:
    """Whether a driver says that a table is not there: SQLite by its words, PostgreSQL by a code."""
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return code in _ABSENT_CODES or f"{error}".startswith("no such table")


def check_meta(connection: Connection, expected: ShardMeta, table: str) -> None:
    """Refuse a database that is not the shard that the control store says; `InvalidInput` names the field."""
    found = meta_of(connection, table)
    if found is None:
        hint = "Make it one: apportion shards init URL SET --shard ID=URL"
        raise InvalidInput(f"database of shard {expected.shard}", "no shard of a set", "one that init made", hint)
    for name in (field.name for field in fields(ShardMeta)):
        if getattr(found, name) != getattr(expected, name):
            hint = "Look at the URL of the shard: apportion shards status URL SET"
            wanted = f"{getattr(expected, name)}, as the control store says"
            raise InvalidInput(f"{name} of shard {expected.shard}", getattr(found, name), wanted, hint)
