"""The hot paths of tasks as functions of the schema: an enqueue and a turn are one round trip and one transaction.

The driver fills in `{schema}`, quoted. `begin_tasks` compares the life of the store, as each landed write does, and
reads the clock. `turn` does the common case. It answers `slow` before any effect where a rare rule applies: a limit, an
ended session, a suspect, an expired task. `tasks.rules` has these rules.

A position comes from a sequence, after the number of its transaction. So once all transactions before some later number
have ended, all smaller positions are visible. Rows are found by the indexes alone: a plan that was made while a table
was small stays. Nothing is compiled (`jit`): a scan that is off counts as dear, and takes 30 ms to compile.
"""

CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint + offset_ms"
NOW = """
CREATE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql AS $$
    SELECT {clock} FROM {schema}.work_meta
$$
""".replace("{clock}", CLOCK)

NEXT_POSITION = """
CREATE FUNCTION {schema}.next_position() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM txid_current();
    RETURN nextval('{schema}.task_pos');
END $$
"""

# Moved and the time are expressions: to call a function in SQL takes ten times as long, for it is planned anew.
BEGIN = """
CREATE FUNCTION {schema}.begin_tasks(
    known_incarnation bigint, lock_milliseconds integer, is_durable boolean,
    OUT verdict text, OUT at_incarnation bigint, OUT at_ms bigint, OUT is_awaited boolean
) LANGUAGE plpgsql AS $$
DECLARE
    has_moved boolean;
BEGIN
    PERFORM {schema}.be_safe(lock_milliseconds);
    PERFORM set_config('synchronous_commit', 'off', true) WHERE NOT is_durable;
    SELECT incarnation, fingerprint <> (SELECT system_identifier FROM pg_control_system()) || '/' ||
        left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) INTO at_incarnation, has_moved FROM {schema}.meta;
    verdict := CASE WHEN has_moved THEN 'moved' WHEN at_incarnation <> known_incarnation THEN 'went back' END;
    IF verdict IS NULL THEN
        verdict := 'begun';
        at_ms := (SELECT {clock} FROM {schema}.work_meta);
        is_awaited := (SELECT waiting_until >= at_ms FROM {schema}.work_meta);
    END IF;
END $$
""".replace("{clock}", CLOCK)

# Adds the tasks that meet none with their id or their unique name, at these positions; returns how many. A column of
# one value has that value for all tasks, and an empty one has NULL; ids, positions and calls are always complete.
ADD = """
CREATE FUNCTION {schema}.add_tasks(
    at_ms bigint, positions bigint[], ids text[], queues text[], lanes bigint[], names text[], codecs text[],
    calls bytea[], delays bigint[], dues bigint[], expiries bigint[], uniques text[], mosts bigint[], traces text[],
    OUT added bigint
) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.task (pos, id, queue, lane, name, codec, arguments, due, expires, uniq, most_deaths,
        trace, enqueued, ready_at)
    SELECT new.pos, new.id, coalesce(new.queue, queues[1]), coalesce(new.lane, lanes[1]),
        coalesce(new.name, names[1]), coalesce(new.codec, codecs[1]), new.call,
        CASE WHEN coalesce(new.due, at_ms + new.delay, at_ms + delays[1]) > at_ms
            THEN coalesce(new.due, at_ms + new.delay, at_ms + delays[1]) END,
        new.expiry, new.uniq, nullif(coalesce(new.most, mosts[1]), 0), coalesce(new.trace, traces[1]), at_ms,
        greatest(coalesce(new.due, at_ms + new.delay, at_ms + delays[1]), at_ms)
    FROM unnest(positions, ids, queues, lanes, names, codecs, calls, delays, dues, expiries, uniques, mosts,
        traces) AS new (pos, id, queue, lane, name, codec, call, delay, due, expiry, uniq, most, trace)
    WHERE NOT EXISTS (SELECT FROM {schema}.outcome WHERE outcome.id = new.id)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
END $$
"""

