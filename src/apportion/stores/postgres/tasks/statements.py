"""The statements on the tasks in PostgreSQL, and the values of the most frequent ones.

The driver fills in `{schema}` and the like, quoted.
"""

# ruff: noqa: S608 - every statement is ours

from collections.abc import Sequence
from typing import Any

from apportion.stores.keys.partitions import counted
from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.postgres.driver import Parameter
from apportion.stores.postgres.key_tables import NEVER
from apportion.stores.postgres.tasks.floors import Places
from apportion.stores.postgres.tasks.lanes import first_statement
from apportion.stores.task_rows import COLUMNS, worker_values
from apportion.stores.task_values import MOST_DUE, Claim, NewTask, Receipt, Worker

_WHOLE, _OPTIONAL = (0, 5), (7, 8, 9, 12)  # columns of `ENQUEUE`: ids and calls; times, unique names, keys

# The most frequent statements. Each value has a cast, so that it travels in binary form; see `prepared`.
_TEXT, _NUMBER, _TRUTH, _TEXTS, _NUMBERS = "%b::text", "%b::bigint", "%b::boolean", "%b::text[]", "%b::bigint[]"
_LIFE = f"{_NUMBER}, %b::integer"  # the known incarnation, and the milliseconds to wait for a lock
ENQUEUE = (
    f"SELECT * FROM {{schema}}.enqueue_tasks({_LIFE}, {_TEXTS}, {_TEXTS}, {_NUMBERS}, {_TEXTS}, {_TEXTS}, %b::bytea[],"
    f" {_NUMBERS}, {_NUMBERS}, {_NUMBERS}, {_TEXTS}, {_NUMBERS}, {_TEXTS}, {_TEXTS}, {_TEXTS}, %b::boolean[])"
)
ENQUEUE_ONE = ENQUEUE.replace("enqueue_tasks", "enqueue_task").replace("[]", "")
# The same for keyed tasks. Two more values are the queues, and the numbers of partitions that the caller assumed.
ENQUEUE_KEYED = ENQUEUE.replace(f".enqueue_tasks({_LIFE},", f".enqueue_keyed({_LIFE}, {_TEXTS}, {_NUMBERS},")
TURN = (
    f"SELECT * FROM {{schema}}.turn({_LIFE}, {_TRUTH}, {_NUMBER}, {_TEXT}, {_TEXT}, {_NUMBER}, {_TEXT}, {_NUMBER},"
    f" {_TEXTS}, {_NUMBERS}, {_NUMBERS}, {_NUMBER}, {_TEXTS}, {_TEXTS}, {_NUMBERS}, {_NUMBERS}, {_TRUTH}, {_NUMBER})"
)
KEYED_TURN = f"{TURN[:-1]}, {_TEXTS}, {_NUMBERS}, {_NUMBERS}, {_NUMBERS}, {_TEXTS})".replace(".turn(", ".keyed_turn(")
# After `BEGIN`, the statements of the transaction find their rows only by indexes, as the functions do. The server ends
# a transaction that is idle for 10 s, so a stopped worker keeps no row from other workers.
BEGIN = (
    "SELECT begun.*, set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),"
    " set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),"
    " set_config('jit', 'off', true), set_config('idle_in_transaction_session_timeout', '10000', true)"
    f" FROM {{schema}}.begin_tasks({_LIFE}, {_TRUTH}) AS begun"
)
DONE = (
    f"DELETE FROM {{schema}}.task AS t USING unnest({_TEXTS}, {_NUMBERS}, {_NUMBERS}) WITH ORDINALITY"
    " AS r (id, attempt, session, place)"
    " WHERE t.id = r.id AND t.attempt = r.attempt AND t.session + 0 = r.session RETURNING r.place"
)
# Statements for any library. Numbers come as texts; the cast to TEXT tells this to asyncpg.
COMPLETE = (
    "DELETE FROM {schema}.task WHERE id = :id AND attempt = CAST(CAST(:attempt AS TEXT) AS BIGINT)"
    " AND session = CAST(CAST(:session AS TEXT) AS BIGINT) RETURNING id"
)
PLACE = "SELECT CAST(to_regclass(:meta) AS TEXT), current_database()"
INSERTION = (
    "SELECT {schema}.enqueue_within(CAST(CAST(:incarnation AS TEXT) AS BIGINT),"
    " CAST(CAST(:lock_milliseconds AS TEXT) AS INTEGER), CAST(:tasks AS TEXT))"
)
DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
KNOWN = (
    f"SELECT id FROM {{schema}}.task WHERE id = ANY ({_TEXTS})"
    f" UNION SELECT id FROM {{schema}}.outcome WHERE id = ANY ({_TEXTS})"
)
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
STATE = "SELECT incarnation, {schema}.now_ms() FROM {schema}.meta"
AWAIT = (
    "UPDATE {schema}.work_meta SET waiting_until = {schema}.now_ms() + %s WHERE waiting_until < {schema}.now_ms() + %s"
)
HINT = "SELECT pg_notify({channel}, 'tasks')"

