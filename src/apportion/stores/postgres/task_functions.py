"""The most frequent calls on tasks, as functions of the schema. A call is one round trip and one transaction.

The driver fills in `{schema}`, quoted. `begin_tasks` compares the life of the store, as each write does, and reads the
clock. `turn` does the common case. It answers `slow`, before any effect, if a rare rule applies: a limit, an ended
session, a suspect, an expired task. `tasks.rules` has these rules.

A transaction draws its own number first, and positions from a sequence afterwards. Suppose that one transaction draws
a position, and then another transaction gets the number n. The first one has a number below n. So its position is
visible once all transactions with numbers below n have ended.
Rows are found only by indexes: a plan that was made for a small table stays in use when the table has grown. Nothing is
compiled (`jit`). The planner gives a high cost to a kind of scan that is switched off, so it would compile the plan.
That takes 30 ms.
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

# One statement reads all values, because each statement costs microseconds. `has_moved` and the time are expressions: a
# call of an SQL function takes ten times as long, because it is planned anew. The conditions on `id` keep the cost of
# the plan low, so that it is not compiled. `more` is one more expression, and `into` is the variable for its value.
LIFE = """SELECT {more}incarnation,
        fingerprint <> cluster || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), {clock}, waiting_until
        INTO {into}at_incarnation, has_moved, at_ms, awaited_until FROM {schema}.meta, {schema}.work_meta
        WHERE meta.id = 1 AND work_meta.id = 1;
    verdict := CASE WHEN has_moved THEN 'moved' WHEN at_incarnation <> known_incarnation THEN 'went back'
        ELSE 'begun' END;
    is_awaited := awaited_until >= at_ms;""".replace("{clock}", CLOCK)
# A process of the server stays in one cluster all its life. So it reads the file with the id of the cluster once, and
# keeps the id in a setting of its session. Behind a pooler, another process has its own setting.
CLUSTER = """IF coalesce(cluster, '') = '' THEN
        SELECT set_config('apportion.cluster', system_identifier::text, false) INTO cluster FROM pg_control_system();
    END IF;"""
BEGIN = """
CREATE FUNCTION {schema}.begin_tasks(
    known_incarnation bigint, lock_milliseconds integer, is_durable boolean,
    OUT verdict text, OUT at_incarnation bigint, OUT at_ms bigint, OUT is_awaited boolean
) LANGUAGE plpgsql AS $$
DECLARE
    has_moved boolean;
    awaited_until bigint;
    cluster text := current_setting('apportion.cluster', true);
    given text := set_config('lock_timeout', lock_milliseconds::text, true);
BEGIN
    IF NOT is_durable OR current_setting('synchronous_commit') = 'off' THEN
        given := set_config('synchronous_commit', CASE WHEN is_durable THEN 'on' ELSE 'off' END, true);
    END IF;
    {cluster}
    {life}
END $$
""".replace("{cluster}", CLUSTER).replace("{life}", LIFE.replace("{more}", "").replace("{into}", ""))

# The first ready task of each place, which is a queue and a lane. The floor of a place is the position after which the
# search begins (`tasks.floors`).
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

# Delayed tasks that are due go to the end of their lanes, ordered by their times. Keyed tasks keep their positions.
DUE = """
CREATE FUNCTION {schema}.become_due(at_ms bigint, queues text[], most bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.task AS t SET due = NULL, ready_at = t.due,
        pos = CASE WHEN t.key IS NULL THEN placed.pos ELSE t.pos END FROM (
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

# Whether a turn needs the rules of `tasks.rules`: a limit, an ended session, a suspect, or an expired task. Keyed tasks
# are left out: `is_keyed_rare` tests for them, and only a worker with lanes of its own may claim them.
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
            SELECT count(*) AS held, count(*) FILTER (WHERE queue = ANY (served) AND lane < 16) AS ours
            FROM {schema}.task WHERE task.session = gone.session
        ) AS claims WHERE held = 0 OR ours > 0
    )) OR EXISTS (
        SELECT FROM {schema}.task
        WHERE deaths >= 2 AND session IS NULL AND queue = ANY (served) AND coalesce(due, 0) <= at_ms AND lane < 16
    ) OR EXISTS (
        SELECT FROM {schema}.task
        WHERE session IS NULL AND queue = ANY (served) AND expires <= at_ms AND coalesce(due, 0) <= at_ms AND lane < 16
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

# The first rows have one claim each; the last row has the verdict and no claim. `heads` and `left_at` are the positions
# of the first ready tasks by place, before and after the claims. `oldest_open` and `mark` are numbers of transactions:
# the oldest one that was running before the claims, and this one. `tasks.floors` compares them.
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
    IF cardinality(done_ids) > 0 THEN -- `+ 0` below: the index of open claims stays unused
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
