"""What `native/lint` makes of tools that are not here: each is named, and with CI=true none is done without."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

LINT = Path(__file__).parents[2] / "native" / "lint"
CARGO = """#!/bin/sh
case $1 in
  {absent}) exit 101 ;;
  metadata) exit {crates} ;;
esac
echo "$@" >>"$(dirname "$0")/asked"
"""


def linted(folder, *, ci="", absent="none", crates=0, cargo=True):
    """Run a copy with a cargo that lacks a tool or the crates; return the process and what was asked of cargo."""
    for place in ("native", "programs"):
        (folder / place).mkdir()
    shutil.copy(LINT, folder / "native")
    programs = folder / "programs"
    for name in ("bash", "dirname", "sh"):
        (programs / name).symlink_to(shutil.which(name))
    if cargo:
        (programs / "cargo").write_text(CARGO.format(absent=absent, crates=crates))
        (programs / "cargo").chmod(0o755)
    process = subprocess.run(
        [folder / "native" / "lint"],
        env={**os.environ, "PATH": str(programs), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    asked = programs / "asked"
    return process, asked.read_text() if asked.exists() else ""


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
@pytest.mark.parametrize("absent", ["fmt", "clippy"])
def test_a_tool_that_is_absent_is_named_and_fails_in_ci(tmp_path, absent, ci, status):
    process, asked = linted(tmp_path, ci=ci, absent=absent)
    assert status == process.returncode
    assert f"cargo {absent} is not here" in process.stdout
    assert "--check" not in asked


@pytest.mark.parametrize("ci", ["", "true"])
def test_without_cargo_or_crates_there_is_nothing_to_lint(tmp_path, ci):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    process, _ = linted(tmp_path / "a", ci=ci, cargo=False)
    assert (0, "native twin: no cargo; Rust is not checked\n") == (process.returncode, process.stdout)
    process, asked = linted(tmp_path / "b", ci=ci, crates=101)
    assert (0, "native twin: no crates; Rust is not linted\n") == (process.returncode, process.stdout)
    assert "fmt --check" in asked


def test_where_all_is_here_both_are_asked(tmp_path):
    process, asked = linted(tmp_path, ci="true")
    assert 0 == process.returncode
    assert ["fmt --version", "clippy --version", "fmt --check"] == asked.splitlines()[:3]
    assert "clippy --quiet --locked --offline -- -D warnings" in asked