SHARED = ", ".join(COLUMNS)
_MARKS = ", ".join(["%s"] * len(COLUMNS))
_OF_TASK = ", ".join(f"t.{each}" for each in ("pos", "session", "blocking", *COLUMNS))
OPEN = f"SELECT pos, session, blocking, {SHARED} FROM {{schema}}.task"
ENDED = f"SELECT state, at, result, {SHARED} FROM {{schema}}.outcome"
OPEN_COLUMNS = ("pos", "session", "blocking", *COLUMNS)
ENDED_COLUMNS = ("state", "at", "result", *COLUMNS)
# `+ 0` keeps the planner from the index on `session`: it would read all open claims of the session.
_BY_RECEIPT = "id = %s AND attempt = %s AND session + 0 = %s"
WAIT = (
    "UPDATE {schema}.task SET pos = CASE WHEN key IS NULL THEN {schema}.next_position() ELSE pos END,"
    " session = NULL, due = %s, failures = %s, deaths = %s, crashes = %s, deaths_of = %s, cancelling = %s,"
    " replaced = %s, reason = %s, ready_at = %s WHERE id = %s"
)
UNBLOCK = "UPDATE {schema}.task SET blocking = 0, uniq = %s WHERE id = %s AND blocking = 1 RETURNING id"
FORGET_BLOCKING = "DELETE FROM {schema}.task WHERE id = ANY (%s::text[]) AND blocking = 1"
REOPEN = f"INSERT INTO {{schema}}.task (pos, {SHARED}) VALUES ({{schema}}.next_position(), {_MARKS})"
# The same for many tasks, in order, with one list for each column.
_TYPES = dict.fromkeys(
    ("id", "queue", "name", "codec", "uniq", "deaths_of", "note", "reason", "trace", "schedule", "key", "on_dead"),
    "text",
) | {"arguments": "bytea", "progress": "float8"}
_LISTS = ", ".join(f"%s::{_TYPES.get(each, 'bigint')}[]" for each in COLUMNS)
OPEN_ALL = (
    f"INSERT INTO {{schema}}.task (pos, {SHARED}) SELECT {{schema}}.next_position(), new.* FROM unnest({_LISTS}) AS new"
)
END = (
    f"WITH gone AS (DELETE FROM {{schema}}.task WHERE id = %s) INSERT INTO {{schema}}.outcome"
    f" (state, at, keep_until, result, {SHARED}) VALUES (%s, %s, %s, %s, {_MARKS})"
)
END_AND_BLOCK = END.replace(
    "DELETE FROM {schema}.task",
    f"UPDATE {{schema}}.task SET session = NULL, blocking = 1, uniq = NULL, deaths = 0, deaths_of = '', due = {NEVER}",
)
KEEP_RESULT = (
    f"INSERT INTO {{schema}}.outcome (state, at, keep_until, result, {SHARED})"
    " SELECT 'done', {schema}.now_ms(), {schema}.now_ms() + CAST(CAST(:kept_ms AS TEXT) AS BIGINT), :result,"
    f" {SHARED} FROM {{schema}}.task WHERE id = :id AND attempt = CAST(CAST(:attempt AS TEXT) AS BIGINT)"
    " AND session = CAST(CAST(:session AS TEXT) AS BIGINT) FOR UPDATE RETURNING id"
)
KEEP_STRUCK = "UPDATE {schema}.outcome SET deaths_of = %s, deaths = %s, reason = '' WHERE id = %s"
STRIKE = "UPDATE {schema}.task SET deaths_of = %s, deaths = %s WHERE id = %s"
FORGET_OUTCOME = "DELETE FROM {schema}.outcome WHERE id = %s"
FORGET_OLD = (
    "DELETE FROM {schema}.outcome WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.outcome"
    " WHERE keep_until <= %s LIMIT %s FOR UPDATE SKIP LOCKED))"
)

