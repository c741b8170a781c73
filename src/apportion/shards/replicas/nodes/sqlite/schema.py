"""The tables of an SQLite node: maps, marks of slots, entries, and the id of the file.

Positions and marks are unsigned numbers of 64 bits, and SQLite has signed ones: `signed` moves them by 2**63, so that
their order stays.
"""

SIGN = 2**63
STATEMENTS = (
    "CREATE TABLE IF NOT EXISTS apportion_replica_file (life TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS apportion_replica_map (name TEXT PRIMARY KEY, id TEXT NOT NULL,"
    " number INTEGER NOT NULL, published BLOB NOT NULL, beat INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS apportion_replica_slot (map TEXT, slot INTEGER, seal INTEGER NOT NULL,"
    " clean INTEGER NOT NULL, opened INTEGER NOT NULL, PRIMARY KEY (map, slot)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS apportion_replica_entry (map TEXT, position INTEGER, key BLOB, version BLOB NOT NULL,"
    " value BLOB, expires INTEGER, mark INTEGER NOT NULL, PRIMARY KEY (map, position, key)) WITHOUT ROWID",
)


def signed(number: int) -> int:
    """Return an unsigned number of 64 bits as SQLite keeps it.

    >>> signed(0), signed(2**64 - 1)
    (-9223372036854775808, 9223372036854775807)
    """
    return number - SIGN
