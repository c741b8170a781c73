"""The demonstrations themselves: real processes on one file, and verifiers that are seen to fail."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

COMMAND = [sys.executable, "-m", "apportion.console.main", "demo"]


def demo(*words):
    command = [*COMMAND, *words, "--exit", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    return done.returncode, json.loads(done.stdout.splitlines()[-1])["checks"]


def test_every_check_passes():
    code, checks = demo()
    assert {} == {name: check for name, check in checks.items() if not check["passed"]}
    assert {"overlaps", "lost", "disturbed", "stale_writes_refused", "moves_vs_minimum"} == set(checks)
    assert 0 == code


def test_a_planted_overlap_is_found():
    code, checks = demo("--selftest")
    assert (1, {"overlaps"}) == (code, {name for name, check in checks.items() if not check["passed"]})


CRON_CHECKS = {"missing", "doubled", "refired"}


def test_every_check_of_cron_passes():
    code, checks = demo("cron")
    assert {} == {name: check for name, check in checks.items() if not check["passed"]}
    assert (0, CRON_CHECKS) == (code, set(checks))


def test_a_fault_is_planted_for_each_check_of_cron_and_found():
    code, checks = demo("cron", "--selftest")
    assert (1, CRON_CHECKS) == (code, {name for name, check in checks.items() if not check["passed"]})


TASK_CHECKS = {"lost", "completed_twice", "stale_refused", "recovery_seconds", "poison_deaths"}


def test_every_check_of_tasks_passes_within_a_minute():
    began = time.monotonic()
    code, checks = demo("tasks")
    assert {} == {name: check for name, check in checks.items() if not check["passed"]}
    assert (0, TASK_CHECKS) == (code, set(checks))
    assert time.monotonic() - began < 60


def test_a_fault_is_planted_for_each_check_of_tasks_and_found():
    code, checks = demo("tasks", "--selftest")
    assert (1, TASK_CHECKS) == (code, {name for name, check in checks.items() if not check["passed"]})


KEY_CHECKS = {"order_broken", "overlaps", "lost", "moved_vs_minimum", "stale_refused"}


def test_every_check_of_keys_passes_within_a_minute():
    began = time.monotonic()
    code, checks = demo("keys")
    assert {} == {name: check for name, check in checks.items() if not check["passed"]}
    assert (0, KEY_CHECKS) == (code, set(checks))
    assert time.monotonic() - began < 60


def test_a_fault_is_planted_for_each_check_of_keys_and_found():
    code, checks = demo("keys", "--selftest")
    assert (1, KEY_CHECKS) == (code, {name for name, check in checks.items() if not check["passed"]})


SHARD_CHECKS = {
    "acknowledged", "lost", "resurrected", "stale", "owned_twice", "refused", "unplanned_moves", "left_behind",
    "pause_ms",
}  # fmt: skip


def test_every_check_of_shards_passes():
    code, checks = demo("shards")
    assert {} == {name: check for name, check in checks.items() if not check["passed"]}
    assert (0, SHARD_CHECKS) == (code, set(checks))


def test_a_fault_is_planted_for_each_check_of_shards_and_found():
    code, checks = demo("shards", "--selftest")
    assert (1, SHARD_CHECKS) == (code, {name for name, check in checks.items() if not check["passed"]})


SERVER_CHECKS = SHARD_CHECKS | {"reversed_lost", "catalogs_clean"}


@pytest.mark.timeout(660)
def test_every_check_of_shards_on_servers_passes():
    code, checks = demo("shards", "--postgres")
    assert {} == {name: check for name, check in checks.items() if not check["passed"]}
    assert (0, SERVER_CHECKS) == (code, set(checks))


@pytest.mark.timeout(660)
def test_a_fault_is_planted_for_each_check_of_shards_on_servers_and_found():
    code, checks = demo("shards", "--postgres", "--selftest")
    assert (1, SERVER_CHECKS) == (code, {name for name, check in checks.items() if not check["passed"]})


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
