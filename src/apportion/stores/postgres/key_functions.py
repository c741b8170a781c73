"""`TaskStore.turn` of a worker with lanes of keyed tasks, as functions of the schema. A turn is one round trip.

`keyed_turn` does the common case. It answers `slow`, before any effect, if a rare rule of `turn` applies, or if a token
is new to its lane. It also does so if a lane of the worker has a task that is suspect, expired or of an ended session.
Promises: a claim locks the row of its lane, and the row has the token that the worker showed. A claim takes a keyed
task only if no task of its key is older or claimed. Keyed tasks and tasks of the default priority share one rank, in
which the oldest comes first.
"""

from apportion.stores.keys.ledger import KEYED_RANK
from apportion.stores.postgres.task_functions import TURN

# Two conditions of the first task of a key: its mark, and the comparison with all open tasks of its key.
FIRST = "t.key IS NOT NULL AND NOT t.behind AND t.session IS NULL AND t.due IS NULL"
_OPEN_OF_KEY = "SELECT FROM {schema}.task AS o WHERE o.queue = t.queue AND o.key = t.key"
IS_FIRST = f"NOT EXISTS ({_OPEN_OF_KEY} AND o.pos < t.pos) AND NOT EXISTS ({_OPEN_OF_KEY} AND o.session IS NOT NULL)"

_HEAD, _, _REST = TURN.partition("\n) RETURNS TABLE (")
_ARGUMENTS, _RESULTS = _HEAD.partition(".turn(")[2], _REST.partition("\n) LANGUAGE")[0]

# Whether a rare rule applies in the lanes of a worker; `is_rare` tests for the other rules. `OFFSET` makes the server
# find the ended sessions first. Otherwise it searches all open claims, which costs half as much time as new claims.
_IS_OWNED = "EXISTS (SELECT FROM unnest(of_queues, of_lanes) AS of (q, lane) WHERE (of.q, of.lane) = (t.queue, t.lane))"
IS_KEYED_RARE = """
CREATE FUNCTION {schema}.is_keyed_rare(
    at_ms bigint, own bigint, served text[], of_queues text[], of_lanes bigint[], incarnations bigint[],
    epochs bigint[], holders text[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM unnest(of_queues, of_lanes, incarnations, epochs, holders)
            AS of (queue, lane, incarnation, epoch, holder)
        WHERE NOT EXISTS (SELECT FROM {schema}.lane AS l WHERE l.queue = of.queue AND l.lane = of.lane
            AND l.incarnation = of.incarnation AND l.epoch = of.epoch AND l.holder = of.holder AND l.session = own)
    ) OR EXISTS (
        SELECT FROM (
            SELECT session FROM {schema}.worker AS w
            WHERE NOT EXISTS (SELECT FROM {schema}.lease WHERE id = w.session) OFFSET 0
        ) AS ended, LATERAL (
            SELECT FROM {schema}.task AS t WHERE t.session = ended.session AND t.queue = ANY (served) AND {is_owned}
        ) AS open
    ) OR EXISTS (
        SELECT FROM {schema}.task AS t
        WHERE deaths >= 2 AND session IS NULL AND queue = ANY (served) AND coalesce(due, 0) <= at_ms AND NOT behind
            AND {is_owned}
    ) OR EXISTS (
        SELECT FROM {schema}.task AS t
        WHERE session IS NULL AND queue = ANY (served) AND expires <= at_ms AND coalesce(due, 0) <= at_ms
            AND NOT behind AND {is_owned}
    );
END $$
""".replace("{is_owned}", _IS_OWNED)