# Enqueues one task after its id or its unique name was taken. A look may be out of date, so it looks until one holds.
MEET = """
CREATE FUNCTION {schema}.meet_task(
    at_ms bigint, new_pos bigint, new_id text, new_queue text, new_lane bigint, new_name text, new_codec text,
    call bytea, delay bigint, new_due bigint, expiry bigint, new_uniq text, most bigint, new_trace text,
    is_replacing boolean, OUT met text, OUT made boolean
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
                ready_at = greatest(due_at, at_ms)
                WHERE id = named.id AND is_replacing;
            RETURN;
        END IF;
        UPDATE {schema}.task SET replaced = 1 WHERE id = named.id;
        made := {schema}.add_tasks(at_ms, ARRAY[new_pos], ARRAY[new_id], ARRAY[new_queue], ARRAY[new_lane],
            ARRAY[new_name], ARRAY[new_codec], ARRAY[call], ARRAY[delay], ARRAY[new_due], ARRAY[expiry],
            ARRAY[new_uniq], ARRAY[most], ARRAY[new_trace]) = 1;
        IF made THEN
            RETURN;
        END IF;
    END LOOP;
END $$
"""

# The answers are NULL if all tasks were added.
ENQUEUE = """
CREATE FUNCTION {schema}.enqueue_tasks(
    known_incarnation bigint, lock_milliseconds integer, ids text[], queues text[], lanes bigint[], names text[],
    codecs text[], calls bytea[], delays bigint[], dues bigint[], expiries bigint[], uniques text[], mosts bigint[],
    traces text[], replacing boolean[],
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
            expiries, uniques, mosts, traces) THEN
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
                coalesce(traces[i], traces[1]), coalesce(replacing[i], replacing[1]));
            answers[i] := met.met;
            made[i] := met.made;
        END IF;
    END LOOP;
END $$
"""

# The first ready task after a floor, by place: a queue and a lane.
HEADS = """
CREATE FUNCTION {schema}.task_heads(
    served text[], place_queues text[], place_lanes bigint[], floors bigint[],
    OUT positions bigint[], OUT since bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(head.pos ORDER BY of.place), array_agg(head.ready_at ORDER BY of.place) INTO positions, since
    FROM unnest(place_queues, place_lanes, floors) WITH ORDINALITY AS of (queue, lane, floor, place)
    LEFT JOIN LATERAL (
        SELECT pos, ready_at FROM {schema}.task
        WHERE task.queue = of.queue AND task.lane = of.lane AND session IS NULL AND due IS NULL AND pos > of.floor
        ORDER BY pos LIMIT 1
    ) AS head ON of.queue = ANY (served);
END $$
"""

# Delayed tasks that are due go to the end of their lanes, in the order of their times.
DUE = """
CREATE FUNCTION {schema}.become_due(at_ms bigint, queues text[], most bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.task AS t SET due = NULL, ready_at = t.due, pos = placed.pos FROM (
        SELECT ordered.place, {schema}.next_position() AS pos FROM (
            SELECT first.place FROM unnest(queues) AS of (queue), LATERAL (
                SELECT ctid AS place, due, pos FROM {schema}.task
                WHERE task.queue = of.queue AND session IS NULL AND due <= at_ms
                ORDER BY due, pos LIMIT most FOR UPDATE SKIP LOCKED
            ) AS first ORDER BY first.due, first.pos LIMIT most
        ) AS ordered
    ) AS placed WHERE t.ctid = placed.place;
END $$
"""

