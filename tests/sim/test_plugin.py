"""The plug-in: a test that takes `world` runs once for each seed, and one that fails names its seed."""

import os
import subprocess
import sys

import pytest

TEST = """
import asyncio
import pytest
from apportion.errors import StoreUnavailable
from apportion.stores import Absent, Put

async def register(store, name):
    while True:
        try:
            return await store.commit(when=[Absent(key=name)], puts=[Put(key=name, value=b"here")])
        except StoreUnavailable:
            await asyncio.sleep(0.1)

@pytest.mark.seeds(3)
def test_a_handler_survives(world):
    world.spawn("a", register(world.store("a"), "a"))
    world.partition("a", "store", 1.0)
    world.pause("a", 3.0)
    world.run(until=10.0)
    assert world.now == 10.0

def test_fails_for_one_seed(world):
    assert world.seed != 4
"""


def run(directory, *options, test=TEST, hash_seed="random"):
    (directory / "conftest.py").write_text('pytest_plugins = ["apportion.sim.plugin"]\n')
    (directory / "test_mine.py").write_text(test)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *options,
        "test_mine.py",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_test_runs_once_for_each_seed_and_a_failure_names_its_seed(tmp_path):
    printed = run(tmp_path)
    assert "test_fails_for_one_seed[seed4]" in printed
    assert "1 failed, 12 passed" in printed


@pytest.mark.slow
def test_one_seed_can_be_run_alone(tmp_path):
    assert "1 failed, 1 passed" in run(tmp_path, "--sim-seed=4")
    assert "2 passed" in run(tmp_path, "--sim-seed=5")


@pytest.mark.slow
def test_a_failure_says_the_command_that_runs_it_again(tmp_path):
    command = "pytest 'test_mine.py::test_fails_for_one_seed[seed4]' --sim-seed=4"
    printed = run(tmp_path)
    assert 1 == printed.count(f"Run it again: {command}")
    assert "set PYTHONHASHSEED=0 for all runs" in printed
    printed = run(tmp_path, hash_seed="3")
    assert f"Run it again: PYTHONHASHSEED=3 {command}" in printed
    assert "for all runs" not in printed


MARKED = """
import pytest

@pytest.mark.seeds({})
def test_nothing(world):
    pass
"""

WRONG = {
    "none": "", "zero": "0", "text": "'3'", "truth": "True", "two": "1, 2", "twice": "3, count=3", "other": "number=3",
}  # fmt: skip


@pytest.mark.slow
def test_a_mark_says_how_many_seeds_and_one_that_says_something_else_is_refused(tmp_path):
    for name, mark in WRONG.items():
        (tmp_path / f"test_{name}.py").write_text(MARKED.format(mark))
    (tmp_path / "test_named.py").write_text(MARKED.format("count=3"))
    files = sorted(path.name for path in tmp_path.iterdir())
    printed = run(tmp_path, "--continue-on-collection-errors", *files, test=MARKED.format("3"))
    for name, mark in WRONG.items():
        assert f"test_{name}.py::test_nothing: seeds({mark}) must be one number above 0" in printed
    assert "Traceback" not in printed
    assert f"6 passed, {len(WRONG)} errors" in printed
