"""The choice of the writes of a demonstration of shards: it never builds on a write that was not acknowledged."""

import sqlite3
from types import SimpleNamespace

import pytest

pytest.importorskip("sqlalchemy")

from apportion.console.demo.shards.choice import WriteChoice
from apportion.console.demo.shards.world import WRITERS

WRITES = 2_000


def choice():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE place (id INTEGER, country TEXT, slot INTEGER)")
    rows = [(number * WRITERS, f"C{number % 7}", number % 7) for number in range(5_000)]
    connection.executemany("INSERT INTO place VALUES (?, ?, ?)", rows)
    return WriteChoice(SimpleNamespace(databases=SimpleNamespace(connect=lambda _: connection, rest_seconds=0)), 0)


def test_a_place_whose_last_write_was_not_acknowledged_is_left_alone():
    chosen, doubtful = choice(), set()
    for number in range(WRITES):
        write = chosen.next()
        assert write.id not in doubtful
        if number % 3:
            chosen.done(write)
        else:
            doubtful.add(write.id)
    assert WRITES // 3 <= len(doubtful)


def test_places_are_written_changed_deleted_and_written_again():
    chosen, alive, kinds = choice(), {}, set()
    for _ in range(WRITES):
        write = chosen.next()
        was = alive.get(write.id, "unknown")
        kinds.add((was is None, write.is_new, write.value is None))
        assert (was is None) <= write.is_new
        alive[write.id] = write.value
        chosen.done(write)
    assert {(False, True, False), (False, False, True), (False, False, False), (True, True, False)} == kinds
