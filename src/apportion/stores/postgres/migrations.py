"""The schema of the PostgreSQL store: tables, and a function for each write. A call is one round trip.

The driver fills in `{schema}` and `{channel}`, quoted. Every write that makes a revision first locks the one row of
`meta`. So commit order is revision order, and each statement of a function sees all earlier commits. Numbers of a
sequence, in contrast, become visible out of order, and a watch that follows them misses events. No function relies on
any state of a session, so each may run behind a transaction pooler.

`random_page_cost` makes the planner find a row by its index, also in a small table. Otherwise the planner reads a small
table whole, and each renewal reads the leases of the whole fleet.

Each function is one transaction. It returns a verdict, and the incarnation and revision that it found. It compares
these with the handle's values, and does nothing if the store went back. Names and columns are as in the SQLite store.
"""

_META = """
CREATE TABLE {schema}.meta (
    id integer PRIMARY KEY CHECK (id = 1),
    incarnation bigint NOT NULL,
    revision bigint NOT NULL,
    compacted bigint NOT NULL,
    fingerprint text NOT NULL,
    schema_version integer NOT NULL,
    history_bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20)
"""

_ITEM = """
CREATE TABLE {schema}.item (
    key bytea PRIMARY KEY,
    value bytea NOT NULL,
    revision bigint NOT NULL,
    lease bigint
)
"""

_ITEM_BY_LEASE = "CREATE INDEX item_by_lease ON {schema}.item (lease) WHERE lease IS NOT NULL"

# The new state of each key that a revision changed; a deleted key has no value.
_EVENT = """
CREATE TABLE {schema}.event (
    revision bigint NOT NULL,
    key bytea NOT NULL,
    value bytea,
    lease bigint,
    PRIMARY KEY (revision, key)
)
"""

_LEASE = """
CREATE TABLE {schema}.lease (
    id bigint PRIMARY KEY,
    ttl_seconds double precision NOT NULL,
    renewals bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50)
"""

_FIRST_ROW = """
INSERT INTO {schema}.meta VALUES (1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, 0, 0, '', 1)
"""

_COMPACT = """
CREATE FUNCTION {schema}.compact(through bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.meta SET compacted = least(through, revision) WHERE compacted < least(through, revision);
    DELETE FROM {schema}.event WHERE revision <= (SELECT compacted FROM {schema}.meta);
    UPDATE {schema}.meta SET history_bytes = (
        SELECT coalesce(sum(octet_length(key) + coalesce(octet_length(value), 0)), 0) FROM {schema}.event
    );
END $$
"""

# The newest revision such that its events and all later events together have more than this number of bytes.
_REVISION_BEFORE = """
CREATE FUNCTION {schema}.revision_before(newest_bytes bigint) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce(max(each.revision), 0) FROM (
        SELECT revision,
            sum(octet_length(key) + coalesce(octet_length(value), 0)) OVER (ORDER BY revision DESC) AS newer
        FROM {schema}.event
    ) AS each WHERE each.newer > newest_bytes
$$
"""

# Whether the cluster or its timeline differs from the fingerprint in the schema. Behind a pooler, a connection outlives
# a fail-over. So each write that makes a revision checks this, and no revision is given twice in one incarnation.
_HAS_MOVED = """
CREATE FUNCTION {schema}.has_moved(remembered text) RETURNS boolean LANGUAGE sql AS $$
    SELECT remembered <> (SELECT system_identifier FROM pg_control_system()) || '/' ||
        left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
$$
"""

# Makes this transaction wait for its flush, and limits its wait for a lock. So a blocked statement surely fails before
# its caller stops waiting for a reply.
_BE_SAFE = """
CREATE FUNCTION {schema}.be_safe(lock_milliseconds integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', lock_milliseconds::text, true);
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$
"""

