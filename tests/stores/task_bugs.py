"""Bugs planted in the statements of task stores, and the means to plant them for a while.

Each bug removes one comparison or lock. `FOUND_BY` names the case of the conformance suite that turns red with it;
`RECEIPTS` names the statements of the matrix of receipts, and the verbs that each of them serves.
"""

import sqlite3
from contextlib import ExitStack, closing, contextmanager
from unittest.mock import patch

from apportion.stores.lanes import tokens
from apportion.stores.postgres.task_tables import TASK_TABLES
from apportion.stores.postgres.tasks import lanes as postgres_lanes
from apportion.stores.postgres.tasks import statements as postgres
from apportion.stores.sqlite import task_ledger as sqlite_rules
from apportion.stores.sqlite import task_statements as sqlite
from apportion.stores.sqlite.claims import lanes
from apportion.stores.task_values import Receipt

SCHEMA = "apportion"


def changed(text, *changes):
    """Return a statement with these replacements, each of which must apply."""
    for old, new in changes:
        assert old in text, f"{old!r} is not in {text!r}"
        text = text.replace(old, new)
    return text


@contextmanager
def statement(module, name, *changes):
    """Change a statement of this process."""
    with patch.object(module, name, changed(getattr(module, name), *changes)):
        yield


@contextmanager
def function(rig, name, *changes, schema=SCHEMA):
    """Change a function of the schema."""
    [text] = [each for each in TASK_TABLES if f"CREATE FUNCTION {{schema}}.{name}(" in each]
    text = text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace("{schema}", schema)
    rig.sql(changed(text, *[(old.replace("{schema}", schema), new) for old, new in changes]))
    try:
        yield
    finally:
        rig.sql(text)


def planted(rig, bug):
    """Plant a bug, for a block."""
    stack = ExitStack()
    for each in PLANTS[bug]:
        stack.enter_context(each(rig))
    return stack


def _statement(module, name, *changes):
    return lambda _: statement(module, name, *changes)


def _function(name, *changes):
    return lambda rig: function(rig, name, *changes)


ANY_OF_KEY = ("o.pos < t.pos", "false"), ("NOT t.behind", "t.behind IS NOT NULL")
ATTEMPT_OF_SQLITE = ("attempt = ?", "? IS NOT NULL")
IN_ALL_DONE = "attempt = r.value AND session = ?2"
SESSION_OF_SQLITE = ("AND session = ?", "AND ? IS NOT NULL")
ATTEMPT_OF_COMPLETE = ("attempt = CAST(:attempt AS BIGINT)", "CAST(:attempt AS BIGINT) IS NOT NULL")
SESSION_OF_COMPLETE = ("session = CAST(:session AS BIGINT)", "CAST(:session AS BIGINT) IS NOT NULL")
ATTEMPT_IN_COMPLETE = ("attempt = CAST(CAST(:attempt AS TEXT) AS BIGINT)", "CAST(:attempt AS TEXT) IS NOT NULL")
SESSION_IN_COMPLETE = ("session = CAST(CAST(:session AS TEXT) AS BIGINT)", "CAST(:session AS TEXT) IS NOT NULL")
ATTEMPT_OF_POSTGRES = ("attempt = %s", "%s::bigint IS NOT NULL")
SESSION_OF_POSTGRES = ("session + 0 = %s", "%s::bigint IS NOT NULL")
IN_TURN = "AND t.attempt = r.attempt AND t.session + 0 = r.session"
_EVERY_NAME = (
    "(SELECT id, queue, uniq, replaced FROM {schema}.task UNION ALL SELECT id, queue, uniq, 0 FROM {schema}.outcome)"
    " AS named"
)
_ENDED = " WHERE NOT EXISTS (SELECT FROM {schema}.lease WHERE id = w.session)"


def receipts_equal_in(*fields):
    """Let two receipts be equal if these fields are."""

    @contextmanager
    def _equal(_):
        def _key(receipt):
            return tuple(getattr(receipt, each) for each in fields)

        with (
            patch.object(Receipt, "__eq__", lambda one, other: _key(one) == _key(other)),
            patch.object(Receipt, "__hash__", lambda receipt: hash(_key(receipt))),
        ):
            yield

    return _equal


