"""Meta: the row in a database that names its set and its shard. A router compares the row at its first connection."""

from dataclasses import dataclass, fields

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from apportion.errors import InvalidInput

_ABSENT_CODES = frozenset({"42P01", "3F000"})
"""Codes of PostgreSQL for an absent table and an absent schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMeta:
    """The row in a database that names its set and its shard."""

    set_id: str
    shard: str
    slots: int
    hasher: str
    format: int


def meta_of(connection: Connection, table: str) -> ShardMeta | None:
    """Return the row that a database has in this table. Return None for an absent or empty table.

    Other errors of the driver pass unchanged.
    """
    try:
        columns = "set_id, shard, slots, hasher, format"
        row = connection.exec_driver_sql(f"SELECT {columns} FROM {table}").fetchone()  # noqa: S608 - ours
    except DBAPIError as error:
        if not _is_absent(error.orig):
            raise
        return None
    return None if row is None else ShardMeta(set_id=row[0], shard=row[1], slots=row[2], hasher=row[3], format=row[4])


def _is_absent(error: BaseException | None) -> bool:
    """Whether an error of a driver means an absent table. SQLite says so by its text, PostgreSQL by its code."""
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return code in _ABSENT_CODES or f"{error}".startswith("no such table")


def check_meta(connection: Connection, expected: ShardMeta, table: str) -> None:
    """Refuse a database that is not the shard that the control store names. `InvalidInput` names the field."""
    found = meta_of(connection, table)
    if found is None:
        hint = (
            "If the shard was being removed, finish it: apportion shards remove URL SET ID. "
            "Otherwise look at its URL: apportion shards status URL SET"
        )
        raise InvalidInput(f"database of shard {expected.shard}", "no shard of a set", "one that init made", hint)
    compare_meta(found, expected)


def compare_meta(found: ShardMeta, expected: ShardMeta) -> None:
    """Refuse the row of another shard, or of another set. `InvalidInput` names the field."""
    for name in (field.name for field in fields(ShardMeta)):
        if getattr(found, name) != getattr(expected, name):
            hint = "Look at the URL of the shard: apportion shards status URL SET"
            wanted = f"{getattr(expected, name)}, as the control store says"
            raise InvalidInput(f"{name} of shard {expected.shard}", getattr(found, name), wanted, hint)
