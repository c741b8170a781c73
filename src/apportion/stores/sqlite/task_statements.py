"""The tables of tasks in an SQLite file, and the statements on them. These tables have a version of their own.

The first handle of tasks makes the tables. Groups on the same file keep running, because the version of their tables
does not change. Times are milliseconds since 1970 on the clock of SQLite, plus `work_meta.offset_ms`.
"""

# ruff: noqa: S608 - every statement is ours

from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.sqlite.statements import NOW_MILLISECONDS
from apportion.stores.task_rows import COLUMNS
from apportion.stores.task_values import MOST_TIME

TASKS_VERSION = 1
TABLES: tuple[str, ...] = (
    "CREATE TABLE IF NOT EXISTS work_meta (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL,"
    " offset_ms INTEGER NOT NULL)",
    # Only open tasks. `deaths_of` lists sessions with commas between them; `deaths` is their number.
    "CREATE TABLE IF NOT EXISTS task (pos INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, queue TEXT NOT NULL,"
    " lane INTEGER NOT NULL, name TEXT NOT NULL, codec TEXT NOT NULL, arguments BLOB NOT NULL, uniq TEXT,"
    " due INTEGER, expires INTEGER, attempt INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,"
    " deaths INTEGER NOT NULL DEFAULT 0, crashes INTEGER NOT NULL DEFAULT 0, deaths_of TEXT NOT NULL DEFAULT '',"
    " most_deaths INTEGER, session INTEGER, cancelling INTEGER NOT NULL DEFAULT 0,"
    " replaced INTEGER NOT NULL DEFAULT 0, progress REAL NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '',"
    " reason TEXT NOT NULL DEFAULT '', trace TEXT NOT NULL, schedule TEXT, slot INTEGER,"
    " enqueued INTEGER NOT NULL, ready_at INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS task_ready ON task (queue, lane, pos) WHERE session IS NULL AND due IS NULL",
    "CREATE INDEX IF NOT EXISTS task_due ON task (queue, due, pos) WHERE session IS NULL AND due IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS task_open ON task (session, pos) WHERE session IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS task_deaths ON task (pos) WHERE deaths > 0",
    "CREATE INDEX IF NOT EXISTS task_scheduled ON task (queue, schedule) WHERE schedule IS NOT NULL",
    "CREATE UNIQUE INDEX IF NOT EXISTS task_uniq ON task (queue, uniq) WHERE uniq IS NOT NULL AND replaced = 0",
    "CREATE TABLE IF NOT EXISTS outcome (id TEXT PRIMARY KEY, state TEXT NOT NULL, at INTEGER NOT NULL,"
    " keep_until INTEGER, result BLOB, queue TEXT NOT NULL, lane INTEGER NOT NULL, name TEXT NOT NULL,"
    " codec TEXT NOT NULL, arguments BLOB NOT NULL, uniq TEXT, due INTEGER, expires INTEGER,"
    " attempt INTEGER NOT NULL, failures INTEGER NOT NULL, deaths INTEGER NOT NULL, crashes INTEGER NOT NULL,"
    " deaths_of TEXT NOT NULL, most_deaths INTEGER, cancelling INTEGER NOT NULL, replaced INTEGER NOT NULL,"
    " progress REAL NOT NULL, note TEXT NOT NULL, reason TEXT NOT NULL, trace TEXT NOT NULL,"
    " schedule TEXT, slot INTEGER, enqueued INTEGER NOT NULL, ready_at INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS outcome_kept ON outcome (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS outcome_condemned ON outcome (at) WHERE state = 'dead' AND deaths > 0",
    "CREATE TABLE IF NOT EXISTS worker (session INTEGER PRIMARY KEY, name TEXT NOT NULL, host TEXT NOT NULL,"
    " pid INTEGER NOT NULL, queues TEXT NOT NULL, concurrency INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS control (queue TEXT PRIMARY KEY, paused INTEGER NOT NULL DEFAULT 0,"
    " open_claims INTEGER, rate INTEGER, per_ms INTEGER NOT NULL DEFAULT 60000, tokens REAL NOT NULL DEFAULT 0,"
    " tokens_at INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS once (scope TEXT NOT NULL, key TEXT NOT NULL, task TEXT NOT NULL,"
    " attempt INTEGER NOT NULL, session INTEGER NOT NULL, at INTEGER NOT NULL, value BLOB,"
    " PRIMARY KEY (scope, key)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS once_at ON once (at)",
    f"INSERT OR IGNORE INTO work_meta VALUES (1, {TASKS_VERSION}, 0)",
)
NEVER = MOST_TIME