# Each 1000th revision shortens the history to 10000 revisions. A history over 64 MiB is cut to 32 MiB.
_COMMIT = """
CREATE FUNCTION {schema}.commit_when(
    known_incarnation bigint, known_revision bigint, compared bytea[], expected bigint[],
    put_keys bytea[], put_values bytea[], put_leases bigint[], deleted bytea[], lock_milliseconds integer,
    OUT verdict text, OUT at_incarnation bigint, OUT at_revision bigint, OUT lost bigint
) LANGUAGE plpgsql SET random_page_cost TO 0 AS $$
DECLARE
    remembered text;
    held bigint;
BEGIN
    PERFORM {schema}.be_safe(lock_milliseconds);
    SELECT incarnation, revision, fingerprint INTO at_incarnation, at_revision, remembered
        FROM {schema}.meta FOR UPDATE;
    IF {schema}.has_moved(remembered) THEN
        verdict := 'moved';
        RETURN;
    END IF;
    IF at_incarnation <> known_incarnation OR at_revision < known_revision THEN
        verdict := 'went back';
        RETURN;
    END IF;
    FOR place IN 1 .. cardinality(compared) LOOP
        IF expected[place] IS DISTINCT FROM (SELECT revision FROM {schema}.item WHERE key = compared[place]) THEN
            verdict := 'refused';
            RETURN;
        END IF;
    END LOOP;
    FOREACH lost IN ARRAY put_leases LOOP
        IF lost IS NOT NULL AND NOT EXISTS (SELECT FROM {schema}.lease WHERE id = lost) THEN
            verdict := 'lease lost';
            RETURN;
        END IF;
    END LOOP;
    at_revision := at_revision + 1;
    UPDATE {schema}.meta SET revision = at_revision, history_bytes = history_bytes + (
        SELECT coalesce(sum(octet_length(put.key) + octet_length(put.value)), 0)
        FROM unnest(put_keys, put_values) AS put (key, value)
    ) RETURNING history_bytes INTO held;
    INSERT INTO {schema}.item (key, value, revision, lease)
        SELECT put.key, put.value, at_revision, put.lease
        FROM unnest(put_keys, put_values, put_leases) AS put (key, value, lease)
        ON CONFLICT (key) DO UPDATE
        SET value = excluded.value, revision = excluded.revision, lease = excluded.lease;
    FOR place IN 1 .. cardinality(deleted) LOOP
        DELETE FROM {schema}.item WHERE key = deleted[place];
    END LOOP;
    INSERT INTO {schema}.event (revision, key, value, lease)
        SELECT at_revision, put.key, put.value, put.lease
        FROM unnest(put_keys, put_values, put_leases) AS put (key, value, lease)
        UNION ALL SELECT at_revision, gone.key, NULL, NULL FROM unnest(deleted) AS gone (key);
    IF at_revision % 1000 = 0 THEN
        PERFORM {schema}.compact(at_revision - 10000);
    END IF;
    IF held > 67108864 THEN
        PERFORM {schema}.compact({schema}.revision_before(33554432));
    END IF;
    PERFORM pg_notify({channel}, at_revision::text);
    verdict := 'committed';
END $$
"""

_GRANT = """
CREATE FUNCTION {schema}.grant_lease(
    known_incarnation bigint, known_revision bigint, granted bigint, ttl double precision,
    lock_milliseconds integer, OUT verdict text, OUT at_incarnation bigint, OUT at_revision bigint
) LANGUAGE plpgsql AS $$
DECLARE
    remembered text;
BEGIN
    PERFORM {schema}.be_safe(lock_milliseconds);
    SELECT incarnation, revision, fingerprint INTO at_incarnation, at_revision, remembered FROM {schema}.meta;
    IF {schema}.has_moved(remembered) THEN
        verdict := 'moved';
        RETURN;
    END IF;
    IF at_incarnation <> known_incarnation OR at_revision < known_revision THEN
        verdict := 'went back';
        RETURN;
    END IF;
    INSERT INTO {schema}.lease (id, ttl_seconds) VALUES (granted, ttl) ON CONFLICT DO NOTHING;
    verdict := 'granted';
END $$
"""

