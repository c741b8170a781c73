"""The tables of tasks in PostgreSQL. They are a separate part of the schema, and the first handle of tasks makes them.

Groups in the same schema run on meanwhile, because the version of their part stays. Times are milliseconds since 1970
on the clock of the server, moved by `work_meta.offset_ms`. No index begins with `pos`: the planner would use it for a
claim, and read the tasks of all queues.
"""

from collections.abc import Awaitable, Callable

from apportion.errors import InvalidInput
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres import task_functions as functions
from apportion.stores.postgres import task_within as enqueues
from apportion.stores.postgres.driver import Row
from apportion.stores.postgres.key_functions import KEYED_FUNCTIONS
from apportion.stores.postgres.key_tables import GRANT_LANES, HAS_ALL_OF_KEYS, HAS_KEYS, KEY_STEPS, LEAVE_TOGETHER

TASKS_VERSION = 1
_SHARED_COLUMNS = """
    queue text COLLATE "C" NOT NULL,
    lane bigint NOT NULL,
    name text NOT NULL,
    codec text NOT NULL,
    arguments bytea NOT NULL,
    uniq text COLLATE "C",
    due bigint,
    expires bigint,
    attempt bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    deaths bigint NOT NULL DEFAULT 0,
    crashes bigint NOT NULL DEFAULT 0,
    deaths_of text NOT NULL DEFAULT '',
    most_deaths bigint,
    cancelling bigint NOT NULL DEFAULT 0,
    replaced bigint NOT NULL DEFAULT 0,
    progress double precision NOT NULL DEFAULT 0,
    note text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    trace text NOT NULL,
    schedule text COLLATE "C",
    slot bigint,
    enqueued bigint NOT NULL,
    ready_at bigint NOT NULL
"""
_BY_INDEX = """SET random_page_cost TO 0 SET enable_seqscan TO off SET enable_bitmapscan TO off
    SET enable_hashjoin TO off SET enable_mergejoin TO off SET plan_cache_mode TO force_generic_plan
    SET jit TO off"""
