"""A saved table survives the death of its writer: at any moment a reader finds the old one or the new one, whole."""

import os
import signal
import subprocess
import sys
import time

import pytest

from apportion import Ring, Table, decode, encode, plan

KILLS = int(os.environ.get("APPORTION_KILLS", "40"))

# Replaces a file again and again by the old and the new table, until it is killed.
WRITER = """
import sys
from itertools import cycle
from pathlib import Path
from apportion.console.files.output_file import FileKind, OutputFile
old, new = (Path(name).read_bytes() for name in ("old.json", "new.json"))
print("ready", flush=True)
for data in cycle((new, old)):
    OutputFile(path=Path("table.json"), kind=FileKind.TABLE).write(data)
"""


@pytest.fixture
def tables(tmp_path):
    """Both tables, and a folder that holds them as files."""
    ring = Ring([f"n{number}" for number in range(40)])
    old, new = ring.table(), ring.on(ring.topology.add("n40")).table()
    for name, table in (("old", old), ("new", new), ("table", old)):
        (tmp_path / f"{name}.json").write_bytes(encode(table))
    return tmp_path, old, new


@pytest.mark.live
def test_a_killed_writer_leaves_the_old_table_or_the_new_one(tables):
    folder, old, new = tables
    found = []
    for number in range(KILLS):
        writer = subprocess.Popen([sys.executable, "-c", WRITER], cwd=folder, stdout=subprocess.PIPE)
        assert b"ready\n" == writer.stdout.readline()
        time.sleep(0.001 * (number % 20))  # the moment of death is the parameter
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        found.append(decode((folder / "table.json").read_bytes(), Table))
    assert {old.epoch, new.epoch} >= {table.epoch for table in found}


@pytest.mark.live
@pytest.mark.parametrize("death", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_apply_is_done_or_not_begun(tables, death):
    folder, old, new = tables
    (folder / "plan.json").write_bytes(encode(plan(old, new)))
    for number in range(10):
        (folder / "table.json").write_bytes(encode(old))
        process = subprocess.Popen(
            [sys.executable, "-m", "apportion.console.main", "apply", "plan.json"],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        time.sleep(0.03 * number)
        process.send_signal(death)
        process.communicate()
        assert decode((folder / "table.json").read_bytes(), Table) in (old, new)


@pytest.mark.live
def test_of_two_plans_applied_at_once_exactly_one_is_done(tables):
    folder, old, _ = tables
    ring = Ring([f"n{number}" for number in range(40)])
    plans = []
    for number in range(2):
        plans.append(plan(old, ring.on(ring.topology.add(f"new-{number}")).table()))
        (folder / f"plan-{number}.json").write_bytes(encode(plans[number]))
    for _ in range(8):
        (folder / "table.json").write_bytes(encode(old))
        command = [sys.executable, "-m", "apportion.console.main", "apply"]
        writers = [
            subprocess.Popen(
                [*command, f"plan-{number}.json"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for number in range(2)
        ]
        codes = [(writer.communicate(), writer.returncode)[1] for writer in writers]
        assert [0, 1] == sorted(codes)
        assert plans[codes.index(0)].after == decode((folder / "table.json").read_bytes(), Table).epoch
