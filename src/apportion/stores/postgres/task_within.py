"""The enqueue of tasks as functions of the schema: one round trip, in a transaction of its own or of the caller.

`enqueue_within` is for the caller's transaction, and leaves its settings as they were. Tasks and answers are JSON,
because every library of a caller can send and read text.
At the commit, a hint goes to the workers, but only if a worker waits: each hint takes a lock of the whole server.
"""

from apportion.stores.postgres.task_functions import CLUSTER, LIFE

# Adds the tasks with a free id and a free unique name, at these positions; returns their number. A column of one value
# has that value for all tasks, and an empty column has NULL. Ids, positions and calls have a value for each task. Most
# tasks differ only in these three columns, and then no other column is expanded.
ADD = """
CREATE FUNCTION {schema}.add_tasks(
    at_ms bigint, positions bigint[], ids text[], queues text[], lanes bigint[], names text[], codecs text[],
    calls bytea[], delays bigint[], dues bigint[], expiries bigint[], uniques text[], mosts bigint[], traces text[],
    keys text[], dead_modes text[], OUT added bigint
) LANGUAGE plpgsql AS $$
DECLARE
    due_at bigint;
BEGIN
    IF cardinality(dues) + cardinality(expiries) + cardinality(uniques) + cardinality(keys) = 0 AND 1 = greatest(
            cardinality(queues), cardinality(lanes), cardinality(names), cardinality(codecs), cardinality(delays),
            cardinality(mosts), cardinality(traces), cardinality(dead_modes)) THEN
        due_at := greatest(at_ms + delays[1], at_ms);
        BEGIN
            INSERT INTO {schema}.task (pos, id, queue, lane, name, codec, arguments, due, most_deaths, trace, enqueued,
                ready_at, on_dead)
            SELECT new.pos, new.id, queues[1], lanes[1], names[1], codecs[1], new.call, nullif(due_at, at_ms),
                nullif(mosts[1], 0), traces[1], at_ms, due_at, dead_modes[1]
            FROM unnest(positions, ids, calls) AS new (pos, id, call)
            WHERE NOT EXISTS (SELECT FROM {schema}.outcome WHERE outcome.id = new.id);
            GET DIAGNOSTICS added = ROW_COUNT;
            RETURN;
        EXCEPTION WHEN unique_violation THEN -- some id is there already
        END;
    END IF;
    INSERT INTO {schema}.task (pos, id, queue, lane, name, codec, arguments, due, expires, uniq, most_deaths,
        trace, enqueued, ready_at, key, on_dead)
    SELECT new.pos, new.id, coalesce(new.queue, queues[1]), coalesce(new.lane, lanes[1]),
        coalesce(new.name, names[1]), coalesce(new.codec, codecs[1]), new.call,
        CASE WHEN coalesce(new.due, at_ms + new.delay, at_ms + delays[1]) > at_ms
            THEN coalesce(new.due, at_ms + new.delay, at_ms + delays[1]) END,
        new.expiry, new.uniq, nullif(coalesce(new.most, mosts[1]), 0), coalesce(new.trace, traces[1]), at_ms,
        greatest(coalesce(new.due, at_ms + new.delay, at_ms + delays[1]), at_ms), new.key,
        coalesce(new.dead_mode, dead_modes[1])
    FROM unnest(positions, ids, queues, lanes, names, codecs, calls, delays, dues, expiries, uniques, mosts, traces,
        keys, dead_modes)
        AS new (pos, id, queue, lane, name, codec, call, delay, due, expiry, uniq, most, trace, key, dead_mode)
    WHERE NOT EXISTS (SELECT FROM {schema}.outcome WHERE outcome.id = new.id)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
END $$
"""