LEASE = "SELECT id FROM {schema}.lease WHERE id = %s FOR KEY SHARE"
BY_ID = f"{OPEN} WHERE id = ANY (%s::text[]) ORDER BY id FOR UPDATE"
ENDED_BY_ID = f"{ENDED} WHERE id = ANY (%s::text[])"
NAME_TAKEN = "SELECT id FROM {schema}.task WHERE queue = %s AND uniq = %s AND replaced = 0"
OF_DEATHS = f"{OPEN} WHERE deaths > 0 ORDER BY id FOR UPDATE"
CONDEMNED = f"{ENDED} WHERE state = 'dead' AND deaths > 0 ORDER BY at, id FOR UPDATE"
BECOME_DUE = "SELECT {schema}.become_due(%s, %s::text[], %s)"
ORPHANS = (
    "WITH ended AS MATERIALIZED (SELECT session FROM {schema}.worker AS w"
    " WHERE NOT EXISTS (SELECT FROM {schema}.lease WHERE id = w.session))"
    f" SELECT {_OF_TASK} FROM ended JOIN {{schema}}.task AS t ON t.session = ended.session"
    f" WHERE t.queue = ANY (%s::text[]) AND (t.lane < {KEYED_LANES}"
    " OR (t.queue, t.lane) IN (SELECT * FROM unnest(%s::text[], %s::bigint[])))"
    " ORDER BY t.pos LIMIT %s FOR UPDATE OF t SKIP LOCKED"
)
RETAKE = (
    "UPDATE {schema}.task SET session = %s, attempt = attempt + 1, deaths_of = %s, deaths = %s, progress = 0, note = ''"
    f" WHERE {_BY_RECEIPT}"
)
TAKE = (
    "UPDATE {schema}.task SET session = %s, attempt = attempt + 1, progress = 0, note = ''"
    " WHERE id = ANY (%s::text[]) AND session IS NULL"
)
READY = (
    f"SELECT t.* FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS of (queue, lane, floor), LATERAL ({OPEN}"
    " WHERE task.queue = of.queue AND task.lane = of.lane AND session IS NULL AND due IS NULL AND pos > of.floor"
    " AND deaths < %s ORDER BY pos LIMIT %s FOR UPDATE SKIP LOCKED) AS t ORDER BY t.lane, t.pos"
)
FIRST = first_statement(_OF_TASK)
HAS_SUSPECT = "SELECT FROM {schema}.task WHERE session = %s AND (deaths > 0 OR crashes > 0) LIMIT 1"
COUNT_OPEN = "SELECT count(*) FROM {schema}.task WHERE session IS NOT NULL AND queue = %s"
ADD_WORKER = (
    "INSERT INTO {schema}.worker (session, name, host, pid, queues, concurrency) VALUES (%s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (session) DO UPDATE SET queues = excluded.queues"
)
FORGET_WORKERS = (
    "DELETE FROM {schema}.worker AS w WHERE NOT EXISTS (SELECT FROM {schema}.lease WHERE id = w.session)"
    " AND NOT EXISTS (SELECT FROM {schema}.task WHERE task.session = w.session)"
)
LIVE_WORKERS = (
    "SELECT session, name, host, pid, queues, concurrency FROM {schema}.worker AS w"
    " WHERE EXISTS (SELECT FROM {schema}.lease WHERE id = w.session) ORDER BY session"
)

