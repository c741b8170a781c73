"""The example `shop`: few lines change, and its tests pass on one database, on one shard, and on two."""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

SHOP = ROOT / "examples" / "shop"
MOST_CHANGED, MOST_IN_A_JOB = 25, 14
JOBS = ("nightly.py", "report.py")
MAKE = (
    "import os, models, sqlalchemy as s; models.Base.metadata.create_all(s.create_engine(os.environ['SHOP_DATABASE']))"
)
ALEMBIC = """
from alembic import command, config
made = config.Config()
made.set_main_option("script_location", {place!r})
{act}
"""
TAKEN = ("--shard", "one=sqlite:///one.db", "--models", "models:Base")


def run(version, folder, *arguments):
    """Run Python beside a version of the application."""
    paths = [str(SHOP / version), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT / "src")]
    database = "one.db" if version == "before" else "control.db"
    more = {"SHOP_DATABASE": f"sqlite:///{folder}/one.db", "SHOP_URL": f"sqlite:///{folder}/{database}"}
    environment = os.environ | more | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def passing(version, folder):
    """Run the tests of the shop; return how many passed."""
    told = run(
        version, folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(SHOP / "test_shop.py")
    )
    return int(re.search(r"(\d+) passed", told)[1])


def apportion(version, folder, *words):
    script = "import sys; from apportion.console.main import main; sys.exit(main())"
    return run(version, folder, "-c", script, *words)


def changed(before):
    """Yield each line of a file of the application that differs between the two versions."""
    after = SHOP / "after" / before.relative_to(SHOP / "before")
    lines = difflib.unified_diff(before.read_text().splitlines(), after.read_text().splitlines(), n=0, lineterm="")
    yield from (line for line in lines if re.match(r"[+-](?![+-]{2} ).*\S", line))


def test_few_lines_change():
    counts = {path: len([*changed(path)]) for path in sorted((SHOP / "before").rglob("*.py"))}
    assert 0 < sum(count for path, count in counts.items() if path.name not in JOBS) <= MOST_CHANGED
    names = [{path.relative_to(SHOP / each) for path in (SHOP / each).rglob("*.py")} for each in ("before", "after")]
    assert names[0] == names[1]


@pytest.mark.parametrize("job", JOBS)
def test_few_lines_change_in_a_job_over_all_shops(job):
    assert 0 < len([*changed(SHOP / "before" / job)]) <= MOST_IN_A_JOB


@pytest.mark.slow
def test_the_same_tests_pass_on_one_database_on_one_shard_and_on_two(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    run("before", one, "-c", MAKE)
    count = passing("before", one)
    assert count >= 4
    apportion("after", one, "shards", "init", "sqlite:///control.db", "shop", *TAKEN)
    assert count == passing("after", one)
    apportion("after", two, "shards", "init", "sqlite:///control.db", "shop", *TAKEN, "--shard", "two=sqlite:///two.db")
    assert count == passing("after", two)
    apportion("after", two, "shards", "doctor", "sqlite:///control.db", "shop", "--models", "models:Base", "--whole")
    assert "best: " in run("after", two, str(SHOP / "after" / "report.py"))
    run("after", two, str(SHOP / "after" / "nightly.py"), "turnover.csv")
    assert 1 + 6 == len((two / "turnover.csv").read_text().splitlines())


def migrated(version, folder, act, place=None):
    return run(version, folder, "-c", ALEMBIC.format(place=str(place or SHOP / version / "migrations"), act=act))


@pytest.mark.slow
def test_alembic_leaves_the_tables_of_a_set_alone_and_runs_the_revision(tmp_path):
    pytest.importorskip("alembic")
    migrated("before", tmp_path, "command.upgrade(made, 'head')")
    passing("before", tmp_path)
    own = tmp_path / "migrations"
    for path in (SHOP / "after" / "migrations").rglob("*.py"):
        (own / path.relative_to(SHOP / "after" / "migrations")).parent.mkdir(parents=True, exist_ok=True)
        (own / path.relative_to(SHOP / "after" / "migrations")).write_text(path.read_text())
    words = ("shards", "init", "sqlite:///control.db", "shop", *TAKEN, "--revision", "migrations/versions")
    assert "only migrations/versions/" in apportion("after", tmp_path, *words)
    assert not Path(tmp_path / "control.db").exists()
    migrated("after", tmp_path, "command.upgrade(made, 'head')", own)
    apportion("after", tmp_path, *words[:-2])
    assert passing("after", tmp_path) >= 4
    migrated("after", tmp_path, "command.check(made)", own)
    apportion(
        "after", tmp_path, "shards", "doctor", "sqlite:///control.db", "shop", "--models", "models:Base", "--whole"
    )