# Enqueues one task after its id or its unique name was taken. The answer of a look may be out of date by the next
# statement. So the function looks again until an answer is still true.
MEET = """
CREATE FUNCTION {schema}.meet_task(
    at_ms bigint, new_pos bigint, new_id text, new_queue text, new_lane bigint, new_name text, new_codec text,
    call bytea, delay bigint, new_due bigint, expiry bigint, new_uniq text, most bigint, new_trace text,
    new_key text, dead_mode text, is_replacing boolean, OUT met text, OUT made boolean
) LANGUAGE plpgsql AS $$
DECLARE
    due_at bigint := coalesce(new_due, at_ms + delay);
    named record;
BEGIN
    made := false;
    LOOP
        met := new_id;
        IF EXISTS (SELECT FROM {schema}.task WHERE id = new_id UNION ALL
                SELECT FROM {schema}.outcome WHERE id = new_id) THEN
            RETURN;
        END IF;
        SELECT id, session INTO named FROM {schema}.task
            WHERE queue = new_queue AND uniq = new_uniq AND replaced = 0 FOR UPDATE;
        IF FOUND AND (NOT is_replacing OR named.session IS NULL) THEN
            met := named.id;
            UPDATE {schema}.task SET pos = new_pos, lane = new_lane, name = new_name, codec = new_codec,
                arguments = call, due = CASE WHEN due_at > at_ms THEN due_at END, expires = expiry, failures = 0,
                deaths = 0, crashes = 0, deaths_of = '', most_deaths = nullif(most, 0), cancelling = 0,
                progress = 0, note = '', reason = '', trace = new_trace, enqueued = at_ms,
                ready_at = greatest(due_at, at_ms), key = new_key, on_dead = dead_mode
                WHERE id = named.id AND is_replacing;
            RETURN;
        END IF;
        UPDATE {schema}.task SET replaced = 1 WHERE id = named.id;
        made := {schema}.add_tasks(at_ms, ARRAY[new_pos], ARRAY[new_id], ARRAY[new_queue], ARRAY[new_lane],
            ARRAY[new_name], ARRAY[new_codec], ARRAY[call], ARRAY[delay], ARRAY[new_due], ARRAY[expiry],
            ARRAY[new_uniq], ARRAY[most], ARRAY[new_trace], ARRAY[new_key], ARRAY[dead_mode]) = 1;
        IF made THEN
            RETURN;
        END IF;
    END LOOP;
END $$
"""

# Enqueues one task, the most frequent case: no column is expanded, and no other function is called. The answers are
# those of `enqueue_tasks`. Each setting of a function (SET) takes microseconds. So this function has only the two that
# make the server find a row by a key.
ENQUEUE_ONE = """
CREATE FUNCTION {schema}.enqueue_task(
    known_incarnation bigint, lock_milliseconds integer, new_id text, new_queue text, new_lane bigint, new_name text,
    new_codec text, call bytea, delay bigint, new_due bigint, expiry bigint, new_uniq text, most bigint,
    new_trace text, new_key text, dead_mode text, is_replacing boolean,
    OUT verdict text, OUT at_incarnation bigint, OUT is_awaited boolean, OUT answers text[], OUT made boolean[]
) LANGUAGE plpgsql SET enable_seqscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    has_moved boolean;
    awaited_until bigint;
    cluster text := current_setting('apportion.cluster', true);
    given text := set_config('lock_timeout', lock_milliseconds::text, true);
    at_ms bigint;
    due_at bigint;
    of_transaction bigint;
    new_pos bigint;
    has_ended boolean;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        given := set_config('synchronous_commit', 'on', true);
    END IF;
    {cluster}
    {life}
    IF verdict <> 'begun' THEN
        RETURN;
    END IF;
    of_transaction := txid_current();
    new_pos := nextval('{schema}.task_pos');
    due_at := greatest(coalesce(new_due, at_ms + delay), at_ms);
    IF NOT has_ended THEN
        INSERT INTO {schema}.task (pos, id, queue, lane, name, codec, arguments, due, expires, uniq, most_deaths,
            trace, enqueued, ready_at, key, on_dead)
        VALUES (new_pos, new_id, new_queue, new_lane, new_name, new_codec, call, nullif(due_at, at_ms), expiry,
            new_uniq, nullif(most, 0), new_trace, at_ms, due_at, new_key, dead_mode)
        ON CONFLICT DO NOTHING;
    END IF;
    IF has_ended OR NOT FOUND THEN
        SELECT ARRAY[m.met], ARRAY[m.made] INTO answers, made FROM {schema}.meet_task(at_ms, new_pos, new_id, new_queue,
            new_lane, new_name, new_codec, call, delay, new_due, expiry, new_uniq, most, new_trace, new_key, dead_mode,
            is_replacing) AS m;
    END IF;
END $$
""".replace("{cluster}", CLUSTER).replace("{life}", LIFE)
ENQUEUE_ONE = ENQUEUE_ONE.replace("{more}", "EXISTS (SELECT FROM {schema}.outcome WHERE id = new_id), ")
ENQUEUE_ONE = ENQUEUE_ONE.replace("{into}", "has_ended, ")