# The tables and columns of keyed tasks. `make_tables` adds them to a file that lacks them.
# A task is *behind* while an older task of its key is open; the first task of each key is not. Triggers maintain this
# mark, so a completion in a transaction of the caller updates it too. No index that a claim reads contains tasks that
# are behind. A dead task that blocks its key keeps a row here (`blocking`) besides its outcome; its due time never
# comes.
_OF_KEY = "SELECT {found} FROM task AS t WHERE t.queue = {row}.queue AND t.key = {row}.key"
# Without OR FAIL, SQLite saves each page that a statement changes, in case a later row violates a constraint. Here, an
# error in a statement ends the transaction anyway, and no value of these statements violates a constraint.
_NEXT_OF_OLD = (
    f"UPDATE OR FAIL task SET behind = 0 WHERE pos = ({_OF_KEY.format(found='min(t.pos)', row='OLD')}) AND behind"
)
KEY_TABLES: tuple[str, ...] = (
    "ALTER TABLE task ADD COLUMN key TEXT",
    "ALTER TABLE task ADD COLUMN on_dead TEXT NOT NULL DEFAULT 'skip'",
    "ALTER TABLE task ADD COLUMN behind INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE task ADD COLUMN blocking INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE outcome ADD COLUMN key TEXT",
    "ALTER TABLE outcome ADD COLUMN on_dead TEXT NOT NULL DEFAULT 'skip'",
    "ALTER TABLE control ADD COLUMN partitions INTEGER",
    "CREATE TABLE lane (queue TEXT NOT NULL, lane INTEGER NOT NULL, incarnation INTEGER NOT NULL,"
    " epoch INTEGER NOT NULL, holder TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (queue, lane)) WITHOUT ROWID",
    "CREATE INDEX task_keyed ON task (queue, key, pos) WHERE key IS NOT NULL",
    "CREATE UNIQUE INDEX task_key_claimed ON task (queue, key) WHERE session IS NOT NULL AND key IS NOT NULL",
    "CREATE INDEX task_first ON task (queue, lane, pos)"
    " WHERE key IS NOT NULL AND behind = 0 AND session IS NULL AND due IS NULL",
    "CREATE TRIGGER task_ends AFTER DELETE ON task WHEN OLD.key IS NOT NULL AND NOT OLD.behind"
    f" BEGIN {_NEXT_OF_OLD}; END",
    "CREATE TRIGGER task_moves AFTER UPDATE OF pos, key ON task WHEN OLD.key IS NOT NULL OR NEW.key IS NOT NULL"
    f" BEGIN {_NEXT_OF_OLD};"
    f" UPDATE task SET behind = EXISTS ({_OF_KEY.format(found='1', row='NEW')} AND t.pos < NEW.pos)"
    " WHERE pos = NEW.pos; END",
)
HAS_KEYS = "SELECT count(*) FROM sqlite_master WHERE name = 'lane'"
HAS_TASKS = "SELECT count(*) FROM sqlite_master WHERE name = 'work_meta'"
VERSION = "SELECT version FROM work_meta"
TOUCH = "UPDATE work_meta SET offset_ms = offset_ms"
NOW = f"SELECT {NOW_MILLISECONDS} + offset_ms FROM work_meta"

