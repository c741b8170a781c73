"""Marks of keys and rows of lanes in a file: damage to one of them stops no key."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from apportion.model.epoch import FencingToken
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.sqlite.keys import marks
from apportion.stores.task_values import Worker
from tests.stores.test_tasks import opened, task

KEYS = 5


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def elapsed(self):
        return self.now


@pytest.fixture
def file(tmp_path):
    return tmp_path / "work.db"


def run_on(file, statement):
    """Run a statement in the file, as somebody else; return its rows."""
    with closing(sqlite3.connect(file, timeout=10)) as connection, connection:
        return connection.execute(statement).fetchall()


def of_key(key):
    return task(key=key, lane=16)


async def owner(store):
    token = FencingToken(resource="g/0", holder="w", incarnation=1, epoch=1)
    lane = OwnedLane(queue="q", partition=0, token=token)
    return Worker(session=(await store.grant(ttl_seconds=60)).id, queues=("q",), lanes=(lane,))


@pytest.mark.parametrize("most", [2, marks.MOST_KEYS])
def test_keys_whose_first_tasks_are_marked_by_hand_go_on_after_some_seconds(tmp_path, file, monkeypatch, most):
    monkeypatch.setattr(marks, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(marks, "MOST_KEYS", most)

    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            own = await owner(store)
            made = [of_key(f"k{each % KEYS}") for each in range(2 * KEYS)]
            await tasks.enqueue(made)
            run_on(file, "UPDATE task SET behind = CASE key WHEN 'k0' THEN 'x' ELSE 1 END")
            claims = [claim for _ in range(KEYS) for claim in (await tasks.turn(own, want=100)).claims]
            assert {each.id for each in made[:KEYS]} == {each.receipt.task for each in claims}
            assert [(KEYS,)] == run_on(file, "SELECT count(*) FROM task WHERE behind IS NOT 0")

    asyncio.run(_run())


@pytest.mark.parametrize("column", ["lane", "incarnation", "session"])
def test_a_lane_whose_row_has_a_text_that_is_no_utf_8_is_shown_anew_by_its_owner(tmp_path, file, column):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            own = await owner(store)
            await tasks.turn(own, want=1)
            run_on(file, f"UPDATE lane SET {column} = CAST(x'ff' AS TEXT)")
            await tasks.enqueue([of_key("a")])
            assert 1 == len((await tasks.turn(own, want=9)).claims)
            assert [(16, "w", own.session)] == run_on(file, "SELECT lane, holder, session FROM lane")

    asyncio.run(_run())


def test_a_look_comes_every_few_seconds_and_takes_off_only_wrong_marks(tmp_path, file):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (_, tasks):
            await tasks.enqueue([of_key("a"), of_key("a"), of_key("b")])

    asyncio.run(_run())
    clock = Clock()
    looks = marks.Marks(clock)
    with closing(sqlite3.connect(file)) as connection:
        assert looks.is_due()
        assert [] == looks.wrong(connection, ["q"])
        clock.now += marks.LOOK_SECONDS / 2
        assert not looks.is_due()
        clock.now += marks.LOOK_SECONDS / 2
        assert looks.is_due()
        connection.execute("UPDATE task SET behind = 1")
        [first, second, third] = [pos for (pos,) in connection.execute("SELECT pos FROM task ORDER BY pos")]
        assert [first, third] == looks.wrong(connection, ["q"])
        marks.free(connection, [first, second, third])
        assert [0, 1, 0] == [mark for (mark,) in connection.execute("SELECT behind FROM task ORDER BY pos")]


def test_a_look_takes_two_seeks_for_each_key(tmp_path, file):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path):
            pass

    asyncio.run(_run())
    with closing(sqlite3.connect(file)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {marks.FIRST}", ("q", "", 9))]
        assert 2 == sum("task_keyed (queue=? AND key>?)" in step for step in plan)
        assert 1 == sum("task_keyed (queue=? AND key=?)" in step for step in plan)
        assert ["SCAN keys", "SCAN keys"] == [
            step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step
        ]