_FUNCTIONS = (
    functions.NOW,
    functions.NEXT_POSITION,
    functions.BEGIN,
    enqueues.ADD,
    enqueues.MEET,
    enqueues.ENQUEUE_ONE,
    enqueues.ENQUEUE,
    enqueues.ENQUEUE_KEYED,
    enqueues.ENQUEUE_WITHIN,
    functions.HEADS,
    functions.DUE,
    functions.IS_RARE,
    functions.CLAIM,
    functions.TURN,
)
_BODIES = tuple(each.replace("{by_index}", _BY_INDEX) for each in (*_FUNCTIONS, *KEYED_FUNCTIONS))
_NEW_BODIES = tuple(each.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION") for each in _BODIES)
# `waiting_until` is the time until which some worker waits for a hint of new tasks.
TASK_TABLES = (
    "CREATE TABLE {schema}.work_meta (id integer PRIMARY KEY CHECK (id = 1), version integer NOT NULL,"
    " offset_ms bigint NOT NULL, waiting_until bigint NOT NULL) WITH (fillfactor = 20)",
    "CREATE SEQUENCE {schema}.task_pos",
    # The open tasks only. `deaths_of` lists sessions with commas between them; `deaths` is their number.
    'CREATE TABLE {schema}.task (id text COLLATE "C" PRIMARY KEY, pos bigint NOT NULL, session bigint,'
    + _SHARED_COLUMNS
    + ")",
    "CREATE INDEX task_ready ON {schema}.task (queue, lane, pos) WHERE session IS NULL AND due IS NULL",
    "CREATE INDEX task_due ON {schema}.task (queue, due, pos) WHERE session IS NULL AND due IS NOT NULL",
    "CREATE INDEX task_open ON {schema}.task (session, pos) WHERE session IS NOT NULL",
    "CREATE INDEX task_deaths ON {schema}.task (deaths) WHERE deaths > 0",
    "CREATE INDEX task_expires ON {schema}.task (queue, expires) WHERE session IS NULL AND expires IS NOT NULL",
    "CREATE INDEX task_scheduled ON {schema}.task (queue, schedule) WHERE schedule IS NOT NULL",
    "CREATE UNIQUE INDEX task_uniq ON {schema}.task (queue, uniq) WHERE uniq IS NOT NULL AND replaced = 0",
    'CREATE TABLE {schema}.outcome (id text COLLATE "C" PRIMARY KEY, state text NOT NULL, at bigint NOT NULL,'
    " keep_until bigint, result bytea," + _SHARED_COLUMNS + ")",
    "CREATE INDEX outcome_kept ON {schema}.outcome (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX outcome_condemned ON {schema}.outcome (at) WHERE state = 'dead' AND deaths > 0",
    "CREATE TABLE {schema}.worker (session bigint PRIMARY KEY, name text NOT NULL, host text NOT NULL,"
    " pid bigint NOT NULL, queues text NOT NULL, concurrency bigint NOT NULL)",
    'CREATE TABLE {schema}.control (queue text COLLATE "C" PRIMARY KEY, paused bigint NOT NULL DEFAULT 0,'
    " open_claims bigint, rate bigint, per_ms bigint NOT NULL DEFAULT 60000,"
    " tokens double precision NOT NULL DEFAULT 0, tokens_at bigint NOT NULL DEFAULT 0)",
    'CREATE TABLE {schema}.once (scope text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,'
    " task text NOT NULL, attempt bigint NOT NULL, session bigint NOT NULL, at bigint NOT NULL, value bytea,"
    " PRIMARY KEY (scope, key))",
    "CREATE INDEX once_at ON {schema}.once (at)",
    'CREATE TABLE {schema}.schedule (queue text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,'
    " rule text NOT NULL, zone text NOT NULL, gap text NOT NULL, fold text NOT NULL, missed text NOT NULL,"
    " overlap text NOT NULL, jitter_ms bigint NOT NULL, task text NOT NULL, arguments bytea NOT NULL,"
    " codec text NOT NULL, lane bigint NOT NULL, most_deaths bigint, version bigint NOT NULL,"
    " next_slot bigint NOT NULL, tzdata text NOT NULL, last_slot bigint NOT NULL, paused bigint NOT NULL,"
    " declared bigint NOT NULL, PRIMARY KEY (queue, name)) WITH (fillfactor = 50)",
    "CREATE INDEX schedule_due ON {schema}.schedule (next_slot) WHERE paused = 0",
    'CREATE TABLE {schema}.slot_mark (queue text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,'
    " slot bigint NOT NULL, at bigint NOT NULL, by text NOT NULL, mark text NOT NULL, task text NOT NULL,"
    " PRIMARY KEY (queue, name, slot))",
    *KEY_STEPS,
    *_BODIES,
    f"INSERT INTO {{schema}}.work_meta VALUES (1, {TASKS_VERSION}, 0, 0)",  # noqa: S608 - ours
)
HAS_TASKS = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = {channel} AND tablename = 'work_meta')"
VERSION = "SELECT version FROM {schema}.work_meta"
TASK_GRANTS = (
    "GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.task, {schema}.outcome, {schema}.worker, {schema}.control,"
    " {schema}.once, {schema}.schedule, {schema}.slot_mark, {schema}.lane TO {user}",
    "GRANT SELECT, UPDATE ON {schema}.work_meta TO {user}",
    "GRANT USAGE ON SEQUENCE {schema}.task_pos TO {user}",
)
# The tables of tasks on which the user lacks a right.
LACKING_TASKS = """
SELECT array_to_string(array(
    SELECT tables.name FROM (VALUES
        ('task', 'SELECT'), ('task', 'INSERT'), ('task', 'UPDATE'), ('task', 'DELETE'),
        ('outcome', 'SELECT'), ('outcome', 'INSERT'), ('outcome', 'UPDATE'), ('outcome', 'DELETE'),
        ('worker', 'SELECT'), ('worker', 'INSERT'), ('worker', 'UPDATE'), ('worker', 'DELETE'),
        ('once', 'SELECT'), ('once', 'INSERT'), ('once', 'UPDATE'), ('once', 'DELETE'),
        ('schedule', 'SELECT'), ('schedule', 'INSERT'), ('schedule', 'UPDATE'), ('schedule', 'DELETE'),
        ('slot_mark', 'SELECT'), ('slot_mark', 'INSERT'), ('slot_mark', 'UPDATE'), ('slot_mark', 'DELETE'),
        ('lane', 'SELECT'), ('lane', 'INSERT'), ('lane', 'UPDATE'),
        ('control', 'SELECT'), ('control', 'INSERT'), ('control', 'UPDATE'),
        ('work_meta', 'SELECT'), ('work_meta', 'UPDATE')
    ) AS tables (name, needed)
    WHERE NOT has_table_privilege({channel} || '.' || tables.name, tables.needed)
    GROUP BY tables.name ORDER BY tables.name
), ', ') || CASE WHEN has_sequence_privilege({channel} || '.task_pos', 'USAGE') THEN '' ELSE ' task_pos' END
"""


async def make_tables(ask: Callable[[str], Awaitable[list[Row]]]) -> None:
    """Make the tables if they are absent, in the transaction of `ask`; `InvalidInput` for tables of a later release.

    If many processes begin at the same time, one makes the tables. Older tables get the part of keyed tasks. The
    functions that an older release calls stay.
    """
    if not (await ask(HAS_ALL_OF_KEYS))[0][0]:
        await ask(sql.LOCK_UPGRADE)
        for statement in await _missing(ask):
            await ask(statement)
    [(version,)] = await ask(VERSION)
    if version != TASKS_VERSION:
        expected = f"{TASKS_VERSION}, which this release writes"
        raise InvalidInput("version of the tasks", version, expected, "Upgrade apportion on this host.")


async def _missing(ask: Callable[[str], Awaitable[list[Row]]]) -> tuple[str, ...]:
    if not (await ask(HAS_TASKS))[0][0]:
        return TASK_TABLES
    if not (await ask(HAS_KEYS))[0][0]:
        return (*KEY_STEPS, GRANT_LANES, *_NEW_BODIES)
    if not (await ask(HAS_ALL_OF_KEYS))[0][0]:
        return (*LEAVE_TOGETHER, *_NEW_BODIES)
    return ()