# `answers` and `made` are NULL if all tasks were added.
ENQUEUE = """
CREATE FUNCTION {schema}.enqueue_tasks(
    known_incarnation bigint, lock_milliseconds integer, ids text[], queues text[], lanes bigint[], names text[],
    codecs text[], calls bytea[], delays bigint[], dues bigint[], expiries bigint[], uniques text[], mosts bigint[],
    traces text[], keys text[], dead_modes text[], replacing boolean[],
    OUT verdict text, OUT at_incarnation bigint, OUT is_awaited boolean, OUT answers text[], OUT made boolean[]
) LANGUAGE plpgsql {by_index} AS $$
DECLARE
    at_ms bigint;
    positions bigint[];
    added text[];
    met record;
BEGIN
    SELECT begun.* INTO verdict, at_incarnation, at_ms, is_awaited
        FROM {schema}.begin_tasks(known_incarnation, lock_milliseconds, true) AS begun;
    IF verdict <> 'begun' THEN
        RETURN;
    END IF;
    PERFORM txid_current();
    positions := ARRAY(SELECT nextval('{schema}.task_pos') FROM generate_series(1, cardinality(ids)));
    IF cardinality(ids) = {schema}.add_tasks(at_ms, positions, ids, queues, lanes, names, codecs, calls, delays, dues,
            expiries, uniques, mosts, traces, keys, dead_modes) THEN
        RETURN;
    END IF;
    answers := ids;
    made := array_fill(true, ARRAY[cardinality(ids)]);
    added := ARRAY(SELECT task.id FROM unnest(ids, positions) AS new (id, pos)
        JOIN {schema}.task ON task.id = new.id AND task.pos = new.pos);
    FOR i IN 1 .. cardinality(ids) LOOP
        IF ids[i] = ANY (added) THEN
            added := array_remove(added, ids[i]);
        ELSE
            SELECT * INTO met FROM {schema}.meet_task(at_ms, positions[i], ids[i], coalesce(queues[i], queues[1]),
                coalesce(lanes[i], lanes[1]), coalesce(names[i], names[1]), coalesce(codecs[i], codecs[1]), calls[i],
                coalesce(delays[i], delays[1]), dues[i], expiries[i], uniques[i], coalesce(mosts[i], mosts[1]),
                coalesce(traces[i], traces[1]), keys[i], coalesce(dead_modes[i], dead_modes[1]),
                coalesce(replacing[i], replacing[1]));
            answers[i] := met.met;
            made[i] := met.made;
        END IF;
    END LOOP;
END $$
"""

