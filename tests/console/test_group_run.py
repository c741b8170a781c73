"""`apportion group run` with real processes: one command a partition, which ends before another has the partition."""

import json
import re
import signal
import subprocess
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.console.grouping import URL, eventually
from tests.console.running import COMMAND, refused, run

PARTITIONS = 4
WORKER = """
trap 'sleep 0.3; echo "end $APPORTION_PARTITION $$ $APPORTION_TOKEN" >>log; exit 0' TERM
echo "begin $APPORTION_PARTITION $$ $APPORTION_TOKEN $APPORTION_GROUP $APPORTION_TOKEN_HOLDER" >>log
while :; do sleep 0.05; done
"""
STUBBORN = WORKER.replace("; exit 0", "")
ENDING = 'echo "begin $APPORTION_PARTITION $$ $APPORTION_TOKEN" >>log; exit 3'


@contextmanager
def runner(folder, name, script=WORKER, *, partitions=PARTITIONS, more=()):
    """Within: a process of `group run` is there; at the end it is gone, and with it all of its commands."""
    command = [*COMMAND, "group", "run", URL, "mailers", "--partitions", str(partitions), "--member-id", name]
    with (folder / f"{name}.err").open("ab") as errors:
        process = subprocess.Popen(
            [*command, "--lease-ttl", "2s", *more, "--", "sh", "-c", script], cwd=folder, stderr=errors
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def begun(folder):
    """Return the processes that began, by partition, in order: (pid, token)."""
    found = defaultdict(list)
    for line in _lines(folder):
        if line[0] == "begin":
            found[int(line[1])].append((int(line[2]), line[3]))
    return found


def _lines(folder):
    log = folder / "log"
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def alive(folder):
    """Return how many processes of each partition run now."""
    return {each: sum(map(is_running, (pid for pid, _ in pids))) for each, pids in begun(folder).items()}


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended, perhaps while we read
        return False


def said(folder, name):
    return (folder / f"{name}.err").read_text()


def all_run_once(folder):
    return alive(folder) == dict.fromkeys(range(PARTITIONS), 1)


def owners(folder):
    document = json.loads(run("group", "show", URL, "mailers", "--json", folder=folder).stdout)
    return [each["owner"] for each in document["owners"]] if document["settled"] else []


def started_by(folder, name):
    """Return what a runner started, by process id: the partition."""
    return {
        int(pid): int(each) for each, pid in re.findall(r"mailers/(\d+): started process (\d+)", said(folder, name))
    }


def test_each_partition_has_one_process_with_its_token(tmp_path):
    with runner(tmp_path, "a"):
        eventually(lambda: all_run_once(tmp_path))
        eventually(lambda: len(started_by(tmp_path, "a")) == PARTITIONS)
    first = next(line for line in _lines(tmp_path) if line[0] == "begin")
    assert ["mailers", "a"] == first[4:6]
    assert re.fullmatch(r"\d+:1", first[3])
    assert {pids[0][0]: each for each, pids in begun(tmp_path).items()} == started_by(tmp_path, "a")


@pytest.mark.slow
def test_a_partition_changes_hands_after_its_process_has_ended(tmp_path):
    with runner(tmp_path, "a") as first:
        eventually(lambda: all_run_once(tmp_path))
        with runner(tmp_path, "b"):
            eventually(lambda: owners(tmp_path).count("b") == 2 and all_run_once(tmp_path))
            first.send_signal(signal.SIGTERM)
            assert 0 == first.wait(20)
            eventually(lambda: all_run_once(tmp_path))
            assert ["b"] * PARTITIONS == owners(tmp_path)
    events = defaultdict(list)
    for line in _lines(tmp_path):
        events[line[1]].append((line[0], int(line[3].partition(":")[2])))
    moved = [["begin", "end", "begin"], ["begin", "end", "begin"]]
    assert 2 * moved == [[kind for kind, _ in events[str(each)]] for each in range(PARTITIONS)]
    assert all(told[1][1] < told[2][1] for told in events.values()), "tokens grow"
    assert "left mailers" in said(tmp_path, "a")


@pytest.mark.slow
def test_what_a_killed_runner_started_ends_with_it(tmp_path):
    with runner(tmp_path, "a") as first:
        eventually(lambda: all_run_once(tmp_path))
        with runner(tmp_path, "b"):
            eventually(lambda: owners(tmp_path).count("b") == 2 and all_run_once(tmp_path))
            before = begun(tmp_path)
            theirs = [pid for pid in started_by(tmp_path, "a") if is_running(pid)]
            assert 2 == len(theirs)
            first.send_signal(signal.SIGKILL)
            first.wait()
            eventually(lambda: not any(map(is_running, theirs)), seconds=1)
            eventually(lambda: all_run_once(tmp_path))
            kept = [each for each, pids in before.items() if is_running(pids[-1][0])]
            assert 2 == len(kept)
            assert all(before[each] == begun(tmp_path)[each] for each in kept), "what did not move was not disturbed"


@pytest.mark.slow
def test_a_command_that_ignores_sigterm_is_killed_and_handed_over(tmp_path):
    with runner(tmp_path, "a", STUBBORN, more=("--drain-timeout", "0.5s")):
        eventually(lambda: all_run_once(tmp_path))
        with runner(tmp_path, "b"):
            eventually(lambda: owners(tmp_path).count("b") == 2 and all_run_once(tmp_path))
            assert 2 == said(tmp_path, "a").count("killed: the drain timed out")


@pytest.mark.slow
def test_the_commands_of_a_runner_that_is_paused_are_killed_before_others_take_over(tmp_path):
    with runner(tmp_path, "a", STUBBORN, more=("--drain-timeout", "0.5s")) as first:
        eventually(lambda: all_run_once(tmp_path))
        with runner(tmp_path, "b"):
            eventually(lambda: owners(tmp_path).count("b") == 2 and all_run_once(tmp_path))
            theirs = [pid for pid in started_by(tmp_path, "a") if is_running(pid)]
            first.send_signal(signal.SIGSTOP)
            eventually(lambda: owners(tmp_path).count("b") == PARTITIONS)
            assert not any(map(is_running, theirs))
            first.send_signal(signal.SIGCONT)
            eventually(lambda: owners(tmp_path).count("a") == 2 and all_run_once(tmp_path))
    killed = said(tmp_path, "a").count("killed: ") + said(tmp_path, "a").count("has ended (signal SIGKILL)")
    assert 4 == killed, "two at the drain, two by the keeper"


@pytest.mark.slow
def test_a_command_that_ends_by_itself_is_started_again_later_each_time(tmp_path):
    with runner(tmp_path, "a", ENDING, partitions=1):
        eventually(lambda: len(begun(tmp_path)[0]) >= 3)
        eventually(lambda: "starts again in 2 s" in said(tmp_path, "a"))
    pauses = re.findall(r"ended by itself \(exit code 3\); starts again in (\S+) s", said(tmp_path, "a"))
    assert ["0.5", "1", "2"] == pauses[:3]
    assert 1 == len({token for _, token in begun(tmp_path)[0]}), "one grant, one token"


@pytest.mark.slow
def test_what_a_command_leaves_behind_ends_with_it(tmp_path):
    script = 'sleep 60 & echo "begin $APPORTION_PARTITION $! $APPORTION_TOKEN" >>log; exit 0'
    with runner(tmp_path, "a", script, partitions=1):
        eventually(lambda: len(begun(tmp_path)[0]) >= 2)
        assert not is_running(begun(tmp_path)[0][0][0])


@pytest.mark.slow
def test_ctrl_c_hands_over_too_and_reports_can_be_json(tmp_path):
    with runner(tmp_path, "a", more=("--json",)) as process:
        eventually(lambda: all_run_once(tmp_path))
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(20)
    documents = [json.loads(line) for line in said(tmp_path, "a").splitlines() if line.startswith("{")]
    assert {(1, "group run", "mailers")} == {
        tuple(each[name] for name in ("format_version", "command", "group")) for each in documents
    }
    events = [each["event"] for each in documents]
    assert ("joined", "left") == (events[0], events[-1])
    assert (PARTITIONS, PARTITIONS) == (events.count("started"), events.count("lost"))


@pytest.mark.slow
def test_a_static_runner_that_restarts_keeps_its_partitions(tmp_path):
    with runner(tmp_path, "b"), runner(tmp_path, "a", more=("--static",)) as first:
        eventually(lambda: all_run_once(tmp_path))
        eventually(lambda: owners(tmp_path).count("a") == 2 and all_run_once(tmp_path))
        before = owners(tmp_path)
        first.send_signal(signal.SIGTERM)
        assert 0 == first.wait(20)
        with runner(tmp_path, "a", more=("--static",)):
            eventually(lambda: all_run_once(tmp_path) and owners(tmp_path) == before)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--partitions", "4"), "a command and its arguments"),
        (("--partitions", "4", "--", "no-such-program"), "a program that can be run"),
        (("--partitions", "0", "--", "true"), "expected a whole number in 1 .. 262144"),
        (("--partitions", "4", "--balancer", "optmal", "--", "true"), "Did you mean 'optimal'?"),
        (("--partitions", "4", "--mode", "lazy", "--", "true"), "mode"),
        (("--partitions", "4", "--lease-ttl", "soon", "--", "true"), "lease-ttl"),
        (("--partitions", "4", "--lease-ttl", "0.01s", "--", "true"), "ttl"),
        (("--partitions", "4", "--member-id", "a/b", "--", "true"), "without /"),
        (("--partitions", "4", "--rejoin-grace", "9s", "--", "true"), "not static"),
        (("--", "true"), "--partitions"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(more, words, tmp_path):
    assert words in refused(run("group", "run", URL, "mailers", *more, folder=tmp_path))


@pytest.mark.slow
def test_a_second_runner_of_the_same_id_is_refused(tmp_path):
    with runner(tmp_path, "a"):
        eventually(lambda: all_run_once(tmp_path))
        began = time.monotonic()
        text = refused(
            run("group", "run", URL, "mailers", "--partitions", "4", "--member-id", "a", "--lease-ttl", "1s", "--",
                "true", folder=tmp_path)
        )  # fmt: skip
        assert "member 'a' is there already" in text
        assert 1 < time.monotonic() - began < 8
