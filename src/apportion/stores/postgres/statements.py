"""The statements of the PostgreSQL store. The driver fills in `{schema}` and the like, quoted.

Each is a transaction of its own, and relies on no state of a session. Writes are functions of the schema
(`migrations.py`).
"""

# The facts about a server that a plain role may read. The fingerprint is the id of the cluster and its timeline. The
# timeline grows when a standby is promoted or a point in time is restored. A standby has no timeline of its own, so
# its fingerprint leaves the timeline empty.
PROBE = """
SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
    (SELECT system_identifier FROM pg_control_system()) || '/' ||
        CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END
"""

# This statement reads the catalog as a table. After a direct lookup of an absent name, a session may keep the answer,
# and miss the table once another session has made it.
HAS_SCHEMA = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = {channel} AND tablename = 'meta')"

SCHEMA_VERSION = "SELECT schema_version FROM {schema}.meta"

# Compare-and-set on the fingerprint: if many processes connect after a change, one begins the new incarnation.
ADOPT = """
UPDATE {schema}.meta SET
    incarnation = CASE fingerprint WHEN '' THEN incarnation
        ELSE greatest(incarnation + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) END,
    fingerprint = %(fingerprint)s
WHERE fingerprint <> %(fingerprint)s
"""

RESTORED = """
UPDATE {schema}.meta SET incarnation = greatest(
    now.incarnation + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
)
FROM (SELECT incarnation FROM {schema}.meta FOR UPDATE) AS now
RETURNING now.incarnation, {schema}.meta.incarnation
"""

WHOLE_STATE = "SELECT incarnation, revision, compacted FROM {schema}.meta"

NOTHING = "SELECT 1"

STATE = "SELECT incarnation, revision FROM {schema}.meta"

# The next portion of a scan: items from `next` on, limited by number and by bytes. If keys before `next` have changed
# since the last portion, it has these changes too. All rows show one state.
SCAN = """
SELECT meta.incarnation, meta.revision, meta.compacted,
    found.is_change, found.key, found.value, found.revision, found.lease
FROM {schema}.meta LEFT JOIN LATERAL (
    SELECT false AS is_change, page.key, page.value, page.revision, page.lease FROM (
        SELECT first.*, sum(octet_length(value)) OVER (ORDER BY key) - octet_length(value) AS bytes_before FROM (
            SELECT key, value, revision, lease FROM {schema}.item WHERE key >= %(next)s AND key < %(end)s
            ORDER BY key LIMIT %(most)s
        ) AS first
    ) AS page WHERE page.bytes_before < %(most_bytes)s
    UNION ALL
    SELECT true, key, value, revision, lease FROM {schema}.event
    WHERE meta.revision > %(at)s AND revision > %(at)s AND key >= %(start)s AND key < %(next)s
) AS found ON true
"""

# The keys of the first `most` changes after a revision. There are none if that revision is still the newest.
TOUCHED = """
SELECT meta.incarnation, meta.revision, meta.compacted, touched.key
FROM {schema}.meta LEFT JOIN LATERAL (
    SELECT key FROM {schema}.event WHERE meta.revision > %(after)s AND revision > %(after)s
    ORDER BY revision LIMIT %(most)s
) AS touched ON true
"""

# The revisions of the first `most` events, each of them whole, and at least one revision.
HISTORY = """
SELECT meta.incarnation, meta.revision, meta.compacted, found.revision, found.key, found.value, found.lease
FROM {schema}.meta LEFT JOIN (
    SELECT revision, key, value, lease FROM {schema}.event
    WHERE revision > %(after)s AND key >= %(start)s AND key < %(end)s AND revision <= coalesce((
        SELECT revision FROM {schema}.event WHERE revision > %(after)s AND key >= %(start)s AND key < %(end)s
        ORDER BY revision LIMIT 1 OFFSET %(most)s - 1
    ), 9223372036854775807)
) AS found ON true
ORDER BY found.revision, found.key
"""

COMMIT = """
SELECT * FROM {schema}.commit_when(
    %s, %s, %b::bytea[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[], %s
)
"""

GRANT = "SELECT * FROM {schema}.grant_lease(%s, %s, %s, %s, %s)"

RENEW = "SELECT * FROM {schema}.renew_leases(%s, %s, %s::bigint[])"

END = "SELECT * FROM {schema}.end_lease(%s, %s, %s, %s, %s)"

COUNTERS = """
SELECT meta.incarnation, meta.revision, lease.id, lease.renewals, lease.ttl_seconds
FROM {schema}.meta LEFT JOIN {schema}.lease ON true
"""

# Only the counters of the leases with the lowest ids.
LOWEST_COUNTERS = """
SELECT meta.incarnation, meta.revision, lowest.id, lowest.renewals, lowest.ttl_seconds
FROM {schema}.meta LEFT JOIN {schema}.lowest_leases(%(most)s) AS lowest ON true
"""

LISTEN = "LISTEN {schema}"

HINT = "SELECT pg_notify({channel}, '')"

# The rights of a member and no more.
GRANTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {user}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.item, {schema}.event, {schema}.lease TO {user}",
    "GRANT SELECT, UPDATE ON {schema}.meta TO {user}",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {user}",
)

# The tables on which the user lacks a right.
LACKING = """
SELECT array_to_string(array(
    SELECT tables.name FROM (VALUES
        ('item', 'SELECT'), ('item', 'INSERT'), ('item', 'UPDATE'), ('item', 'DELETE'),
        ('event', 'SELECT'), ('event', 'INSERT'), ('event', 'DELETE'),
        ('lease', 'SELECT'), ('lease', 'INSERT'), ('lease', 'UPDATE'), ('lease', 'DELETE'),
        ('meta', 'SELECT'), ('meta', 'UPDATE')
    ) AS tables (name, needed)
    WHERE CASE WHEN has_schema_privilege({channel}, 'USAGE')
        THEN NOT has_table_privilege({channel} || '.' || tables.name, tables.needed) ELSE true END
    GROUP BY tables.name ORDER BY tables.name
), ', ')
"""

LOCK_UPGRADE = "SELECT pg_advisory_xact_lock(hashtext({channel}))"
SET_VERSION = "UPDATE {schema}.meta SET schema_version = {version}"
