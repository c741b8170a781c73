"""The schema in an SQLite file: its versions, its owner, and the inode at which its present incarnation began.

Promises: a released version never changes; each later version is a list of statements that lead to it. The header of
the file contains the version (`user_version`), and the mark of this application (`application_id`).
"""

import sqlite3
from pathlib import Path

from apportion.errors import InvalidInput
from apportion.stores.sqlite import statements as sql
from apportion.stores.sqlite.connection import Connection, code_of, number_of, value_of

APPLICATION_ID = 0x41707274  # "Aprt", so that file(1) and this store recognize the file

_VERSIONS = (
    (
        # One row. `inode` is the file's inode when this incarnation began: a copy has another. 0: not known.
        "CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), incarnation INTEGER NOT NULL,"
        " revision INTEGER NOT NULL, compacted INTEGER NOT NULL, inode INTEGER NOT NULL,"
        " history_bytes INTEGER NOT NULL)",
        "CREATE TABLE item (key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, lease INTEGER)"
        " WITHOUT ROWID",
        "CREATE INDEX item_by_lease ON item (lease) WHERE lease IS NOT NULL",
        # The history: the new state of each key; no value means that the key was deleted.
        "CREATE TABLE event (revision INTEGER NOT NULL, key BLOB NOT NULL, value BLOB, lease INTEGER,"
        " PRIMARY KEY (revision, key)) WITHOUT ROWID",
        "CREATE TABLE lease (id INTEGER PRIMARY KEY, renewals INTEGER NOT NULL DEFAULT 0, ttl_seconds REAL NOT NULL)",
        f"INSERT INTO meta VALUES (1, max(1, {sql.NOW_MILLISECONDS}), 0, 0, 0, 0)",  # noqa: S608 - ours
    ),
)
NEWEST = len(_VERSIONS)


def statements(*, since: int) -> tuple[str, ...]:
    """Return the statements from a version (0: an empty file) to the newest, to be run in one transaction."""
    steps = [statement for version in _VERSIONS[since:] for statement in version]
    if not steps:
        return ()
    return (*steps, f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {NEWEST}")


def make_schema(connection: Connection) -> int:
    """Bring the schema to the newest version, if no other process has; return the version before."""
    use_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        before = int(value_of(connection, "PRAGMA user_version"))
        for statement in statements(since=before):
            connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return before


def use_wal(connection: Connection) -> str:
    """Set the journal mode of the file to WAL, unless it is WAL already; return the mode after that."""
    # EXTRA syncs the directory after the rollback journal of this change is deleted. If that journal came back after
    # a power cut, it would roll back all later commits.
    connection.execute("PRAGMA synchronous=EXTRA")
    return str(value_of(connection, "PRAGMA journal_mode=WAL"))


def version_of(connection: Connection, path: Path) -> int:
    """Return the version of the schema, 0 for an empty file; `InvalidInput` for a future version or a foreign file."""
    hint = "Name another file; nothing was written to this one."
    try:
        connection.execute("BEGIN")  # all three reads see one state, even while another process makes the schema
        mark = value_of(connection, "PRAGMA application_id")
        tables = value_of(connection, "SELECT count(*) FROM sqlite_master")
        version = value_of(connection, "PRAGMA user_version")
    except sqlite3.DatabaseError as error:
        if code_of(error) != sqlite3.SQLITE_NOTADB:
            raise
        raise InvalidInput("file of the store", f"no database: {path}", "an SQLite file, or none", hint) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if mark != APPLICATION_ID and (mark or tables or version):
        raise InvalidInput("file of the store", f"another application's: {path}", "a store of apportion", hint)
    if version > NEWEST:
        expected = f"at most {NEWEST}, which this release writes"
        raise InvalidInput("schema version of the store", version, expected, "Upgrade apportion on this host.")
    return int(version)


def damage_of(connection: Connection, check: str) -> str:
    """Return the damage that one of SQLite's checks finds in the file, empty for none."""
    try:
        found = str(value_of(connection, f"PRAGMA {check}(1)"))
    except sqlite3.DatabaseError as error:
        if code_of(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        found = str(error)
    return "" if found == "ok" else f"the file is damaged ({' '.join(found.split())})"


def stood_at(connection: Connection) -> int:
    """Return the inode at which the present incarnation began."""
    return number_of(connection, sql.INODE)


def settle_at(connection: Connection, inode: int) -> None:
    """Remember the inode. If the file remembers another inode, it is a copy and begins another incarnation."""
    remembered = stood_at(connection)
    if remembered != inode:
        connection.execute(sql.NEW_INCARNATION if remembered else sql.MOVE, (inode,))
