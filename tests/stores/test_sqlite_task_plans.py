"""Each statement of a turn on an SQLite file finds its tasks by its index, before and after ANALYZE."""

import sqlite3
from contextlib import closing

import pytest

from apportion.stores.sqlite import schema
from apportion.stores.sqlite import statements as leases
from apportion.stores.sqlite import task_statements as sql
from apportion.stores.sqlite.claims import lanes
from apportion.stores.sqlite.enqueues import plain_tasks
from apportion.stores.sqlite.keys import questions
from apportion.stores.sqlite.task_statements import KEY_TABLES

READY, CLAIMED, ENDED = 20_000, 200, 2_000
INDEXES = {
    "ADD": ("PRIMARY KEY", ["x", "q", 2, "f", "json", b"", *[None] * (sql.SHARED.count(",") - 5)]),
    "ADD_ALIKE": ("PRIMARY KEY", ["q", 2, "f", "json", *[None] * 8, '{"x": "[]"}']),
    "BY_ID": ("sqlite_autoindex_task_1", ["x"]),
    "BY_UNIQUE": ("task_uniq", ["q", "u"]),
    "DONE": ("sqlite_autoindex_task_1", ["x", 1, 7]),
    "ALL_DONE": ("sqlite_autoindex_task_1", ['{"x": 1}', 7]),
    "HELD": ("sqlite_autoindex_task_1", ["x", 1, 7]),
    "REMOVE": ("sqlite_autoindex_task_1", ["x"]),
    "NOTE": ("sqlite_autoindex_task_1", [0.5, "", "x", 1, 7]),
    "COMPLETE": ("sqlite_autoindex_task_1", {"id": "x", "attempt": "1", "session": "7"}),
    "READY": ("task_ready", ["q", 2, 50]),
    "READY_OF_NO_DEATHS": ("task_ready", ["q", 2, 50]),
    "IS_READY": ("task_ready", ["q"]),
    "DUE": ("task_due", ["q", 5, 50]),
    "IS_DUE": ("task_due", ["q", 5]),
    "OF_SESSION": ("task_open", [7, "q", 10]),
    "CANCELS": ("task_open", [7]),
    "HAS_SUSPECT": ("task_open", [7]),
    "COUNT_OPEN": ("task_open", ["q"]),
    "ENDED_SESSIONS": ("task_open", []),
    "OF_DEATHS": ("task_deaths", []),
    "TAKE": ("INTEGER PRIMARY KEY", [7, "[1]"]),
    "STRIKE": ("INTEGER PRIMARY KEY", ["", 0, 1]),
    "CONDEMNED": ("outcome_condemned", []),
    "FORGET_OLD": ("outcome_kept", [5, 9]),
    "FORGET_WORKERS": ("task_open", []),
    "LEASE": ("INTEGER PRIMARY KEY", [7]),
    "HEADS": ("task_first", ["q", "[16, 17]", 50]),
    "FIRST": ("task_first", ["q", "[16, 17]", 50, 5]),
    "FIRST_OF_HEADS": ("task_first", ["q", "[16, 17]", 50, 5]),
    "FIRST_OF_FEW_DEATHS": ("task_first", ["q", "[16, 17]", 50, 5]),
    "OF_SESSION_KEYED": ("task_open", [7, "q", "[16, 17]", 10]),
    "SHOWN": ("PRIMARY KEY", ["q"]),
    "HEAD": ("task_keyed", ["q", "k7"]),
    "KEEP_PLACE": ("sqlite_autoindex_task_1", ["x", "q", 16, "f", "json", b"", *[None] * (sql.SHARED.count(",") - 5)]),
    "BLOCK": ("sqlite_autoindex_task_1", ["x"]),
}
MODULES = {"ADD_ALIKE": plain_tasks, "LEASE": leases, "HEAD": questions} | dict.fromkeys(
    ["HEADS", "FIRST", "FIRST_OF_HEADS", "FIRST_OF_FEW_DEATHS", "OF_SESSION_KEYED", "SHOWN"], lanes
)
SORTED_BY_INDEX = {"READY", "READY_OF_NO_DEATHS", "DUE", "OF_SESSION"}


@pytest.fixture(scope="module", params=["without statistics", "with statistics"])
def connection(request):
    """A file with many ready tasks, some claims and outcomes."""
    with closing(sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)) as opened:
        for statement in (*schema.statements(since=0), *sql.TABLES, *KEY_TABLES):
            opened.execute(statement)
        row = "hex(randomblob(16)), 'q', 2, 'f', 'json', x'', '', 1, 1"
        columns = "id, queue, lane, name, codec, arguments, trace, enqueued, ready_at"
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
        opened.execute(f"INSERT INTO task ({columns}) {numbers.format(READY)} SELECT {row} FROM n")
        keyed = "hex(randomblob(16)), 'q', 16 + i % 2, 'f', 'json', x'', '', 1, 1, 'k' || i / 5, i % 5 > 0"
        opened.execute(f"INSERT INTO task ({columns}, key, behind) {numbers.format(ENDED)} SELECT {keyed} FROM n")
        opened.execute(f"UPDATE task SET session = 7 WHERE pos <= {CLAIMED}")
        opened.execute(f"UPDATE task SET due = pos WHERE pos > {READY} - {CLAIMED}")
        opened.execute("UPDATE task SET deaths = 1 WHERE pos % 1000 = 0")
        shared = "failures, deaths, crashes, deaths_of, cancelling, replaced, progress, note, reason, attempt"
        opened.execute(
            f"INSERT INTO outcome (state, at, {columns}, {shared}) {numbers.format(ENDED)}"
            f" SELECT 'dead', i, {row}, 0, 0, 0, '', 0, 0, 0, '', '', 1 FROM n"
        )
        opened.execute("INSERT INTO worker VALUES (7, '', '', 1, 'q', 1)")
        if request.param == "with statistics":
            opened.execute("ANALYZE")
        yield opened


def plan(connection, statement, values):
    """Return the steps of the plan of a statement."""
    return [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize("name", INDEXES)
def test_a_statement_of_a_turn_finds_its_rows_by_an_index(connection, name):
    index, values = INDEXES[name]
    steps = plan(connection, getattr(MODULES.get(name, sql), name), values)
    assert any(index in step for step in steps), steps
    assert "SCAN task" not in steps
    assert not (name in SORTED_BY_INDEX and any("TEMP B-TREE" in step for step in steps)), steps


def test_a_missing_index_is_seen(connection):
    connection.execute("BEGIN")
    connection.execute("DROP INDEX task_open")
    assert "SCAN task" in plan(connection, sql.OF_SESSION, [7, "q", 10])
    connection.execute("ROLLBACK")
