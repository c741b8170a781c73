"""A checkpoint empties a -wal that has grown large, and leaves the connection as it was."""

import sqlite3
from contextlib import closing

import pytest

from apportion.stores.sqlite import checkpoint
from apportion.stores.sqlite.checkpoint import Checkpoints


class Clock:
    now = 0.0

    def elapsed(self):
        return self.now


@pytest.fixture
def file(tmp_path):
    """A file with a -wal of some hundred kilobytes, and the connection that wrote it."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("CREATE TABLE big (value BLOB)")
        connection.execute("INSERT INTO big VALUES (zeroblob(200000))")
        yield path, connection


def wal_bytes(path):
    return path.with_name("store.db-wal").stat().st_size


def test_a_large_wal_is_emptied_and_the_next_commit_waits_for_no_lock(file, monkeypatch):
    path, connection = file
    monkeypatch.setattr(checkpoint, "_LARGE_BYTES", 1_000)
    assert wal_bytes(path) > 2 * path.stat().st_size
    Checkpoints(path, Clock()).make(connection)
    assert wal_bytes(path) == 0
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (0,)


def test_a_small_wal_is_left(file):
    path, connection = file
    before = wal_bytes(path)
    Checkpoints(path, Clock()).make(connection)
    assert before == wal_bytes(path)


def test_a_checkpoint_that_a_reader_holds_up_is_no_error_and_is_not_tried_at_once_again(file, monkeypatch):
    path, connection = file
    monkeypatch.setattr(checkpoint, "_LARGE_BYTES", 1_000)
    monkeypatch.setattr(checkpoint, "_LARGE_PER_FILE", 0)
    clock = Clock()
    checkpoints = Checkpoints(path, clock)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM big").fetchall()
        connection.execute("INSERT INTO big VALUES (zeroblob(100000))")
        checkpoints.make(connection)
        assert wal_bytes(path) > 0
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (0,)
    checkpoints.make(connection)
    assert wal_bytes(path) > 0
    clock.now = 1.0
    checkpoints.make(connection)
    assert wal_bytes(path) == 0
