"""A process that takes a file over is killed, again and again: the next one goes on, and no row is lost."""

import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.shards.takeover.old_file import COUNTRIES, OldFile

ROOT = Path(__file__).parents[3]
KILLS = [("begin", 1), ("commit", 3), ("commit", 6), ("begin", 9), ("commit", 14), ("commit", 19), ("begin", 24)]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def taken(folder, moment="begin", stop=0, *, most_bytes=None):
    """Take the file over in a process; return its exit status.

    With `most_bytes`, no file of it may grow further; return what it says then.
    """

    def limited():
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    command = [sys.executable, "-m", "tests.shards.takeover.killed", f"{folder}", moment, f"{stop}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, preexec_fn=limited
    )
    if most_bytes is not None:
        return done.stderr
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


class OldWriter(threading.Thread):
    """A program that knows of no slot, and notes what it was told. It ends when the file refuses such rows."""

    def __init__(self, old):
        super().__init__(daemon=True)
        self.old, self.acknowledged, self.trouble, self.is_over = old, [], None, False

    def run(self):
        number = 10_000
        while not self.is_over:
            number += 1
            try:
                self.old.sql("INSERT INTO town (id, country) VALUES (?, ?)", (number, COUNTRIES[number % 5]))
            except sqlite3.IntegrityError:
                return
            except sqlite3.Error as error:
                self.trouble = error
                return
            self.acknowledged.append(number)
            time.sleep(0.02)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_process_that_was_killed_is_followed_by_one_that_goes_on(tmp_path, mode):
    old, count = OldFile(tmp_path), 0
    old.sql(f"PRAGMA journal_mode = {mode}")
    writer, without = OldWriter(old), []
    writer.start()
    try:
        for moment, stop in KILLS:
            code = taken(tmp_path, moment, stop)
            count += code == -signal.SIGKILL
            assert [("ok",)] == old.sql("PRAGMA integrity_check")
            has_slot = "slot" in old.sql("SELECT sql FROM sqlite_schema WHERE name = 'house'")[0][0]
            # no program writes houses: rows that have got their slot keep it
            without += old.sql("SELECT count(*) FROM house WHERE slot IS NULL")[0] if has_slot else []
        assert 0 == taken(tmp_path)
        writer.join(30)
    finally:
        writer.is_over = True
    assert not writer.is_alive()
    assert None is writer.trouble
    assert count >= 5
    assert without == sorted(without, reverse=True)
    assert [] == old.wrong()
    there = {number for (number,) in old.sql("SELECT id FROM town WHERE slot IS NOT NULL")}
    assert {*range(40), *writer.acknowledged} == there
    assert len(writer.acknowledged) > 20
    assert [(80, 120, 40)] == old.sql(
        "SELECT (SELECT count(slot) FROM street), (SELECT count(slot) FROM house), (SELECT count(slot) FROM stamp)"
    )
    (tmp_path / "whole").mkdir()
    whole = OldFile(tmp_path / "whole")
    whole.take()
    assert whole.schema() == old.schema()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_disk_that_fails_is_told_and_the_same_call_goes_on(tmp_path, mode):
    """The kernel refuses to let a file of the process grow, which SQLite calls a disk I/O error."""
    old = OldFile(tmp_path, towns=3_000)
    old.sql(f"PRAGMA journal_mode = {mode}")
    said = taken(tmp_path, most_bytes=(tmp_path / "one.db").stat().st_size // 2)
    assert "StoreUnavailable: database of shard one is unavailable: disk I/O error." in said
    assert [("ok",)] == old.sql("PRAGMA integrity_check")
    old.take(("one", "two"))
    assert [] == old.wrong()
    assert [(3_000,)] == old.sql("SELECT count(slot) FROM town")