SHARED = ", ".join(COLUMNS)
_KEY = f"?{COLUMNS.index('key') + 1}"
_MARKS = ", ".join("?" * len(COLUMNS))
OPEN_COLUMNS = ("pos", "session", "blocking", *COLUMNS)
ENDED_COLUMNS = ("state", "at", "result", *COLUMNS)
OPEN = f"SELECT pos, session, blocking, {SHARED} FROM task"
ENDED = f"SELECT state, at, result, {SHARED} FROM outcome"
# `behind`: an older task of the key is open.
_IS_BEHIND = "EXISTS (SELECT 1 FROM task WHERE queue = {queue} AND key = {key})"
ADD = (
    f"INSERT INTO task ({SHARED}, behind) SELECT {_MARKS}, {_IS_BEHIND.format(queue='?2', key=_KEY)}"
    " WHERE NOT EXISTS (SELECT 1 FROM outcome WHERE id = ?1) ON CONFLICT DO NOTHING RETURNING pos"
)
# The same statement for a connection of the caller, with named values.
_NAMED = ", ".join(f":{each}" for each in COLUMNS)
INSERT = (
    f"INSERT INTO task ({SHARED}, behind) SELECT {_NAMED}, {_IS_BEHIND.format(queue=':queue', key=':key')}"
    " WHERE NOT EXISTS (SELECT 1 FROM outcome WHERE id = :id) ON CONFLICT DO NOTHING RETURNING pos"
)
TIME_AND_LIFE = f"SELECT ({NOW}), incarnation FROM meta"
PARTITIONS = "SELECT partitions FROM control WHERE queue = :queue"
IS_KNOWN = "SELECT 1 FROM task WHERE id = :id UNION ALL SELECT 1 FROM outcome WHERE id = :id"
NAMED = "SELECT id, session FROM task WHERE queue = :queue AND uniq = :uniq AND replaced = 0"
RENAME = "UPDATE task SET replaced = 1 WHERE id = :named RETURNING pos"
_NEW = ", ".join(f"{each} = :{each}" for each in COLUMNS if each not in ("id", "attempt"))
RENEW = f"UPDATE task SET pos = (SELECT max(pos) + 1 FROM task), {_NEW} WHERE id = :named RETURNING pos"
PLACE = "PRAGMA database_list"
BY_ID = f"{OPEN} WHERE id = ?"
SHOWN_BY_ID = f"{BY_ID} AND NOT blocking"  # the outcome of a blocking task is shown instead
BY_UNIQUE = f"{OPEN} WHERE queue = ? AND uniq = ? AND replaced = 0"
GIVE_UP_NAME = "UPDATE task SET replaced = 1 WHERE pos = ?"
REMOVE = "DELETE FROM task WHERE id = ?"
_KEPT_IN_PLACE = [each for each in COLUMNS if each not in ("id", "queue", "lane", "key", "on_dead")]
KEEP_PLACE = (
    "UPDATE task SET session = NULL, blocking = 0"
    + "".join(f", {each} = ?{COLUMNS.index(each) + 1}" for each in _KEPT_IN_PLACE)
    + f" WHERE id = ?1 AND {_KEY} IS NOT NULL RETURNING pos"
)
BLOCK = (
    f"UPDATE task SET session = NULL, blocking = 1, due = {NEVER}, uniq = NULL, deaths_of = '', deaths = 0 WHERE id = ?"
)
FORGET_BLOCKING = "DELETE FROM task WHERE id IN (SELECT value FROM json_each(?)) AND blocking"
DONE = "DELETE FROM task WHERE id = ? AND attempt = ? AND session = ? RETURNING pos"
# The same for a JSON object of tasks and their attempts. One statement completes many tasks, because each step of a
# statement releases the interpreter's lock.
ALL_DONE = (
    "DELETE FROM task WHERE pos IN (SELECT task.pos FROM json_each(?1) AS r CROSS JOIN task"
    " WHERE task.id = r.key AND attempt = r.value AND session = ?2)"
)
COMPLETE = (
    "DELETE FROM task WHERE id = :id AND attempt = CAST(:attempt AS BIGINT) AND session = CAST(:session AS BIGINT)"
    " RETURNING id"
)
_BY_TEXTS = "id = :id AND attempt = CAST(:attempt AS BIGINT) AND session = CAST(:session AS BIGINT)"
KEEP_RESULT = (
    f"INSERT INTO outcome (state, at, keep_until, result, {SHARED})"
    f" SELECT 'done', ({NOW}), ({NOW}) + CAST(:kept_ms AS BIGINT), :result, {SHARED} FROM task WHERE {_BY_TEXTS}"
    " RETURNING id"
)
HELD = f"{OPEN} WHERE id = ? AND attempt = ? AND session = ?"
END = f"REPLACE INTO outcome (state, at, keep_until, result, {SHARED}) VALUES (?, ?, ?, ?, {_MARKS})"
FORGET_OUTCOME = "DELETE FROM outcome WHERE id = ?"
FORGET_OLD = (  # a claim waits for this, and holds the lock of the file
    "DELETE FROM outcome WHERE id IN (SELECT id FROM outcome WHERE keep_until <= ? LIMIT ?)"
)

