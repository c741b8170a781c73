"""The examples run, and none is longer than a screen."""

import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MOST_LINES = 40


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_prints_what_it_says_at_its_end(example, tmp_path):
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ("", 0) == (done.stderr, done.returncode)
    _, promised = example.read_text().split("# Prints:\n")
    assert "".join(f"# {line}\n" for line in done.stdout.splitlines()) == promised


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_fits_on_a_screen(example):
    assert len(example.read_text().splitlines()) <= MOST_LINES


def test_there_are_examples():
    assert len(EXAMPLES) >= 3