# Enqueues keyed tasks, if each queue has the number of partitions that the caller assumed. The lock stays until the
# commit, so no resize comes in between. If a queue has another number, `resized` is the queue and `has` is that number.
ENQUEUE_KEYED = """
CREATE FUNCTION {schema}.enqueue_keyed(
    known_incarnation bigint, lock_milliseconds integer, counted text[], counts bigint[], ids text[], queues text[],
    lanes bigint[], names text[], codecs text[], calls bytea[], delays bigint[], dues bigint[], expiries bigint[],
    uniques text[], mosts bigint[], traces text[], keys text[], dead_modes text[], replacing boolean[],
    OUT verdict text, OUT at_incarnation bigint, OUT is_awaited boolean, OUT answers text[], OUT made boolean[],
    OUT resized text, OUT has bigint
) LANGUAGE plpgsql {by_index} AS $$
BEGIN
    PERFORM {schema}.be_safe(lock_milliseconds);
    PERFORM FROM {schema}.control WHERE queue = ANY (counted) ORDER BY queue FOR KEY SHARE;
    SELECT of.queue, control.partitions INTO resized, has FROM unnest(counted, counts) AS of (queue, count)
        LEFT JOIN {schema}.control ON control.queue = of.queue
        WHERE control.partitions IS DISTINCT FROM of.count LIMIT 1;
    IF FOUND THEN
        SELECT begun.* INTO verdict, at_incarnation
            FROM {schema}.begin_tasks(known_incarnation, lock_milliseconds, true) AS begun;
        verdict := replace(verdict, 'begun', 'resized');
        RETURN;
    END IF;
    SELECT enqueued.* INTO verdict, at_incarnation, is_awaited, answers, made
        FROM {schema}.enqueue_tasks(known_incarnation, lock_milliseconds, ids, queues, lanes, names, codecs, calls,
            delays, dues, expiries, uniques, mosts, traces, keys, dead_modes, replacing) AS enqueued;
END $$
"""

ENQUEUE_WITHIN = """
CREATE FUNCTION {schema}.enqueue_within(known_incarnation bigint, lock_milliseconds integer, new_tasks text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    lock_before text := current_setting('lock_timeout');
    commit_before text := current_setting('synchronous_commit');
    idle_before text := current_setting('idle_in_transaction_session_timeout');
    answer record;
BEGIN
    SELECT enqueued.* INTO answer FROM (
        SELECT array_agg(t->>'id' ORDER BY n) AS ids, array_agg(t->>'queue' ORDER BY n) AS queues,
            array_agg((t->>'lane')::bigint ORDER BY n) AS lanes, array_agg(t->>'name' ORDER BY n) AS names,
            array_agg(t->>'codec' ORDER BY n) AS codecs, array_agg(decode(t->>'call', 'base64') ORDER BY n) AS calls,
            array_agg((t->>'delay')::bigint ORDER BY n) AS delays, array_agg((t->>'due')::bigint ORDER BY n) AS dues,
            array_agg((t->>'expiry')::bigint ORDER BY n) AS expiries, array_agg(t->>'uniq' ORDER BY n) AS uniques,
            array_agg((t->>'most')::bigint ORDER BY n) AS mosts, array_agg(t->>'trace' ORDER BY n) AS traces,
            array_agg(t->>'key' ORDER BY n) AS keys,
            array_agg(coalesce(t->>'on_dead', 'skip') ORDER BY n) AS dead_modes,
            array_agg((t->>'replaces')::boolean ORDER BY n) AS replacing,
            array_agg(t->>'queue' ORDER BY n) FILTER (WHERE t->>'partitions' IS NOT NULL) AS counted,
            array_agg((t->>'partitions')::bigint ORDER BY n) FILTER (WHERE t->>'partitions' IS NOT NULL) AS counts
        FROM json_array_elements(new_tasks::json) WITH ORDINALITY AS of (t, n)
    ) AS new, LATERAL {schema}.enqueue_keyed(known_incarnation, lock_milliseconds, new.counted, new.counts,
        new.ids, new.queues, new.lanes, new.names,
        new.codecs, new.calls, new.delays, new.dues, new.expiries, new.uniques, new.mosts, new.traces,
        new.keys, new.dead_modes, new.replacing) AS enqueued;
    PERFORM set_config('lock_timeout', lock_before, true), set_config('synchronous_commit', commit_before, true),
        set_config('idle_in_transaction_session_timeout', idle_before, true);
    IF answer.is_awaited THEN
        PERFORM pg_notify({channel}, 'tasks');
    END IF;
    RETURN json_build_object('verdict', answer.verdict, 'incarnation', answer.at_incarnation,
        'answers', answer.answers, 'made', answer.made, 'resized', answer.resized, 'has', answer.has)::text;
END $$
"""