OF_DEATHS = f"{OPEN} WHERE deaths > 0"
CONDEMNED = f"{ENDED} WHERE state = 'dead' AND deaths > 0 ORDER BY at, id"
DUE = f"{OPEN} WHERE queue = ? AND session IS NULL AND due <= ? ORDER BY due, pos LIMIT ?"
IS_DUE = "SELECT 1 FROM task WHERE queue = ? AND session IS NULL AND due <= ? LIMIT 1"
# The index is named, because SQLite with statistics would read the table instead: slow, if the queue has no ready task.
IS_READY = (
    "SELECT 1 FROM task INDEXED BY task_ready WHERE session IS NULL AND due IS NULL AND queue = ?"
    f" AND lane < {KEYED_LANES} LIMIT 1"
)
# The sessions of workers and of open claims, one seek each. So a claim is taken over even if its worker has no row.
_SESSIONS = (
    "WITH RECURSIVE held(session) AS (SELECT min(session) FROM task WHERE session IS NOT NULL UNION ALL"
    " SELECT (SELECT min(session) FROM task WHERE session > held.session) FROM held WHERE held.session IS NOT NULL)"
    " SELECT session FROM (SELECT session FROM worker UNION SELECT session FROM held WHERE session IS NOT NULL)"
)
ENDED_SESSIONS = f"{_SESSIONS} WHERE session NOT IN (SELECT id FROM lease)"
OF_SESSION = f"{OPEN} WHERE session = ? AND queue = ? AND lane < {KEYED_LANES} ORDER BY pos LIMIT ?"
HEAD_COLUMNS = (
    "pos, ready_at, expires, deaths_of, id, attempt, queue, lane, name, codec, arguments, failures, crashes,"
    " enqueued, trace, slot, key"
)
_HEAD = f"SELECT {HEAD_COLUMNS} FROM task WHERE queue = ? AND lane = ? AND session IS NULL AND due IS NULL"
READY = f"{_HEAD} ORDER BY pos LIMIT ?"
MANY_DEATHS = 2  # a session with a suspect claims no task that has this many deaths
READY_OF_NO_DEATHS = f"{_HEAD} AND deaths < {MANY_DEATHS} ORDER BY pos LIMIT ?"
HAS_SUSPECT = "SELECT 1 FROM task WHERE session = ? AND (deaths > 0 OR crashes > 0) LIMIT 1"
STRIKE = "UPDATE task SET deaths_of = ?, deaths = ? WHERE pos = ?"
TAKE = (
    "UPDATE OR FAIL task SET session = ?, attempt = attempt + 1, progress = 0, note = ''"
    " WHERE pos IN (SELECT value FROM json_each(?))"
)
COUNT_OPEN = "SELECT count(*) FROM task WHERE session IS NOT NULL AND queue = ?"

ADD_WORKER = (
    "INSERT INTO worker VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session) DO UPDATE"
    " SET queues = excluded.queues WHERE queues <> excluded.queues"
)
IS_WORKER = "SELECT 1 FROM worker WHERE session = ?"
FORGET_WORKERS = (
    "DELETE FROM worker WHERE session NOT IN (SELECT id FROM lease)"
    " AND NOT EXISTS (SELECT 1 FROM task WHERE task.session = worker.session)"
)
LIVE_WORKERS = (
    "SELECT session, name, host, pid, queues, concurrency FROM worker"
    " WHERE session IN (SELECT id FROM lease) ORDER BY session"
)

