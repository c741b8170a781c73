"""The schema of the SQLite store, version by version.

Promises: a version that was released is never changed; the next one is the list of statements that lead to it. The
version stands in the file's header (`user_version`), beside the mark of this application (`application_id`).
"""

from apportion.stores.sqlite.statements import NOW_MILLISECONDS

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
        f"INSERT INTO meta VALUES (1, max(1, {NOW_MILLISECONDS}), 0, 0, 0, 0)",  # noqa: S608 - ours
    ),
)
NEWEST = len(_VERSIONS)


def statements(*, since: int) -> tuple[str, ...]:
    """Return the statements from a version (0: an empty file) to the newest, to be run in one transaction."""
    steps = [statement for version in _VERSIONS[since:] for statement in version]
    if not steps:
        return ()
    return (*steps, f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {NEWEST}")
