"""The columns, tables and triggers of keyed tasks in PostgreSQL. An older schema gets them by an upgrade.

A task is *behind* while an older task of its key is open; the first task of each key is not. Triggers keep this mark,
so it is right in a transaction of the caller too. The indexes that a claim reads leave out the tasks that are behind.
A dead task that blocks its key keeps a `blocking` row among the open tasks, beside its outcome. This row is never due.

Two transactions may run at once and not see each other: A adds a task behind another task, and B ends that other task.
So at its commit, A locks an older task of the key against deletion. If A can lock none, it takes the mark off its own
task. B waits for the lock, then sees the new task, and makes it the first of its key. The lock is taken only at the
commit, so no other transaction waits for the rest of a caller's transaction. A mark that is wrongly off costs only one
look, because a claim compares the order itself.
"""

from apportion.stores.task_values import MOST_TIME

NEVER = MOST_TIME

KEY_ENTERS = """
CREATE FUNCTION {schema}.key_enters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.behind := EXISTS (SELECT FROM {schema}.task AS t
        WHERE t.queue = NEW.queue AND t.key = NEW.key AND t.pos < NEW.pos);
    RETURN NEW;
END $$
"""
KEY_COMMITS = """
CREATE FUNCTION {schema}.key_commits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM {schema}.task AS t WHERE t.queue = NEW.queue AND t.key = NEW.key AND t.pos < NEW.pos
        ORDER BY t.pos DESC LIMIT 1 FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        UPDATE {schema}.task SET behind = false WHERE id = NEW.id AND behind;
    END IF;
    RETURN NULL;
END $$
"""
# When the function has its lock, the task may be gone, and another task may have come. Then the function looks again.
KEY_LEAVES = """
CREATE FUNCTION {schema}.key_leaves() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    first text;
BEGIN
    LOOP
        SELECT id INTO first FROM {schema}.task AS t WHERE t.queue = OLD.queue AND t.key = OLD.key
            ORDER BY t.pos LIMIT 1 FOR NO KEY UPDATE;
        IF FOUND THEN
            UPDATE {schema}.task SET behind = false WHERE id = first AND behind;
            RETURN NULL;
        END IF;
        EXIT WHEN NOT EXISTS (SELECT FROM {schema}.task AS t WHERE t.queue = OLD.queue AND t.key = OLD.key);
    END LOOP;
    RETURN NULL;
END $$
"""
# The same for all tasks that a statement deletes. The loop ends once no first task of a key is marked as behind.
KEYS_LEAVE = """
CREATE FUNCTION {schema}.keys_leave() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    queues text[];
    keys text[];
    freed bigint;
BEGIN
    SELECT array_agg(k.queue), array_agg(k.key) INTO queues, keys FROM (
        SELECT DISTINCT gone.queue, gone.key FROM gone WHERE gone.key IS NOT NULL AND NOT gone.behind ORDER BY 1, 2
    ) AS k;
    LOOP
        SELECT array_agg(of.queue), array_agg(of.key) INTO queues, keys
        FROM unnest(queues, keys) AS of (queue, key), LATERAL (
            SELECT t.behind FROM {schema}.task AS t WHERE t.queue = of.queue AND t.key = of.key ORDER BY t.pos LIMIT 1
        ) AS first WHERE first.behind;
        EXIT WHEN queues IS NULL;
        WITH first AS MATERIALIZED (
            SELECT next.id FROM unnest(queues, keys) AS of (queue, key), LATERAL (
                SELECT t.id FROM {schema}.task AS t WHERE t.queue = of.queue AND t.key = of.key
                ORDER BY t.pos LIMIT 1 FOR NO KEY UPDATE
            ) AS next
        )
        UPDATE {schema}.task AS t SET behind = false FROM first WHERE t.id = first.id AND t.behind;
        GET DIAGNOSTICS freed = ROW_COUNT;
        EXIT WHEN freed = cardinality(queues);
    END LOOP;
    RETURN NULL;
END $$
"""
_LEAVES_TOGETHER = (
    KEYS_LEAVE,
    "CREATE TRIGGER task_leaves AFTER DELETE ON {schema}.task REFERENCING OLD TABLE AS gone"
    " FOR EACH STATEMENT EXECUTE FUNCTION {schema}.keys_leave()",
)
# The same in an older schema: these statements first drop its functions, which worked differently.
LEAVE_TOGETHER = (
    "DROP TRIGGER IF EXISTS task_leaves ON {schema}.task",
    "DROP FUNCTION IF EXISTS {schema}.keys_leave()",
    "DROP FUNCTION IF EXISTS {schema}.first_of_keys",
    *_LEAVES_TOGETHER,
)
KEY_STEPS: tuple[str, ...] = (
    'ALTER TABLE {schema}.task ADD COLUMN key text COLLATE "C",'
    " ADD COLUMN on_dead text NOT NULL DEFAULT 'skip', ADD COLUMN behind boolean NOT NULL DEFAULT false,"
    " ADD COLUMN blocking bigint NOT NULL DEFAULT 0",
    "ALTER TABLE {schema}.outcome ADD COLUMN key text COLLATE \"C\", ADD COLUMN on_dead text NOT NULL DEFAULT 'skip'",
    "ALTER TABLE {schema}.control ADD COLUMN partitions bigint",
    'CREATE TABLE {schema}.lane (queue text COLLATE "C" NOT NULL, lane bigint NOT NULL, incarnation bigint NOT NULL,'
    " epoch bigint NOT NULL, holder text NOT NULL, session bigint NOT NULL, PRIMARY KEY (queue, lane))",
    "CREATE INDEX task_keyed ON {schema}.task (queue, key, pos) WHERE key IS NOT NULL",
    "CREATE UNIQUE INDEX task_key_claimed ON {schema}.task (queue, key) WHERE session IS NOT NULL AND key IS NOT NULL",
    "CREATE INDEX task_first ON {schema}.task (queue, lane, pos)"
    " WHERE key IS NOT NULL AND NOT behind AND session IS NULL AND due IS NULL",
    KEY_ENTERS,
    KEY_COMMITS,
    KEY_LEAVES,
    "CREATE TRIGGER task_enters BEFORE INSERT OR UPDATE OF pos, key ON {schema}.task"
    " FOR EACH ROW WHEN (NEW.key IS NOT NULL) EXECUTE FUNCTION {schema}.key_enters()",
    "CREATE CONSTRAINT TRIGGER task_commits AFTER INSERT OR UPDATE OF pos, key ON {schema}.task"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.behind) EXECUTE FUNCTION {schema}.key_commits()",
    *_LEAVES_TOGETHER,
    "CREATE TRIGGER task_moves AFTER UPDATE OF pos, key ON {schema}.task FOR EACH ROW"
    " WHEN (OLD.key IS NOT NULL AND NOT OLD.behind AND (OLD.pos, OLD.key) IS DISTINCT FROM (NEW.pos, NEW.key))"
    " EXECUTE FUNCTION {schema}.key_leaves()",
)
# In an older schema, each user with the right to write tasks gets the right to write the tokens of lanes.
GRANT_LANES = """
DO $$
DECLARE
    member text;
BEGIN
    FOR member IN SELECT DISTINCT grantee::regrole::text FROM pg_class, aclexplode(relacl)
        WHERE oid = '{schema}.task'::regclass AND privilege_type = 'INSERT' AND grantee <> 0
    LOOP
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.lane TO ' || member;
    END LOOP;
END $$
"""
HAS_KEYS = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = {channel} AND tablename = 'lane')"
HAS_ALL_OF_KEYS = (
    "SELECT count(DISTINCT proname) = 2 FROM pg_proc JOIN pg_namespace AS n ON n.oid = pronamespace"
    " WHERE nspname = {channel} AND proname IN ('enqueue_keyed', 'first_keys')"
)