@contextmanager
def any_token(_):
    """Go on with any token of a lane."""
    with patch.object(tokens, "accepts", lambda seen, token: True):
        yield


@contextmanager
def without(rig, drop, *made, run):
    """Leave out a trigger or an index."""
    run(rig, drop)
    try:
        yield
    finally:
        for statement in made:
            run(rig, statement)


def _on_file(rig, statement):
    path = rig.url("n").removeprefix("sqlite:///").partition("?")[0]
    with closing(sqlite3.connect(path, isolation_level=None, timeout=9)) as connection:
        connection.execute(statement)


[_ENDS] = [each for each in sqlite.KEY_TABLES if "CREATE TRIGGER task_ends" in each]
[_ONE_CLAIM] = [each for each in sqlite.KEY_TABLES if "INDEX task_key_claimed" in each]
[_LEAVES] = [each for each in TASK_TABLES if "CREATE TRIGGER task_leaves" in each]
PLANTS = {
    "sqlite: a claim that is not of the first task of its key": [
        _statement(lanes, "FIRST", ("INDEXED BY task_first", ""), ("behind = 0", "behind >= 0")),
        lambda rig: without(rig, "DROP INDEX task_key_claimed", "DELETE FROM task", _ONE_CLAIM, run=_on_file),
    ],
    "sqlite: a token of a lane that is not compared": [any_token],
    "sqlite: a keyed task that goes to the end when it is retried": [
        _statement(sqlite, "KEEP_PLACE", ("WHERE id = ?1", "WHERE id = ?1 AND id IS NULL")),
    ],
    "sqlite: the next task of a key forgotten after one that ended": [
        lambda rig: without(rig, "DROP TRIGGER task_ends", _ENDS, run=_on_file),
    ],
    "postgres: a claim that is not of the first task of its key": [
        _statement(postgres, "FIRST", *ANY_OF_KEY),
        _function("first_keys", *ANY_OF_KEY),
    ],
    "postgres: a token of a lane that is not compared": [
        any_token,
        _statement(
            postgres_lanes, "SHOW", (" WHERE (l.incarnation, l.epoch) <", " WHERE true OR (l.incarnation, l.epoch) <")
        ),
    ],
    "postgres: a keyed task that goes to the end when it is retried": [
        _statement(
            postgres,
            "WAIT",
            ("CASE WHEN key IS NULL THEN {schema}.next_position() ELSE pos END", "{schema}.next_position()"),
        ),
    ],
    "postgres: the next task of a key forgotten after one that ended": [
        lambda rig: without(
            rig, f"DROP TRIGGER task_leaves ON {SCHEMA}.task", _LEAVES.replace("{schema}", SCHEMA), run=type(rig).sql
        ),
    ],
    "sqlite: a retake of a living session": [
        _statement(sqlite, "ENDED_SESSIONS", (" WHERE session NOT IN (SELECT id FROM lease)", "")),
    ],
    "sqlite: a claim without the row of the lease": [
        lambda _: patch.object(sqlite_rules.lease_sql, "LEASE", "SELECT ?"),
    ],
    "sqlite: a row of a worker deleted while claims stand, and no look for orphans": [
        _statement(
            sqlite, "FORGET_WORKERS", (" AND NOT EXISTS (SELECT 1 FROM task WHERE task.session = worker.session)", "")
        ),
        _statement(sqlite, "ENDED_SESSIONS", (" UNION SELECT session FROM held WHERE session IS NOT NULL", "")),
    ],
    "sqlite: a name that is unique across finished tasks": [
        _statement(sqlite, "ADD", ("WHERE id = ?1)", "WHERE id = ?1 OR (queue, uniq) = (?2, ?7))")),
    ],
    "postgres: a retake of a living session": [
        _statement(postgres, "ORPHANS", (_ENDED, "")),
        _function("is_rare", ("WHERE NOT EXISTS (SELECT FROM {schema}.lease WHERE id = worker.session)", "WHERE true")),
    ],
    "postgres: a retake without comparing the attempt, and without the lock": [
        _statement(postgres, "ORPHANS", (" FOR UPDATE OF t SKIP LOCKED", "")),
        _statement(postgres, "RETAKE", ATTEMPT_OF_POSTGRES, SESSION_OF_POSTGRES),
    ],
    "postgres: a claim without the row of the lease": [
        _statement(postgres, "LEASE", ("SELECT id FROM {schema}.lease WHERE id = %s FOR KEY SHARE", "SELECT %s")),
        _function("turn", ("IF NOT FOUND THEN\n                verdict", "IF false THEN\n                verdict")),
    ],
    "postgres: a row of a worker deleted while claims stand": [
        _statement(
            postgres,
            "FORGET_WORKERS",
            (" AND NOT EXISTS (SELECT FROM {schema}.task WHERE task.session = w.session)", ""),
        ),
    ],
    "postgres: a name that is unique across finished tasks": [
        _statement(postgres, "NAME_TAKEN", ("{schema}.task", _EVERY_NAME)),
    ],
    "postgres: a limit that is counted outside the lock": [
        _statement(postgres, "LOCKED_CONTROLS", (" FOR NO KEY UPDATE", "")),
    ],
}
_ORDER = "tasks of a key run one at a time in order"
_NEXT = "a key goes on after a dead or a cancelled task"
_PLACE = "a keyed task keeps its place until it has ended"
_FENCED = "an older token of a lane claims nothing there"
_TAKEN_OVER = "the tasks of a renewed session stay its own"
_ENDED_CLAIMS = "a session that has ended claims nothing"
_HALF = "work of ended sessions comes first in half of the places"
_ONCE = "a task of an ended session goes to one of the workers that take over at once"
_NAME = "a redrive takes no unique name from an open task"
FOUND_BY = {
    "sqlite: a retake of a living session": _TAKEN_OVER,
    "sqlite: a claim without the row of the lease": _ENDED_CLAIMS,
    "sqlite: a row of a worker deleted while claims stand, and no look for orphans": _HALF,
    "sqlite: a name that is unique across finished tasks": _NAME,
    "postgres: a retake of a living session": _TAKEN_OVER,
    "postgres: a retake without comparing the attempt, and without the lock": _ONCE,
    "postgres: a claim without the row of the lease": _ENDED_CLAIMS,
    "postgres: a row of a worker deleted while claims stand": _HALF,
    "postgres: a name that is unique across finished tasks": _NAME,
    "postgres: a limit that is counted outside the lock": "a limit of open claims holds for all workers",
    "sqlite: a claim that is not of the first task of its key": _ORDER,
    "sqlite: a token of a lane that is not compared": _FENCED,
    "sqlite: a keyed task that goes to the end when it is retried": _PLACE,
    "sqlite: the next task of a key forgotten after one that ended": _NEXT,
    "postgres: a claim that is not of the first task of its key": _ORDER,
    "postgres: a token of a lane that is not compared": _FENCED,
    "postgres: a keyed task that goes to the end when it is retried": _PLACE,
    "postgres: the next task of a key forgotten after one that ended": _NEXT,
}