# Whether a turn needs the rules of `tasks.rules`: a limit, an ended session, a suspect, or an expired task.
IS_RARE = """
CREATE FUNCTION {schema}.is_rare(at_ms bigint, served text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    ended bigint[];
BEGIN
    SELECT array_agg(session) INTO ended FROM {schema}.worker
        WHERE NOT EXISTS (SELECT FROM {schema}.lease WHERE id = worker.session);
    RETURN EXISTS (
        SELECT FROM {schema}.control
        WHERE queue = ANY (served) AND (open_claims IS NOT NULL OR rate IS NOT NULL)
    ) OR (ended IS NOT NULL AND EXISTS (
        SELECT FROM unnest(ended) AS gone (session), LATERAL (
            SELECT count(*) AS held, count(*) FILTER (WHERE queue = ANY (served)) AS ours
            FROM {schema}.task WHERE task.session = gone.session
        ) AS claims WHERE held = 0 OR ours > 0
    )) OR EXISTS (
        SELECT FROM {schema}.task
        WHERE deaths >= 2 AND session IS NULL AND queue = ANY (served) AND coalesce(due, 0) <= at_ms
    ) OR EXISTS (
        SELECT FROM {schema}.task
        WHERE session IS NULL AND queue = ANY (served) AND expires <= at_ms AND coalesce(due, 0) <= at_ms
    );
END $$
"""

# Claims up to `most` tasks of one lane, oldest first.
CLAIM = """
CREATE FUNCTION {schema}.claim_tasks(
    own bigint, served text[], place_queues text[], place_lanes bigint[], floors bigint[], wanted_lane bigint,
    most bigint
) RETURNS SETOF {schema}.task LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH picked AS MATERIALIZED (
        SELECT first.place FROM unnest(place_queues, place_lanes, floors) AS of (queue, lane, floor), LATERAL (
            SELECT ctid AS place, pos FROM {schema}.task
            WHERE task.queue = of.queue AND task.lane = of.lane AND session IS NULL AND due IS NULL AND pos > of.floor
            ORDER BY pos LIMIT most FOR UPDATE SKIP LOCKED
        ) AS first WHERE of.lane = wanted_lane AND of.queue = ANY (served) ORDER BY first.pos LIMIT most
    ), claimed AS (
        UPDATE {schema}.task AS t SET session = own, attempt = t.attempt + 1, progress = 0, note = ''
        FROM picked WHERE t.ctid = picked.place RETURNING t.*
    )
    SELECT * FROM claimed ORDER BY claimed.pos;
END $$
"""