# Renewals need no flush: a lost renewal only shortens a lease. But a crash can then set a counter back. The next
# renewal might raise the counter to a value that a reaper saw before, and the reaper would see no renewal. So each
# renewal raises the counter by a random number.
_RENEW = """
CREATE FUNCTION {schema}.renew_leases(
    known_incarnation bigint, known_revision bigint, wanted bigint[],
    OUT verdict text, OUT at_incarnation bigint, OUT at_revision bigint, OUT alive bigint[]
) LANGUAGE plpgsql SET random_page_cost TO 0 AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT incarnation, revision INTO at_incarnation, at_revision FROM {schema}.meta;
    IF at_incarnation <> known_incarnation OR at_revision < known_revision THEN
        verdict := 'went back';
        RETURN;
    END IF;
    FOR place IN 1 .. cardinality(wanted) LOOP
        UPDATE {schema}.lease SET renewals = renewals + 1 + (random() * 1000000000)::bigint WHERE id = wanted[place];
        IF FOUND THEN
            alive := array_append(alive, wanted[place]);
        END IF;
    END LOOP;
    verdict := 'renewed';
END $$
"""

# Ends a lease if its counter still has the value `counted`. If `counted` is NULL, it ends the lease in any case.
_END = """
CREATE FUNCTION {schema}.end_lease(
    known_incarnation bigint, known_revision bigint, ended bigint, counted bigint,
    lock_milliseconds integer DEFAULT 4000,
    OUT verdict text, OUT at_incarnation bigint, OUT at_revision bigint
) LANGUAGE plpgsql SET random_page_cost TO 0 AS $$
DECLARE
    remembered text;
BEGIN
    PERFORM {schema}.be_safe(lock_milliseconds);
    SELECT incarnation, revision, fingerprint INTO at_incarnation, at_revision, remembered FROM {schema}.meta;
    IF {schema}.has_moved(remembered) THEN
        verdict := 'moved';
        RETURN;
    END IF;
    IF at_incarnation <> known_incarnation OR at_revision < known_revision THEN
        verdict := 'went back';
        RETURN;
    END IF;
    verdict := 'alive or gone';
    IF NOT EXISTS (SELECT FROM {schema}.lease WHERE id = ended AND renewals = coalesce(counted, renewals)) THEN
        RETURN;
    END IF;
    SELECT incarnation, revision INTO at_incarnation, at_revision FROM {schema}.meta FOR UPDATE;
    DELETE FROM {schema}.lease WHERE id = ended AND renewals = coalesce(counted, renewals);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    verdict := 'ended';
    INSERT INTO {schema}.event (revision, key) SELECT at_revision + 1, key FROM {schema}.item WHERE lease = ended;
    IF FOUND THEN
        at_revision := at_revision + 1;
        DELETE FROM {schema}.item WHERE lease = ended;
        UPDATE {schema}.meta SET revision = at_revision;
        PERFORM pg_notify({channel}, at_revision::text);
    END IF;
END $$
"""

_LOWEST_LEASES = """
CREATE FUNCTION {schema}.lowest_leases(most integer) RETURNS SETOF {schema}.lease LANGUAGE sql STABLE
SET random_page_cost TO 0 AS $$
    SELECT * FROM {schema}.lease ORDER BY id LIMIT most
$$
"""

# The statements that lead to each version. The first entry makes version 1 in a database without the schema.
VERSIONS = (
    (
        "CREATE SCHEMA IF NOT EXISTS {schema}",
        _META,
        _ITEM,
        _ITEM_BY_LEASE,
        _EVENT,
        _LEASE,
        _FIRST_ROW,
        _BE_SAFE,
        _HAS_MOVED,
        _REVISION_BEFORE,
        _COMPACT,
        _COMMIT,
        _GRANT,
        _RENEW,
        _END,
        _LOWEST_LEASES,
    ),
)
NEWEST = len(VERSIONS)
