"""A migration that is killed with the signal 9 at any point goes on with the same call, and no shard is lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.shards.migration.scripts import BATCH, Scripts, stamped
from tests.shards.migration.test_migrate import columns, revisions
from tests.shards.sample import Files

SHARDS = ("a", "b", "c")
ONCE = """
    if os.environ["SHARD_ID"] == "b" and not os.path.exists({mark!r}):
        open({mark!r}, "w").close()
        os.kill({process}, signal.SIGKILL)
        time.sleep(60)
"""
TRIGGERS = "SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1"


def run(files, scripts, event):
    """Run a migration in another process, which kills itself at an event; return its exit code."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killed.py")), files.url, str(scripts.config), str(event)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        timeout=60,
        check=False,
    ).returncode


def expect_whole(files, scripts, triggers):
    assert scripts.migrate(files).is_whole
    assert {"0002"} == {*revisions(files).values()}
    for shard in files.shards:
        assert "mayor" in columns(files, shard)
        assert triggers == files.sql(shard, TRIGGERS)
        assert [] == files.sql(shard, "SELECT name FROM sqlite_schema WHERE name LIKE '_alembic_tmp%'")


@pytest.mark.slow
@pytest.mark.parametrize(
    "event", [1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak), 4]
)
def test_the_same_call_goes_on_after_a_kill_between_any_two_steps(tmp_path, event):
    files, scripts = stamped(Files(tmp_path, shards=("a", "b"))), Scripts(tmp_path)
    triggers = files.sql("a", TRIGGERS)
    scripts.revision("0002", "0001", BATCH)
    assert -signal.SIGKILL == run(files, scripts, event)
    expect_whole(files, scripts, triggers)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["os.getppid()", "os.getpid()"])
def test_a_kill_in_the_middle_of_a_revision_undoes_it(tmp_path, victim):
    files, scripts = stamped(Files(tmp_path, shards=SHARDS)), Scripts(tmp_path)
    triggers = files.sql("a", TRIGGERS)
    scripts.revision("0002", "0001", BATCH + ONCE.format(mark=str(tmp_path / "mark"), process=victim))
    code = run(files, scripts, 0)
    assert code == (-signal.SIGKILL if victim == "os.getppid()" else 0)
    assert {"a": "0002", "b": "0001", "c": "0001"} == revisions(files)
    assert "mayor" not in columns(files, "b")
    assert triggers == files.sql("b", TRIGGERS)
    expect_whole(files, scripts, triggers)
