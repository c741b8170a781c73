"""A run over partitions that is killed at any point goes on with the same call, and no row is lost on the way."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.shards.periods.models import Base
from tests.shards.periods.rig import LEFT, LONG_AGO, at, month, name, parts, put, run, this_month
from tests.shards.periods.test_postgres_partitions import in_table, read_back
from tests.shards.sample import SET
from tests.shards.server import OWNER, Servers, as_role

pytestmark = [pytest.mark.live, pytest.mark.slow]
YEAR = timedelta(days=365)
EVENTS = 11  # two periods are made; three partitions are detached, archived and dropped


@pytest.fixture
def files(rig, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    made = Servers(rig, tmp_path, shards=("one",), base=Base)
    yield made
    made.drop()


def started(files, folder, event):
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    arguments = [files.url, str(folder), f"{month(14)}", str(event)]
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("killed.py")), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )


def filled(files, folder):
    folder.mkdir()
    put(files, LONG_AGO, 2)
    put(files, this_month(), 3)
    put(files, month(1), 2)
    put(files, month(4), 2)
    old = files.sql("one", f"SELECT to_jsonb(event)::text FROM event WHERE created_at < '{month(2)}' ORDER BY 1")
    new = files.sql("one", f"SELECT to_jsonb(event)::text FROM event WHERE created_at >= '{month(2)}' ORDER BY 1")
    return old, new


def expect_whole(files, folder, old, new, monkeypatch):
    at(monkeypatch, month(14))
    found = run(files, ahead=1, older_than=YEAR, archive=folder, drop=True)
    assert found.is_whole
    assert new == in_table(files)
    assert old == read_back(files, folder)[0]
    assert [] == files.sql("one", LEFT)
    wide, following = name(month(4)), name(month(16), "from_")
    assert [name(month(2)), name(month(3)), wide, following, name(month(2), "until_")] == parts(files)
    assert [] == files.sql("one", "SELECT conname FROM pg_constraint WHERE conname = 'apportion_bounds'")
    put(files, LONG_AGO)
    assert SET


@pytest.mark.parametrize(
    "event", [each if each in (1, 3, 6) else pytest.param(each, marks=pytest.mark.soak) for each in range(1, EVENTS)]
)
def test_the_same_call_goes_on_after_a_kill_behind_any_step(files, tmp_path, monkeypatch, event):
    folder = tmp_path / "old"
    old, new = filled(files, folder)
    assert -signal.SIGKILL == started(files, folder, event).wait(60)
    expect_whole(files, folder, old, new, monkeypatch)


def test_the_same_call_goes_on_after_a_kill_while_a_detach_waits(files, tmp_path, monkeypatch):
    folder = tmp_path / "old"
    old, new = filled(files, folder)
    pending = "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"
    with files.connect("one") as reader:
        reader.execute("SELECT count(*) FROM event")
        process = started(files, folder, 0)
        try:
            deadline = time.monotonic() + 30
            while files.sql("one", pending) != [(1,)]:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
    expect_whole(files, folder, old, new, monkeypatch)