# Returns the first tasks of keys in lanes, oldest first, and locks them and the rows of their lanes. A first query
# takes a few tasks of each lane and trusts their marks. If these may be too few, a second query takes up to `most` of
# each lane, and compares the order within each key.
FIRST_KEYS = """
CREATE FUNCTION {schema}.first_keys(
    served text[], of_queues text[], of_lanes bigint[], incarnations bigint[], epochs bigint[], holders text[],
    most bigint, OUT places tid[], OUT positions bigint[], OUT since bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    few bigint := least(most, 2 * ceil(most::numeric / cardinality(of_lanes)) + 4);
    is_wary boolean := false;
    seen bigint;
    busiest bigint;
    touched bigint[];
    numbers bigint[];
    held bigint[];
BEGIN
    LOOP
        WITH picked AS MATERIALIZED (
            SELECT first.place, of.number FROM unnest(of_queues, of_lanes) WITH ORDINALITY AS of (queue, lane, number),
            LATERAL (
                SELECT t.ctid AS place, t.pos FROM {schema}.task AS t
                WHERE t.queue = of.queue AND t.lane = of.lane AND {first} AND (NOT is_wary OR {is_first})
                ORDER BY t.pos LIMIT few
            ) AS first WHERE of.queue = ANY (served) ORDER BY first.pos LIMIT most
        ), locked AS MATERIALIZED (
            SELECT t.ctid AS place, t.pos, t.ready_at, picked.number
            FROM picked JOIN {schema}.task AS t ON t.ctid = picked.place
            WHERE {first} AND {is_first} ORDER BY t.pos FOR UPDATE OF t SKIP LOCKED
        )
        SELECT lanes.*, found.* INTO seen, busiest, touched, places, positions, since, numbers FROM (
            SELECT sum(lane.count), max(lane.count), array_agg(lane.number)
            FROM (SELECT picked.number, count(*) FROM picked GROUP BY picked.number) AS lane
        ) AS lanes, (
            SELECT array_agg(l.place), array_agg(l.pos), array_agg(l.ready_at), array_agg(l.number) FROM locked AS l
        ) AS found;
        EXIT WHEN is_wary OR seen IS NULL OR (cardinality(places) = seen AND (few = most OR busiest < few));
        is_wary := true;
        few := most;
    END LOOP;
    held := ARRAY(SELECT of.number FROM unnest(of_queues, of_lanes, incarnations, epochs, holders) WITH ORDINALITY
            AS of (queue, lane, incarnation, epoch, holder, number)
        JOIN {schema}.lane AS l ON l.queue = of.queue AND l.lane = of.lane
        WHERE of.number = ANY (touched)
            AND l.incarnation = of.incarnation AND l.epoch = of.epoch AND l.holder = of.holder
        ORDER BY l.queue, l.lane FOR SHARE OF l);
    IF cardinality(held) < cardinality(touched) THEN
        SELECT array_agg(f.place), array_agg(f.pos), array_agg(f.ready_at) INTO places, positions, since
        FROM unnest(places, positions, since, numbers) AS f (place, pos, ready_at, number)
        WHERE f.number = ANY (held);
    END IF;
END $$
""".replace("{first}", FIRST).replace("{is_first}", IS_FIRST)