NOTE = "UPDATE task SET progress = ?, note = ? WHERE id = ? AND attempt = ? AND session = ? RETURNING pos"
CANCELS = "SELECT id, attempt, session FROM task WHERE session = ? AND cancelling ORDER BY pos"
CANCEL_CLAIMED = "UPDATE task SET cancelling = 1 WHERE id = ?"

IS_OPEN = (
    "SELECT 1 FROM task WHERE id = ? AND attempt = ? AND session = ?"
    " AND EXISTS (SELECT 1 FROM lease WHERE lease.id = task.session)"
)
ONCE = "SELECT task, attempt, session, at, value FROM once WHERE scope = ? AND key = ?"
PUT_ONCE = "REPLACE INTO once (scope, key, task, attempt, session, at, value) VALUES (?, ?, ?, ?, ?, ?, ?)"
FORGET_ONCE = (  # an invalid time is damage, and no reason to forget an effect
    "DELETE FROM once WHERE at BETWEEN 0 AND ? AND NOT EXISTS (SELECT 1 FROM task WHERE task.id = once.task)"
)

_CONTROL = "paused, open_claims, rate, per_ms, tokens, tokens_at, partitions"
CONTROL = f"SELECT {_CONTROL} FROM control WHERE queue = ?"
CONTROLS = f"SELECT queue, {_CONTROL} FROM control"
SPEND = "UPDATE control SET tokens = ?, tokens_at = ? WHERE queue = ?"
PAUSE = "INSERT INTO control (queue, paused) VALUES (?1, ?2) ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused"
LIMIT = (
    "INSERT INTO control (queue, open_claims, rate, per_ms, tokens, tokens_at) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (queue) DO UPDATE SET open_claims = excluded.open_claims, rate = excluded.rate,"
    " per_ms = excluded.per_ms, tokens = excluded.tokens, tokens_at = excluded.tokens_at"
)
_STATE = "CASE WHEN session IS NOT NULL THEN 'claimed' WHEN due IS NULL THEN 'ready' ELSE 'delayed' END"
LIST_OPEN = (
    f"{OPEN} WHERE pos > ?1 AND NOT blocking AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR name = ?3)"
    f" AND (?4 IS NULL OR session = ?4) AND instr(?5, {_STATE}) ORDER BY pos LIMIT ?6"
)
LIST_ENDED = (
    f"{ENDED} WHERE (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR name = ?2) AND instr(?3, state)"
    " AND (at, id) > (?4, ?5) AND typeof(at) = 'integer' AND typeof(id) = 'text' ORDER BY at, id LIMIT ?6"
)
ENDED_BY_ID = f"{ENDED} WHERE id = ?"
_BEGINS = "id >= ?1 AND id < ?1 || 'g' ORDER BY id LIMIT ?2"  # ids are of hexadecimal digits
OPEN_BY_PREFIX, ENDED_BY_PREFIX = f"{OPEN} WHERE blocking = 0 AND {_BEGINS}", f"{ENDED} WHERE {_BEGINS}"
_PURGE = "DELETE FROM task WHERE pos IN (SELECT pos FROM task WHERE queue = ? AND session IS NULL"
PURGE_READY = f"{_PURGE} AND due IS NULL LIMIT ?) RETURNING pos"
PURGE_DELAYED = f"{_PURGE} AND due IS NOT NULL AND NOT blocking LIMIT ?) RETURNING pos"
PURGE_ENDED = (
    "DELETE FROM outcome WHERE id IN (SELECT id FROM outcome WHERE queue = ? AND state = ? LIMIT ?) RETURNING id"
)
COUNT_TASKS = f"SELECT queue, {_STATE}, count(*), min(ready_at) FROM task WHERE NOT blocking GROUP BY 1, 2"
COUNT_ENDED = "SELECT queue, state, count(*) FROM outcome GROUP BY 1, 2"
