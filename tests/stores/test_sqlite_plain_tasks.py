"""Plain tasks are added in few statements: all or none, in order, with the bytes of their arguments."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest

from apportion.runtime.prompt_start import started
from apportion.stores.catalog import connect, connect_tasks
from apportion.stores.sqlite.enqueues import plain_tasks
from apportion.stores.sqlite.task_statements import KEY_TABLES, TABLES
from apportion.stores.task_control import Listing
from apportion.stores.task_values import NewTask, Settlement, Worker

TEXTS = ("", "[1]", "12", "é \N{GRINNING FACE}", "\ufeff\uffff", "\x01\x7f\\\"'", json.dumps("\0"), "a" * 5_000)
NO_TEXTS = (b"\xff", b"a\0b", b"\xed\xa0\x80")


class Counted(sqlite3.Connection):
    """A connection that counts the statements that add tasks."""

    additions = 0

    def execute(self, statement, *values):
        self.additions += statement.startswith("INSERT OR FAIL INTO task")
        return super().execute(statement, *values)


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=Counted)) as opened:
        for statement in (*TABLES, *KEY_TABLES):
            opened.execute(statement)
        opened.execute("BEGIN")
        yield opened


def tasks(*arguments, **options):
    return [
        NewTask(id=f"{number:032x}", queue="n/q", name="f", arguments=each, **options)
        for number, each in enumerate(arguments)
    ]


def stored(connection):
    return connection.execute("SELECT id, arguments, typeof(arguments) FROM task ORDER BY pos").fetchall()


def expected(new):
    return [(each.id, each.arguments, "blob") for each in new]


def test_tasks_that_differ_in_arguments_are_added_in_order_by_one_statement(connection):
    new = tasks(*(text.encode() for text in TEXTS if "0000" not in text))[::-1]
    assert plain_tasks.are_added(connection, new, 5)
    assert expected(new) == stored(connection)
    assert 1 == connection.additions


@pytest.mark.parametrize("strange", [*NO_TEXTS, json.dumps("\0").encode()])
def test_the_bytes_of_arguments_that_sqlite_reads_otherwise_in_json_are_kept(connection, strange):
    new = tasks(b"[1]", strange, b"[2]")
    assert plain_tasks.are_added(connection, new, 5)
    assert expected(new) == stored(connection)


def test_large_arguments_are_added_one_by_one(connection, monkeypatch):
    monkeypatch.setattr(plain_tasks, "_MOST_BYTES", 10)
    new = tasks(b"12345", b"123456")
    assert plain_tasks.are_added(connection, new, 5)
    assert expected(new) == stored(connection)
    assert 2 == connection.additions


def test_tasks_of_other_options_are_statements_of_their_own_in_the_same_order(connection, monkeypatch):
    monkeypatch.setattr(plain_tasks, "_AT_ONCE", 2)
    late, plain = tasks(b"0", b"1", delay_ms=7), tasks(*[b""] * 2, b"2", b"3", b"4", b"5")[2:]
    assert plain_tasks.are_added(connection, [late[0], *plain[:3], late[1], plain[3]], 5)
    found = connection.execute("SELECT arguments, due, enqueued, ready_at FROM task ORDER BY pos").fetchall()
    ready, delayed = (None, 5, 5), (12, 5, 12)
    rows = [(b"0", *delayed), (b"2", *ready), (b"3", *ready), (b"4", *ready), (b"1", *delayed), (b"5", *ready)]
    assert rows == found
    assert 5 == connection.additions


@pytest.mark.parametrize("many", [1, 3])
@pytest.mark.parametrize("place", ["task", "outcome"])
def test_none_is_added_beside_a_task_that_is_known(connection, many, place):
    new = tasks(*[b"[]"] * many)
    assert plain_tasks.are_added(connection, new[-1:], 5)
    if place == "outcome":
        shared = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(task)") if row[1] not in HERE_ALONE)
        connection.execute(f"INSERT INTO outcome (state, at, {shared}) SELECT 'done', 5, {shared} FROM task")
        connection.execute("DELETE FROM task")
    before = stored(connection)
    assert not plain_tasks.are_added(connection, new, 5)
    assert before == stored(connection)


def test_none_is_added_of_equal_ids(connection):
    assert not plain_tasks.are_added(connection, [*tasks(b"1"), *tasks(b"2")], 5)
    assert [] == stored(connection)


HERE_ALONE = ("pos", "session", "behind", "blocking")


def test_an_enqueue_at_a_prompt_start_is_over_in_its_first_step(tmp_path):
    async def story():
        store, found = await connect_tasks(f"sqlite:///{tmp_path}/tasks.db"), []
        loop = asyncio.get_running_loop()
        for each in tasks(b"1", b"2"):
            loop.call_soon(lambda each=each: found.append(started(store.enqueue([each]))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        answers = [each.result() for each in found]
        await store.close()
        return answers

    assert [((each.id, True),) for each in tasks(b"1", b"2")] == asyncio.run(story())


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_repeated_completion_costs_no_second_transaction(tmp_path, is_committed):
    async def story():
        url, begun = f"sqlite:///{tmp_path}/tasks.db", []
        store, queue = await connect(url), await connect_tasks(url)
        worker = Worker(session=(await store.grant(ttl_seconds=60.0)).id, queues=("n/q",))
        await queue.enqueue(tasks(b"1", b"2"))
        first, second = [each.receipt for each in (await queue.turn(worker, want=2)).claims]
        if is_committed:
            completion = queue.transactions.completion(first)
            with queue.transactions.begin() as connection:
                assert connection.execute(completion.sql, completion.values).fetchall()
        queue._file._link.connected().set_trace_callback(begun.append)
        ends = [Settlement(receipt=first, fate="done", is_repeat=True), Settlement(receipt=second, fate="done")]
        refused = (await queue.turn(worker, ends)).refused
        left = await queue.query(Listing(queue="n/q"))
        await queue.close()
        await store.close()
        return refused == ((first,) if is_committed else ()), left, begun.count("BEGIN IMMEDIATE")

    is_refused, left, begun = asyncio.run(story())
    assert (True, (), 1) == (is_refused, left, begun)
