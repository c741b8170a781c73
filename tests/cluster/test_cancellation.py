"""A call that is cancelled, at any turn of any loop, leaves nothing behind: here on a file of SQLite."""

import asyncio
import logging
import sqlite3
from contextlib import closing

import pytest

from tests.cluster.cancelled import CALLS, Cancelled


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.ERROR, "apportion.group")


def leases(path):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT count(*) FROM lease").fetchone()[0]


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_of_a_call_that_is_cancelled_at_any_turn_of_its_own_loop(tmp_path, call):
    cancelled = Cancelled(f"sqlite:///{tmp_path / 's.db'}", leases=lambda: leases(tmp_path / "s.db"))
    turns, found = asyncio.run(cancelled.left(call, is_here=True))
    assert {} == found
    assert turns > 3


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_of_a_call_that_is_cancelled_at_many_a_turn_of_the_io_thread(tmp_path, call):
    cancelled = Cancelled(f"sqlite:///{tmp_path / 's.db'}", leases=lambda: leases(tmp_path / "s.db"))
    turns, found = asyncio.run(cancelled.left(call, step=5, is_here=False))
    assert {} == found
    assert turns > 1