NOTE = f"UPDATE {{schema}}.task SET progress = %s, note = %s WHERE {_BY_RECEIPT} RETURNING id"
CANCELS = "SELECT id, attempt, session FROM {schema}.task WHERE session = %s AND cancelling <> 0 ORDER BY pos"
CANCEL_CLAIMED = "UPDATE {schema}.task SET cancelling = 1 WHERE id = %s"

IS_OPEN = (
    "SELECT FROM {schema}.task AS t WHERE id = %s AND attempt = %s AND session + 0 = %s"
    " AND EXISTS (SELECT FROM {schema}.lease WHERE lease.id = t.session)"
)
ONCE = "SELECT task, attempt, session, at, value FROM {schema}.once WHERE scope = %s AND key = %s FOR UPDATE"
_ONCE_COLUMNS = "scope, key, task, attempt, session, at, value"
ADD_ONCE = (
    f"INSERT INTO {{schema}}.once ({_ONCE_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT DO NOTHING RETURNING key"
)
CHANGE_ONCE = (
    f"UPDATE {{schema}}.once SET ({_ONCE_COLUMNS}) = (%s, %s, %s, %s, %s, %s, %s) WHERE scope = %s AND key = %s"
)
FORGET_ONCE = (  # a time out of range is damage: such an entry is kept
    "DELETE FROM {schema}.once WHERE at BETWEEN 0 AND %s"
    " AND NOT EXISTS (SELECT FROM {schema}.task WHERE task.id = once.task)"
)

_CONTROL = "paused, open_claims, rate, per_ms, tokens, tokens_at, partitions"
CONTROLS = f"SELECT queue, {_CONTROL} FROM {{schema}}.control"
LOCKED_CONTROLS = (
    f"{CONTROLS} WHERE queue = ANY (%s::text[]) AND (open_claims IS NOT NULL OR rate IS NOT NULL)"
    " ORDER BY queue FOR NO KEY UPDATE"
)
PAUSED = "SELECT queue FROM {schema}.control WHERE queue = ANY (%s::text[]) AND paused <> 0"
PARTITIONS = "SELECT partitions FROM {schema}.control WHERE queue = %s"
KEPT_PARTITIONS = f"{PARTITIONS} FOR KEY SHARE"  # no resize happens before the commit
SPEND = "UPDATE {schema}.control SET tokens = %s, tokens_at = %s WHERE queue = %s"
PAUSE = (
    "INSERT INTO {schema}.control (queue, paused) VALUES (%s, %s)"
    " ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused"
)
LIMIT = (
    "INSERT INTO {schema}.control (queue, open_claims, rate, per_ms, tokens, tokens_at) VALUES (%s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (queue) DO UPDATE SET open_claims = excluded.open_claims, rate = excluded.rate,"
    " per_ms = excluded.per_ms, tokens = excluded.tokens, tokens_at = excluded.tokens_at"
)
_STATE = "CASE WHEN session IS NOT NULL THEN 'claimed' WHEN due IS NULL THEN 'ready' ELSE 'delayed' END"
LIST_OPEN = (
    f"{OPEN} WHERE pos > %(after)s AND blocking = 0 AND (%(queue)s::text IS NULL OR queue = %(queue)s)"
    " AND (%(name)s::text IS NULL OR name = %(name)s) AND (%(session)s::bigint IS NULL OR session = %(session)s)"
    f" AND {_STATE} = ANY (%(states)s::text[]) ORDER BY pos LIMIT %(most)s"
)
LIST_ENDED = (
    f"{ENDED} WHERE (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(name)s::text IS NULL OR name = %(name)s)"
    " AND state = ANY (%(states)s::text[]) AND (at, id) > (%(at)s::bigint, %(id)s::text) ORDER BY at, id LIMIT %(most)s"
)
FIND_OPEN = f"{OPEN} WHERE blocking = 0 AND id = ANY (%s::text[]) ORDER BY pos"
# Ids consist of hexadecimal digits, so 'g' comes after all of them.
_BEGINS = "id >= %(prefix)s AND id < %(prefix)s || 'g' ORDER BY id LIMIT %(most)s"
OPEN_BY_PREFIX, ENDED_BY_PREFIX = f"{OPEN} WHERE blocking = 0 AND {_BEGINS}", f"{ENDED} WHERE {_BEGINS}"
_PURGE = (
    "DELETE FROM {{schema}}.task WHERE ctid = ANY (ARRAY(SELECT ctid FROM {{schema}}.task"
    " WHERE queue = %s AND session IS NULL AND due IS {} AND blocking = 0 LIMIT %s FOR UPDATE)) RETURNING id"
)
PURGE_READY, PURGE_DELAYED = _PURGE.format("NULL"), _PURGE.format("NOT NULL")
PURGE_ENDED = (
    "DELETE FROM {schema}.outcome WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.outcome"
    " WHERE queue = %s AND state = %s LIMIT %s FOR UPDATE)) RETURNING id"
)
COUNT_TASKS = f"SELECT queue, {_STATE}, count(*), min(ready_at) FROM {{schema}}.task WHERE blocking = 0 GROUP BY 1, 2"
COUNT_ENDED = "SELECT queue, state, count(*) FROM {schema}.outcome GROUP BY 1, 2"


