"""`apportion group run` under faults: outputs that take nothing, signals, kills, no descriptors, wrappers.

Each worker appends its partition and its process id to a log outside, again and again. Only the log is judged: once
another process has written for a partition, no earlier one writes for it again. The judge knows none of our code.
"""

import os
import resource
import signal
import subprocess
import termios
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.console.grouping import URL, eventually, item_of
from tests.console.running import COMMAND

pytestmark = pytest.mark.live
PARTITIONS = 4
TTL_SECONDS = 2
SERVED_SECONDS = TTL_SECONDS + 2
# A plain worker; a wrapper that waits; a worker in a changed session, without its parent.
WORK = 'trap "" HUP; while :; do echo "$APPORTION_PARTITION $$" >>log; sleep 0.03; done'
PLAIN = ("sh", "-c", WORK)
WRAPPED = ("sh", "-c", "sh -c '" + WORK + "' & wait")
STRAYED = ("sh", "-c", "setsid setsid sh -c '" + WORK + "' & exec sleep 3600")
KINDS = {"plain": PLAIN, "wrapped": WRAPPED, "strayed": STRAYED}


@contextmanager
def runner(folder, name, worker=PLAIN, *, stderr=subprocess.DEVNULL, shell=""):
    """Within: a process of `group run` is there; a shell may change something for it first. At the end it is killed."""
    command = [
        COMMAND[0],
        "-P",
        *COMMAND[1:],
        "group",
        "run",
        URL,
        "mailers",
        "--partitions",
        str(PARTITIONS),
        "--member-id",
        name,
    ]
    command += ["--lease-ttl", f"{TTL_SECONDS}s", "--", *worker]
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command] if shell else command
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def effects(folder, start=0):
    """Return (partition, process) for all that was written since a place in the log."""
    with suppress(FileNotFoundError):
        lines = (folder / "log").read_text().splitlines()[start:]
        return [(int(each), int(pid)) for each, _, pid in (line.partition(" ") for line in lines)]
    return []


def resumed(written):
    """Return (partition, process) for each process that wrote on after another had: two commands on one partition."""
    last, done, found = {}, set(), []
    for partition, pid in written:
        if last.get(partition) not in (None, pid):
            done.add((partition, last[partition]))
        if (partition, pid) in done:
            found.append((partition, pid))
        last[partition] = pid
    return found


def writers(folder, start=0):
    """Return the processes that have written since a place in the log."""
    return {pid for _, pid in effects(folder, start)}


def served(folder, *, but=()):
    """Wait until each partition is written, by another process than some; return how long that took."""
    start, began = len(effects(folder)), time.monotonic()
    everything = set(range(PARTITIONS))
    eventually(lambda: {each for each, pid in effects(folder, start) if pid not in but} == everything)
    return time.monotonic() - began


def both_serve(folder, stack, *, worker=PLAIN, **options):
    """Start two runners, the first with options; return both once both serve, and the writers that the first began."""
    first = stack.enter_context(runner(folder, "a", worker, **options))
    served(folder)
    theirs = writers(folder)
    second = stack.enter_context(runner(folder, "b", worker))
    eventually(lambda: len(writers(folder)) >= PARTITIONS + 2)
    served(folder)
    return first, second, theirs


def none_wrote_beside_another(folder):
    """Wait until nothing writes any more, and judge all that was written."""
    eventually(lambda: not any(map(is_running, writers(folder))))
    return [] == resumed(effects(folder))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid):
    """Return the processes below one, by generation: its keeper, the supervisors, the commands."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, generation = [], {pid}
    while generation := {child for child, parent in parents.items() if parent in generation}:
        found.append(sorted(generation))
    return found


def most(pid):
    """Return a limit of descriptors that leaves a process no new one."""
    return 1 + max(int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir())


@contextmanager
def full_pipe():
    """Within: a pipe without a reader."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write, b"\n" * 65_536)
    os.set_blocking(write, True)
    try:
        yield write
    finally:
        os.close(read)
        os.close(write)