# Claims come first, one per row; the last row has the verdict and no claim. `heads` and `left_at` are the first ready
# tasks by place, before and after the claims; `oldest_open` and `mark` bound the transactions that a rescan has seen.
TURN = """
CREATE FUNCTION {schema}.turn(
    known_incarnation bigint, lock_milliseconds integer, is_durable boolean, own bigint, own_name text, own_host text,
    own_pid bigint, own_queues text, own_concurrency bigint, done_ids text[], done_attempts bigint[],
    done_sessions bigint[], wanted bigint, queues text[], place_queues text[], place_lanes bigint[], floors bigint[],
    is_rescan boolean, most_due bigint
) RETURNS TABLE (
    verdict text, at_incarnation bigint, is_awaited boolean, settled bigint[], heads bigint[], left_at bigint[],
    oldest_open bigint, mark bigint, c_id text, c_attempt bigint, c_queue text, c_lane bigint, c_pos bigint,
    c_name text, c_codec text, c_arguments bytea, c_failures bigint, c_deaths bigint, c_crashes bigint,
    c_enqueued bigint, c_trace text, c_waited bigint, c_slot bigint
) LANGUAGE plpgsql {by_index} AS $$
DECLARE
    begun record;
    served text[];
    since bigint[];
    now_heads bigint[];
    is_new boolean;
    is_due boolean;
    is_only boolean;
    taken bigint := 0;
    most bigint;
    got bigint;
    lane bigint;
    done_lanes bigint[] := ARRAY[]::bigint[];
BEGIN
    SELECT * INTO begun FROM {schema}.begin_tasks(known_incarnation, lock_milliseconds, is_durable);
    verdict := begun.verdict;
    at_incarnation := begun.at_incarnation;
    is_awaited := begun.is_awaited;
    IF verdict = 'begun' AND wanted > 0 THEN
        oldest_open := txid_snapshot_xmin(txid_current_snapshot());
        served := ARRAY(SELECT q FROM unnest(queues) AS q
            WHERE NOT EXISTS (SELECT FROM {schema}.control WHERE queue = q AND paused <> 0));
        IF {schema}.is_rare(begun.at_ms, served) THEN
            verdict := 'slow';
        ELSE
            is_due := EXISTS (SELECT FROM {schema}.task
                WHERE queue = ANY (queues) AND session IS NULL AND due <= begun.at_ms);
            SELECT * INTO heads, since FROM {schema}.task_heads(served, place_queues, place_lanes, floors);
            is_new := NOT EXISTS (SELECT FROM {schema}.worker AS w WHERE w.session = own AND w.queues = own_queues);
            IF is_new OR is_due OR cardinality(done_ids) > 0 OR cardinality(array_remove(heads, NULL)) > 0 THEN
                PERFORM FROM {schema}.lease WHERE id = own FOR KEY SHARE;
            ELSE
                PERFORM FROM {schema}.lease WHERE id = own;
                wanted := 0;
            END IF;
            IF NOT FOUND THEN
                verdict := 'lease lost';
            END IF;
        END IF;
    END IF;
    IF verdict <> 'begun' THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF cardinality(done_ids) > 0 THEN -- `+ 0`: not through all open claims of the session
        WITH gone AS (
            DELETE FROM {schema}.task AS t
            USING unnest(done_ids, done_attempts, done_sessions) WITH ORDINALITY AS r (id, attempt, session, place)
            WHERE t.id = r.id AND t.attempt = r.attempt AND t.session + 0 = r.session RETURNING r.place
        )
        SELECT array_agg(gone.place) INTO settled FROM gone;
    END IF;
    IF wanted > 0 THEN
        IF is_new THEN
            INSERT INTO {schema}.worker (session, name, host, pid, queues, concurrency)
                VALUES (own, own_name, own_host, own_pid, own_queues, own_concurrency)
                ON CONFLICT (session) DO UPDATE SET queues = excluded.queues;
        END IF;
        IF is_due THEN
            PERFORM {schema}.become_due(begun.at_ms, queues, most_due);
            SELECT * INTO heads, since FROM {schema}.task_heads(served, place_queues, place_lanes, floors);
        END IF;
    END IF;
    now_heads := heads;
    WHILE taken < wanted LOOP
        SELECT there.lane, count(*) OVER () = 1 INTO lane, is_only FROM (
            SELECT DISTINCT ON (of.lane) of.lane, of.since
            FROM unnest(place_lanes, now_heads, since) AS of (lane, pos, since)
            WHERE of.pos IS NOT NULL AND of.lane <> ALL (done_lanes) ORDER BY of.lane, of.pos
        ) AS there ORDER BY CASE WHEN mod(taken, 8) = 7 THEN there.since END, there.lane LIMIT 1;
        EXIT WHEN NOT FOUND;
        most := CASE WHEN is_only THEN wanted - taken WHEN mod(taken, 8) = 7 THEN 1
            ELSE least(7 - mod(taken, 8), wanted - taken) END;
        RETURN QUERY SELECT NULL::text, NULL::bigint, NULL::boolean, NULL::bigint[], NULL::bigint[],
            NULL::bigint[], NULL::bigint, NULL::bigint, c.id, c.attempt, c.queue, c.lane, c.pos, c.name, c.codec,
            c.arguments, c.failures, c.deaths, c.crashes, c.enqueued, c.trace,
            greatest(0, begun.at_ms - c.ready_at), c.slot
            FROM {schema}.claim_tasks(own, served, place_queues, place_lanes, floors, lane, most) AS c;
        GET DIAGNOSTICS got = ROW_COUNT;
        taken := taken + got;
        EXIT WHEN is_only;
        IF got < most THEN
            done_lanes := done_lanes || lane;
        END IF;
        SELECT * INTO now_heads, since FROM {schema}.task_heads(served, place_queues, place_lanes, floors);
    END LOOP;
    IF is_rescan THEN
        SELECT positions INTO left_at FROM {schema}.task_heads(served, place_queues, place_lanes, floors);
        mark := txid_current();
    END IF;
    RETURN NEXT;
END $$
"""