def claimed_task(row: Sequence[Any], session: int) -> Claim:
    """Return the claim in a row of `TURN` or `KEYED_TURN`."""
    task, attempt, queue, lane, _, name, codec, arguments, failures, deaths, crashes, enqueued, trace, waited, slot = (
        row[8:23]
    )
    return Claim(
        receipt=Receipt(task=task, attempt=attempt, session=session),
        queue=queue,
        lane=lane,
        name=name,
        codec=codec,
        arguments=arguments,
        failures=failures,
        deaths=deaths,
        crashes=crashes,
        enqueued=enqueued,
        trace=trace,
        waited_ms=waited,
        slot=slot,
        key=row[23] if len(row) > 23 else None,
    )


def turn_values(
    worker: Worker, done: list[Parameter], want: int, places: Places, *, is_rescan: bool
) -> list[Parameter]:
    """Return the values of `TURN` after the first three. `done` are receipts, as columns."""
    session, name, host, pid, queues, concurrency = worker_values(worker)
    own: list[Parameter] = [session, name, host, pid, queues, concurrency]
    return [*own, *done, want, list(worker.queues), *places, is_rescan, MOST_DUE]


def enqueue_statement(tasks: Sequence[NewTask]) -> tuple[str, list[Parameter]]:
    """Return the statement that enqueues tasks, and its values after the first two.

    A column with one value for all tasks is sent as one value, and a column of NULL as an empty list.
    """
    numbers = counted(tasks)
    more: list[Parameter] = [list(each) for each in zip(*numbers, strict=True)]
    columns = _columns(tasks)
    if len(tasks) == 1 and not numbers:
        return ENQUEUE_ONE, [each[0] for each in columns]
    short = [_short(place, values) for place, values in enumerate(columns)]
    return ENQUEUE_KEYED if numbers else ENQUEUE, [*more, *short]


def _short(place: int, values: list[Any]) -> list[Any]:
    if place in _WHOLE or values.count(values[0]) < len(values):
        return values
    if place in _OPTIONAL:
        return [] if values[0] is None else values
    return values[:1]


def _columns(tasks: Sequence[NewTask]) -> list[list[Any]]:
    """Return tasks as columns. In the column of the most deaths, zero means that there is no limit."""
    return [
        [each.id for each in tasks],
        [each.queue for each in tasks],
        [each.lane for each in tasks],
        [each.name for each in tasks],
        [each.codec for each in tasks],
        [each.arguments for each in tasks],
        [each.delay_ms for each in tasks],
        [each.due_at for each in tasks],
        [each.expires_at for each in tasks],
        [each.unique for each in tasks],
        [each.most_deaths or 0 for each in tasks],
        [each.trace for each in tasks],
        [each.key for each in tasks],
        [each.on_dead for each in tasks],
        [each.on_duplicate == "replace" for each in tasks],
    ]