@contextmanager
def closed_pipe():
    """Within: a pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    try:
        yield write
    finally:
        os.close(write)


@contextmanager
def stopped_terminal():
    """Within: a terminal with stopped output, as after Ctrl-S."""
    controller, terminal = os.openpty()
    termios.tcflow(terminal, termios.TCOOFF)
    try:
        yield terminal
    finally:
        os.close(terminal)
        os.close(controller)


@contextmanager
def full_disk():
    with Path("/dev/full").open("wb") as stream:
        yield stream.fileno()


@pytest.mark.parametrize("output", [full_pipe, closed_pipe, full_disk, stopped_terminal, None])
def test_standard_error_that_takes_nothing_decides_nothing(output, tmp_path):
    with ExitStack() as stack:
        options = {"shell": "2>&-"} if output is None else {"stderr": stack.enter_context(output())}
        first, second, _ = both_serve(tmp_path, stack, **options)
        second.send_signal(signal.SIGTERM)
        assert 0 == second.wait(20)
        assert SERVED_SECONDS > served(tmp_path)
        before = writers(tmp_path)
        for pid in before:  # each command ends by itself, and its report is taken by nobody
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert SERVED_SECONDS > served(tmp_path, but=before)
        first.send_signal(signal.SIGTERM)
        assert 0 == first.wait(20)
    assert none_wrote_beside_another(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_each_signal_that_asks_to_leave_hands_all_over(number, tmp_path):
    with ExitStack() as stack:
        first, _, theirs = both_serve(tmp_path, stack)
        first.send_signal(number)
        first.send_signal(number)  # within a second it is the same request
        assert 0 == first.wait(20)
        assert SERVED_SECONDS > served(tmp_path, but=theirs)
    assert none_wrote_beside_another(tmp_path)


def test_a_second_signal_kills_the_works_first_and_then_the_runner(tmp_path):
    with ExitStack() as stack:
        first = stack.enter_context(runner(tmp_path, "a", ("sh", "-c", f'trap "" TERM; {WORK}')))
        served(tmp_path)
        theirs = writers(tmp_path)
        stack.enter_context(runner(tmp_path, "b"))
        eventually(lambda: item_of(tmp_path, "live/mailers/member/b"))
        first.send_signal(signal.SIGTERM)
        eventually(lambda: first.poll() is not None or first.send_signal(signal.SIGTERM))
        assert -signal.SIGTERM == first.wait()
        assert not any(map(is_running, theirs))
        assert SERVED_SECONDS > served(tmp_path, but=theirs)
    assert none_wrote_beside_another(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_goes_on_that_a_killed_runner_started(kind, tmp_path):
    with ExitStack() as stack:
        first, _, theirs = both_serve(tmp_path, stack, worker=KINDS[kind])
        first.kill()
        assert SERVED_SECONDS > served(tmp_path, but=theirs)
    assert none_wrote_beside_another(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("generation", [0, 1], ids=["keeper", "supervisors"])
def test_what_ends_a_keeper_or_a_supervisor_ends_its_trees_and_each_is_started_again(generation, kind, tmp_path):
    with ExitStack() as stack:
        first, _, theirs = both_serve(tmp_path, stack, worker=KINDS[kind])
        for pid in descendants(first.pid)[generation]:
            os.kill(pid, signal.SIGKILL)
        assert SERVED_SECONDS > served(tmp_path, but=theirs)
        assert first.poll() is None
    assert none_wrote_beside_another(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_that_moves_has_no_work_left_where_it_was(kind, tmp_path):
    with ExitStack() as stack:
        _, second, _ = both_serve(tmp_path, stack, worker=KINDS[kind])
        second.send_signal(signal.SIGTERM)
        assert 0 == second.wait(20)
        assert SERVED_SECONDS > served(tmp_path)
    assert none_wrote_beside_another(tmp_path)


def test_without_descriptors_for_three_seconds_no_partition_has_two_commands_and_each_is_served_again(tmp_path):
    with ExitStack() as stack:
        first, _, _ = both_serve(tmp_path, stack)
        hungry = [first.pid, *descendants(first.pid)[0]]
        limits = [resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in hungry]
        for pid, (_, hard) in zip(hungry, limits, strict=True):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most(pid), hard))
        ends, before = time.monotonic() + 3, writers(tmp_path)
        for pid in before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: time.monotonic() > ends)
        assert first.poll() is None
        for pid, limit in zip(hungry, limits, strict=True):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
        assert SERVED_SECONDS > served(tmp_path, but=before)
    assert none_wrote_beside_another(tmp_path)


def test_no_module_of_the_working_directory_is_run_in_the_place_of_pythons(tmp_path):
    for name in ("signal", "ctypes", "json", "socket", "select", "apportion"):
        (tmp_path / f"{name}.py").write_text(f"open('planted-{name}', 'w')")
    with runner(tmp_path, "a"):
        served(tmp_path)
    assert [] == [*tmp_path.glob("planted-*")]
    assert none_wrote_beside_another(tmp_path)
