"""The statements of the SQLite store. Keys are blobs that begin with the namespace, in the order of blobs.

A value that an operator wrote by hand may be text. The statements read it as bytes.
"""

NOW_MILLISECONDS = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"

META = "SELECT incarnation, revision, compacted FROM meta"
INCARNATION = "SELECT incarnation FROM meta"
INODE = "SELECT inode FROM meta"
ADVANCE = "UPDATE meta SET revision = ?, history_bytes = history_bytes + ?"
COMPACT = "UPDATE meta SET compacted = ?, history_bytes = history_bytes - ?"
HISTORY_BYTES = "SELECT history_bytes FROM meta"
TOUCH = "UPDATE meta SET revision = revision"
MOVE = "UPDATE meta SET inode = ?"
NEW_INCARNATION = f"UPDATE meta SET inode = ?, incarnation = max(incarnation + 1, {NOW_MILLISECONDS})"  # noqa: S608 - ours

ITEMS = "SELECT key, CAST(value AS BLOB), revision, lease FROM item WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
ITEM_REVISION = "SELECT revision FROM item WHERE key = ?"
PUT_ITEM = "REPLACE INTO item (key, value, revision, lease) VALUES (?, ?, ?, ?)"
DELETE_ITEM = "DELETE FROM item WHERE key = ?"
KEYS_OF_LEASE = "SELECT key FROM item WHERE lease = ? ORDER BY key"

ADD_EVENT = "INSERT INTO event (revision, key, value, lease) VALUES (?, ?, ?, ?)"
NEXT_EVENTS = (
    "SELECT revision, key, CAST(value AS BLOB), lease FROM event WHERE key >= ?1 AND key < ?2 AND revision ="
    " (SELECT revision FROM event WHERE revision > ?3 AND key >= ?1 AND key < ?2 ORDER BY revision LIMIT 1)"
    " ORDER BY key"
)
EVENTS_SINCE = (
    "SELECT key, CAST(value AS BLOB), revision, lease FROM event"
    " WHERE revision > ? AND key >= ? AND key < ? ORDER BY revision"
)
BYTES_THROUGH = "SELECT coalesce(sum(length(key) + coalesce(length(value), 0)), 0) FROM event WHERE revision <= ?"
BYTES_BY_REVISION = (
    "SELECT revision, sum(length(key) + coalesce(length(value), 0)) FROM event GROUP BY revision ORDER BY revision"
)
TOUCHED = "SELECT DISTINCT key FROM event WHERE revision > ? LIMIT ?"
FORGET_EVENTS = "DELETE FROM event WHERE revision <= ?"

ADD_LEASE = "INSERT INTO lease (id, ttl_seconds) VALUES (?, ?) ON CONFLICT DO NOTHING"
LEASE = "SELECT renewals FROM lease WHERE id = ?"
RENEW = "UPDATE lease SET renewals = renewals + 1 WHERE id = ?"
END_LEASE = "DELETE FROM lease WHERE id = ?"
COUNTERS = "SELECT id, renewals, ttl_seconds FROM lease ORDER BY id LIMIT ?"
