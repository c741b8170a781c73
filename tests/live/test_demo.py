"""The demonstrations themselves: real processes on one file, and verifiers that are seen to fail."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

COMMAND = [sys.executable, "-m", "apportion.console.main", "demo"]


def demo(*words):
    command = [*COMMAND, *words, "--exit", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def failed(checks):
    return {name: check for name, check in checks.items() if not check["passed"]}


def test_every_check_passes():
    code, found = demo()
    assert {} == failed(found["checks"])
    assert {"overlaps", "lost", "disturbed", "stale_writes_refused", "moves_vs_minimum"} == set(found["checks"])
    assert {"format_version", "passed", "checks"} == set(found)
    assert (0, True) == (code, found["passed"])


SHARD_CHECKS = {
    "acknowledged", "lost", "resurrected", "stale", "owned_twice", "refused", "unplanned_moves", "left_behind",
    "pause_ms",
}  # fmt: skip
CHECKS = {
    "cron": {"missing", "doubled", "refired"},
    "tasks": {"lost", "completed_twice", "stale_refused", "recovery_seconds", "poison_deaths"},
    "keys": {"order_broken", "overlaps", "lost", "moved_vs_minimum", "stale_refused"},
    "shards": SHARD_CHECKS,
    "shards --postgres": SHARD_CHECKS | {"reversed_lost", "catalogs_clean"},
}


@pytest.mark.timeout(660)
@pytest.mark.crowded
@pytest.mark.parametrize("subject", CHECKS)
def test_every_check_passes_and_then_finds_the_fault_that_is_planted_for_it(subject):
    code, found = demo(*subject.split(), "--selftest")
    assert {} == failed(found["before_plants"])
    assert CHECKS[subject] == set(found["before_plants"])
    assert CHECKS[subject] == set(failed(found["checks"]))
    assert (1, False) == (code, found["passed"])


def test_a_planted_overlap_is_found():
    code, found = demo("--selftest")
    assert (1, {"overlaps"}) == (code, set(failed(found["checks"])))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_server_and_no_folder_behind(number):
    home = Path(tempfile.mkdtemp(prefix="signal-"))  # a short name, and one that other users may pass
    home.chmod(0o711)
    command, environment = [*COMMAND, "shards", "--postgres"], os.environ | {"TMPDIR": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
        while "has read" not in (line := run.stdout.readline()):
            assert line, run.stderr.read()
        assert named(home)
        run.send_signal(number)
        assert 128 + number == run.wait(60)
    assert [] == named(home)
    home.rmdir()


def named(folder):
    """Return the commands of all processes that name a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += [words] if str(folder) in words else []
    return found
