"""The enqueue of tasks in a transaction of the caller, as a function of the schema.

It enqueues as `enqueue_tasks` does, and leaves the settings of the transaction as they were. Tasks come and answers go
as JSON: each library of a caller can send and read text.
A hint goes to the workers at the commit, if one waits for it: each hint takes a lock of the whole server.
"""

ENQUEUE_WITHIN = """
CREATE FUNCTION {schema}.enqueue_within(known_incarnation bigint, lock_milliseconds integer, new_tasks text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    lock_before text := current_setting('lock_timeout');
    commit_before text := current_setting('synchronous_commit');
    answer record;
BEGIN
    SELECT enqueued.* INTO answer FROM (
        SELECT array_agg(t->>'id' ORDER BY n) AS ids, array_agg(t->>'queue' ORDER BY n) AS queues,
            array_agg((t->>'lane')::bigint ORDER BY n) AS lanes, array_agg(t->>'name' ORDER BY n) AS names,
            array_agg(t->>'codec' ORDER BY n) AS codecs, array_agg(decode(t->>'call', 'base64') ORDER BY n) AS calls,
            array_agg((t->>'delay')::bigint ORDER BY n) AS delays, array_agg((t->>'due')::bigint ORDER BY n) AS dues,
            array_agg((t->>'expiry')::bigint ORDER BY n) AS expiries, array_agg(t->>'uniq' ORDER BY n) AS uniques,
            array_agg((t->>'most')::bigint ORDER BY n) AS mosts, array_agg(t->>'trace' ORDER BY n) AS traces,
            array_agg((t->>'replaces')::boolean ORDER BY n) AS replacing
        FROM json_array_elements(new_tasks::json) WITH ORDINALITY AS of (t, n)
    ) AS new, LATERAL {schema}.enqueue_tasks(known_incarnation, lock_milliseconds, new.ids, new.queues, new.lanes,
        new.names, new.codecs, new.calls, new.delays, new.dues, new.expiries, new.uniques, new.mosts, new.traces,
        new.replacing) AS enqueued;
    PERFORM set_config('lock_timeout', lock_before, true), set_config('synchronous_commit', commit_before, true);
    IF answer.is_awaited THEN
        PERFORM pg_notify({channel}, 'tasks');
    END IF;
    RETURN json_build_object('verdict', answer.verdict, 'incarnation', answer.at_incarnation,
        'answers', answer.answers, 'made', answer.made)::text;
END $$
"""