_OTHERS = {"complete with a result", "fail", "fail for ever", "release", "crashed", "cancelled"}
_AGAIN, _RESTORED = "reclaimed by its session", "restored"
# The comparison that is gone, the verbs that then take an old receipt, and the way in which the receipt became old.
RECEIPTS = {
    "sqlite: the attempt in DONE": ({"complete"}, _AGAIN),
    "sqlite: the session in DONE": ({"complete"}, _RESTORED),
    "sqlite: the attempt in ALL_DONE": ({"complete"}, _AGAIN),
    "sqlite: the session in ALL_DONE": ({"complete"}, _RESTORED),
    "sqlite: the attempt in HELD": (_OTHERS, _AGAIN),
    "sqlite: the session in HELD": (_OTHERS, _RESTORED),
    "sqlite: the attempt in NOTE": ({"note"}, _AGAIN),
    "sqlite: the session in NOTE": ({"note"}, _RESTORED),
    "sqlite: the attempt in IS_OPEN": ({"once"}, _AGAIN),
    "sqlite: the session in IS_OPEN": ({"once"}, _RESTORED),
    "sqlite: the attempt in COMPLETE": ({"transaction"}, _AGAIN),
    "sqlite: the session in COMPLETE": ({"transaction"}, _RESTORED),
    "postgres: the attempt in TURN": ({"complete"}, _AGAIN),
    "postgres: the session in TURN": ({"complete"}, _RESTORED),
    "postgres: the attempt among locked rows": (_OTHERS, _AGAIN),
    "postgres: the session among locked rows": (_OTHERS, _RESTORED),
    "postgres: the attempt in NOTE": ({"note"}, _AGAIN),
    "postgres: the session in NOTE": ({"note"}, _RESTORED),
    "postgres: the attempt in IS_OPEN": ({"once"}, _AGAIN),
    "postgres: the session in IS_OPEN": ({"once"}, _RESTORED),
    "postgres: the attempt in COMPLETE": ({"transaction"}, _AGAIN),
    "postgres: the session in COMPLETE": ({"transaction"}, _RESTORED),
}
PLANTS |= {
    "sqlite: the attempt in DONE": [_statement(sqlite, "DONE", ATTEMPT_OF_SQLITE)],
    "sqlite: the session in DONE": [_statement(sqlite, "DONE", SESSION_OF_SQLITE)],
    "sqlite: the attempt in ALL_DONE": [_statement(sqlite, "ALL_DONE", (IN_ALL_DONE, "session = ?2"))],
    "sqlite: the session in ALL_DONE": [
        _statement(sqlite, "ALL_DONE", (IN_ALL_DONE, "attempt = r.value AND ?2 IS NOT NULL"))
    ],
    "sqlite: the attempt in HELD": [_statement(sqlite, "HELD", ATTEMPT_OF_SQLITE)],
    "sqlite: the session in HELD": [_statement(sqlite, "HELD", SESSION_OF_SQLITE)],
    "sqlite: the attempt in NOTE": [_statement(sqlite, "NOTE", ATTEMPT_OF_SQLITE)],
    "sqlite: the session in NOTE": [_statement(sqlite, "NOTE", SESSION_OF_SQLITE)],
    "sqlite: the attempt in IS_OPEN": [_statement(sqlite, "IS_OPEN", ATTEMPT_OF_SQLITE)],
    "sqlite: the session in IS_OPEN": [_statement(sqlite, "IS_OPEN", SESSION_OF_SQLITE)],
    "sqlite: the attempt in COMPLETE": [_statement(sqlite, "COMPLETE", ATTEMPT_OF_COMPLETE)],
    "sqlite: the session in COMPLETE": [_statement(sqlite, "COMPLETE", SESSION_OF_COMPLETE)],
    "postgres: the attempt in TURN": [_function("turn", (IN_TURN, "AND t.session + 0 = r.session"))],
    "postgres: the session in TURN": [_function("turn", (IN_TURN, "AND t.attempt = r.attempt"))],
    "postgres: the attempt among locked rows": [receipts_equal_in("task", "session")],
    "postgres: the session among locked rows": [receipts_equal_in("task", "attempt")],
    "postgres: the attempt in NOTE": [_statement(postgres, "NOTE", ATTEMPT_OF_POSTGRES)],
    "postgres: the session in NOTE": [_statement(postgres, "NOTE", SESSION_OF_POSTGRES)],
    "postgres: the attempt in IS_OPEN": [_statement(postgres, "IS_OPEN", ATTEMPT_OF_POSTGRES)],
    "postgres: the session in IS_OPEN": [_statement(postgres, "IS_OPEN", SESSION_OF_POSTGRES)],
    "postgres: the attempt in COMPLETE": [_statement(postgres, "COMPLETE", ATTEMPT_IN_COMPLETE)],
    "postgres: the session in COMPLETE": [_statement(postgres, "COMPLETE", SESSION_IN_COMPLETE)],
}