# A turn takes the next task of the first rank. Each eighth place goes to the oldest of the next tasks of all ranks.
KEYED_TURN = """
CREATE FUNCTION {schema}.keyed_turn({arguments},
    of_queues text[], of_lanes bigint[], incarnations bigint[], epochs bigint[], holders text[]
) RETURNS TABLE ({results}, c_key text
) LANGUAGE plpgsql {by_index} AS $$
DECLARE
    begun record;
    keyed record;
    served text[];
    since bigint[];
    is_new boolean;
    is_due boolean;
    places tid[];
    ready bigint[];
    nexts bigint[];
    ends bigint[];
    best integer;
    taken tid[];
BEGIN
    SELECT * INTO begun FROM {schema}.begin_tasks(known_incarnation, lock_milliseconds, is_durable);
    verdict := begun.verdict;
    at_incarnation := begun.at_incarnation;
    is_awaited := begun.is_awaited;
    IF verdict = 'begun' THEN
        oldest_open := txid_snapshot_xmin(txid_current_snapshot());
        served := ARRAY(SELECT q FROM unnest(queues) AS q
            WHERE NOT EXISTS (SELECT FROM {schema}.control WHERE queue = q AND paused <> 0));
        IF {schema}.is_rare(begun.at_ms, served) OR {schema}.is_keyed_rare(begun.at_ms, own, served, of_queues,
                of_lanes, incarnations, epochs, holders) THEN
            verdict := 'slow';
        ELSE
            is_due := EXISTS (SELECT FROM {schema}.task
                WHERE queue = ANY (queues) AND session IS NULL AND due <= begun.at_ms);
            SELECT * INTO heads, since FROM {schema}.task_heads(served, place_queues, place_lanes, floors);
            is_new := NOT EXISTS (SELECT FROM {schema}.worker AS w WHERE w.session = own AND w.queues = own_queues);
            IF is_new OR is_due OR cardinality(done_ids) > 0 OR cardinality(array_remove(heads, NULL)) > 0
                    OR EXISTS (SELECT FROM unnest(of_queues, of_lanes) AS of (queue, lane), LATERAL (
                        SELECT FROM {schema}.task AS t
                        WHERE t.queue = of.queue AND t.lane = of.lane AND {first} ORDER BY t.pos LIMIT 1
                    ) AS first WHERE of.queue = ANY (served)) THEN
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
        SELECT * INTO keyed FROM {schema}.first_keys(served, of_queues, of_lanes, incarnations, epochs, holders,
            wanted);
        taken := keyed.places;
        IF cardinality(array_remove(heads, NULL)) > 0 THEN
            WITH plain AS MATERIALIZED (
                SELECT first.place, first.pos, first.ready_at, of.lane
                FROM unnest(place_queues, place_lanes, floors, heads) AS of (queue, lane, floor, head), LATERAL (
                    SELECT task.ctid AS place, task.pos, task.ready_at FROM {schema}.task
                    WHERE task.queue = of.queue AND task.lane = of.lane AND session IS NULL AND due IS NULL
                        AND task.pos > of.floor ORDER BY task.pos LIMIT wanted FOR UPDATE SKIP LOCKED
                ) AS first WHERE of.head IS NOT NULL
            ), found AS MATERIALIZED (
                SELECT * FROM plain UNION ALL SELECT k.place, k.pos, k.since, {rank}
                FROM unnest(keyed.places, keyed.positions, keyed.since) AS k (place, pos, since)
            )
            SELECT array_agg(f.place ORDER BY f.lane, f.pos), array_agg(f.ready_at ORDER BY f.lane, f.pos),
                ARRAY[1, 1 + count(*) FILTER (WHERE f.lane < 1), 1 + count(*) FILTER (WHERE f.lane < 2),
                    1 + count(*) FILTER (WHERE f.lane < 3), 1 + count(*)] INTO places, ready, ends FROM found AS f;
            nexts := ends[1:4];
            ends := ends[2:5];
            taken := places[1:wanted];
            IF EXISTS (SELECT FROM unnest(nexts, ends) AS of (next, stop) WHERE next < stop OFFSET 1) THEN
                taken := ARRAY[]::tid[];
                FOR place IN 1 .. least(wanted, cardinality(places)) LOOP
                    best := NULL;
                    FOR rank IN 1 .. 4 LOOP
                        IF nexts[rank] < ends[rank] AND (best IS NULL
                                OR (mod(place, 8) = 0 AND ready[nexts[rank]] < ready[nexts[best]])) THEN
                            best := rank;
                        END IF;
                    END LOOP;
                    taken := taken || places[nexts[best]];
                    nexts[best] := nexts[best] + 1;
                END LOOP;
            END IF;
        END IF;
        RETURN QUERY WITH claimed AS (
            UPDATE {schema}.task AS t SET session = own, attempt = t.attempt + 1, progress = 0, note = ''
            FROM unnest(taken) WITH ORDINALITY AS of (place, number)
            WHERE t.ctid = of.place RETURNING t.id, t.attempt, t.queue, t.lane, t.pos, t.name, t.codec, t.arguments,
                t.failures, t.deaths, t.crashes, t.enqueued, t.trace, t.ready_at, t.slot, t.key, of.number
        )
        SELECT NULL::text, NULL::bigint, NULL::boolean, NULL::bigint[], NULL::bigint[], NULL::bigint[], NULL::bigint,
            NULL::bigint, c.id, c.attempt, c.queue, c.lane, c.pos, c.name, c.codec, c.arguments, c.failures, c.deaths,
            c.crashes, c.enqueued, c.trace, greatest(0, begun.at_ms - c.ready_at), c.slot, c.key
            FROM claimed AS c ORDER BY c.number;
    END IF;
    IF is_rescan THEN
        SELECT positions INTO left_at FROM {schema}.task_heads(served, place_queues, place_lanes, floors);
        mark := txid_current();
    END IF;
    RETURN NEXT;
END $$
""".replace("{arguments}", _ARGUMENTS).replace("{results}", _RESULTS)
KEYED_TURN = KEYED_TURN.replace("{first}", FIRST).replace("{rank}", f"{KEYED_RANK}::bigint")
KEYED_FUNCTIONS = (IS_KEYED_RARE, FIRST_KEYS, KEYED_TURN)
