"""The tables and triggers that a set adds to a shard in SQLite. Every name begins with `apportion_`.

    apportion_meta     one row: the set, this shard, its slots, the hasher and the format; compared at connect
    apportion_slot     a row for each slot that this shard owns, gets, or owned before
    apportion_mover    empty, except inside a transaction of a mover
    apportion_fences   the newest token of a mover, for each move
    apportion_move     the progress of a move: a row for each step and table, on the target

Triggers refuse each write of a row in a slot that this shard does not own, and each change of a shard key, from any
program.
Source: https://www.sqlite.org/lang_createtrigger.html
"""

from collections.abc import Iterator, Sequence

from apportion.guards.sql import SqlGuard

STATES = ("owner", "fenced", "moved", "incoming")

_STATES = ", ".join(f"'{state}'" for state in STATES)

TABLES = (
    """CREATE TABLE IF NOT EXISTS apportion_meta (
    only INTEGER PRIMARY KEY CHECK (only = 1), format INTEGER NOT NULL, set_id TEXT NOT NULL,
    shard TEXT NOT NULL, slots INTEGER NOT NULL, hasher TEXT NOT NULL
)""",
    f"""CREATE TABLE IF NOT EXISTS apportion_slot (
    slot INTEGER PRIMARY KEY, state TEXT NOT NULL CHECK (state IN ({_STATES})),
    life INTEGER, number INTEGER, move TEXT, former TEXT
)""",
    "CREATE TABLE IF NOT EXISTS apportion_mover (token TEXT)",
    SqlGuard().ddl,
    """CREATE TABLE IF NOT EXISTS apportion_move (
    move TEXT NOT NULL, step TEXT NOT NULL, name TEXT NOT NULL, attempt INTEGER NOT NULL,
    slot INTEGER, until INTEGER, k1, k2, k3, k4, rows INTEGER NOT NULL, is_done INTEGER NOT NULL,
    PRIMARY KEY (move, step, name)
)""",
)

_KEPT_KEY = "BEGIN SELECT RAISE(ABORT, 'apportion: a row keeps its shard key'); END"
_REFUSE = "BEGIN SELECT RAISE(ABORT, 'apportion: stale route') WHERE NOT EXISTS (SELECT 1 FROM apportion_mover); END"
_OWNS = "(SELECT state FROM apportion_slot WHERE slot = {row}.slot) IS NOT 'owner'"
_KEPT = (
    "BEGIN SELECT RAISE(ABORT, 'apportion: a row keeps its slot') WHERE NOT EXISTS (SELECT 1 FROM apportion_mover); END"
)


def triggers(table: str, key: Sequence[str] = ()) -> Iterator[str]:
    """Yield the statements that make the triggers of a sharded table. `key` has the columns of its shard key."""
    for act, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
        name, owns = _name(table, act.lower()), _OWNS.format(row=row)
        yield f"CREATE TRIGGER IF NOT EXISTS {name} BEFORE {act} ON {quoted(table)} WHEN {owns} {_REFUSE}"
    changed = "WHEN OLD.slot IS NOT NULL AND NEW.slot IS NOT OLD.slot"
    slot = f"CREATE TRIGGER IF NOT EXISTS {_name(table, 'slot')} BEFORE UPDATE OF slot ON {quoted(table)}"
    yield f"{slot} {changed} {_KEPT}"
    if key:
        changed = " OR ".join(f"NEW.{quoted(each)} IS NOT OLD.{quoted(each)}" for each in key)
        updated = f"BEFORE UPDATE OF {', '.join(map(quoted, key))} ON {quoted(table)} WHEN {changed}"
        yield f"CREATE TRIGGER IF NOT EXISTS {_name(table, 'key')} {updated} {_KEPT_KEY}"


def time_index(table: str, column: str) -> str:
    """Return the statement that makes the index by which old rows of a timed table are found."""
    return f"CREATE INDEX IF NOT EXISTS {_name(table, 'time')} ON {quoted(table)} ({quoted(column)})"


def quoted(name: str) -> str:
    """Return a name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def _name(table: str, act: str) -> str:
    return quoted(f"apportion_{table}_{act}")
