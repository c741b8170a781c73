"""The demonstration itself: real processes on one file, and a verifier that is seen to fail."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.live


def demo(*options):
    command = [sys.executable, "-m", "apportion.console.main", "demo", "--exit", "--json", *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    return done.returncode, json.loads(done.stdout.splitlines()[-1])["checks"]


def test_every_check_passes():
    code, checks = demo()
    assert {} == {name: check for name, check in checks.items() if not check["passed"]}
    assert {"overlaps", "lost", "disturbed", "stale_writes_refused", "moves_vs_minimum"} == set(checks)
    assert 0 == code


def test_a_planted_overlap_is_found():
    code, checks = demo("--selftest")
    assert (1, {"overlaps"}) == (code, {name for name, check in checks.items() if not check["passed"]})
