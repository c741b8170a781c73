"""`apportion shards each`: one command for each shard, its lines under the id, and no bad shard stops another one."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from time import monotonic, sleep

import pytest

from apportion.shards.records import SetKeys, ShardRecord
from apportion.shards.round.shard_commands import LONGEST_LINE_BYTES, ShardCommands
from apportion.stores import api
from apportion.stores.catalog import connect
from tests.console.running import COMMAND, refused, run
from tests.shards.sample import SET, Files

SHARDS = ("a", "b", "c")
SECRET = "h%75sh"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("each"), shards=SHARDS)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def each(files, folder, *arguments):
    return run("shards", "each", files.url, SET, *arguments, folder=folder)


def test_each_line_stands_under_the_id_of_its_shard(made, folder):
    script = 'echo "$SHARD_ID"; echo "$SHARD_URL" >&2; printf end'
    done = each(made, folder, "--", "sh", "-c", script)
    lines = [f"{shard} | {text}" for shard in SHARDS for text in (shard, "end")]
    assert [*lines, f"shards each: {SET}: 3 of 3 shards succeeded"] == done.stdout.decode().splitlines()
    assert [f"{shard} | {made.place(shard)}" for shard in SHARDS] == done.stderr.decode().splitlines()
    assert 0 == done.returncode


def test_a_shard_that_fails_costs_itself_and_is_named(made, folder):
    script = "case $SHARD_ID in a) exit 3;; b) kill -9 $$;; esac; echo done"
    done = each(made, folder, "--parallel", "2", "--", "sh", "-c", script)
    assert 1 == done.returncode
    assert ["c | done", "- a: exit code 3", "- b: ended by SIGKILL"] == done.stdout.decode().splitlines()[:3]
    assert done.stdout.endswith(b": 1 of 3 shards succeeded; failed: a, b\n")


def test_json_has_an_object_for_each_line_and_each_end(made, folder):
    done = each(made, folder, "--json", "--", "sh", "-c", '[ $SHARD_ID != b ] && echo "$SHARD_ID"')
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [("a", "a"), ("c", "c")] == [(one["shard"], one["text"]) for one in found if "text" in one]
    ends = [(one["shard"], one["code"], one["problem"]) for one in found if "code" in one]
    assert [("a", 0, ""), ("b", 1, "exit code 1"), ("c", 0, "")] == ends
    assert {"shards each"} == {one["command"] for one in found}


def test_an_option_after_the_hyphens_belongs_to_the_command(made, folder):
    done = each(made, folder, "--", "echo", "--json", "--parallel", "9")
    assert b"a | --json --parallel 9\n" in done.stdout


@contextmanager
def replaced(files, shard, value):
    """Let the record of a shard have another value for a block."""

    async def put(value):
        store = await connect(files.url)
        try:
            key = SetKeys(SET).shard(shard)
            (item,) = (await store.scan(key)).items
            await store.commit(
                when=[api.Unchanged(key=key, revision=item.revision)], puts=[api.Put(key=key, value=value)]
            )
        finally:
            await store.close()

    asyncio.run(put(value))
    try:
        yield
    finally:
        asyncio.run(put(files.shards[shard].encode()))


def test_a_secret_is_in_the_environment_of_its_command_alone(made, folder, monkeypatch):
    record = ShardRecord(url="postgresql://ann:${EACH_SECRET}@nowhere/shop")
    with replaced(made, "b", record.encode()):
        monkeypatch.setenv("EACH_SECRET", SECRET)
        done = each(made, folder, "--", "sh", "-c", 'echo "$SHARD_URL" >$SHARD_ID; exit 1')
        assert f"postgresql://ann:{SECRET}@nowhere/shop\n" == (folder / "b").read_text()
        assert SECRET not in f"{done}"
        monkeypatch.delenv("EACH_SECRET")
        done = each(made, folder, "--", "echo", "it runs")
    assert ["a", "c"] == [line[0] for line in done.stdout.decode().splitlines() if line.endswith("it runs")]
    assert b"- b: environment variable EACH_SECRET is None, expected a value for a shard's URL" in done.stdout
    assert 1 == done.returncode


def test_a_record_that_nobody_can_read_costs_its_shard(made, folder):
    with replaced(made, "b", b'{"format":1}'):
        done = each(made, folder, "--", "true")
    assert done.stdout.decode().splitlines()[0].startswith(f"- b: record shards/{SET}/shard/b: field ")
    assert done.stdout.endswith(b": 2 of 3 shards succeeded; failed: b\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "command is '', expected a command and its arguments.\nWrite it after two hyphens: apportion shards each"),
        (("--", "no-such-program"), "command is 'no-such-program', expected a program that can be run"),
        (("--parallel", "0", "--", "touch", "ran"), "--parallel is 0, expected a whole number of 1 to 64"),
        (("--parallel", "65", "--", "touch", "ran"), "--parallel is 65"),
        (("--parallel", "two", "--", "touch", "ran"), "--parallel is 'two', expected a whole number"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(made, folder, arguments, message):
    assert message in refused(each(made, folder, *arguments))
    assert [] == [*folder.iterdir()]


def test_a_set_that_does_not_exist_is_named(made, folder):
    assert "set is 'moon'" in refused(run("shards", "each", made.url, "moon", "--", "true", folder=folder))


def taken(command, *, shards=("a",), parallel=1):
    """Run a command for records without a database; return its lines and ends."""
    told = []
    records = {shard: ShardRecord(url="sqlite:///no.db") for shard in shards}
    commands = ShardCommands(command, records, parallel=parallel, told=lambda *line: told.append(line))
    asyncio.run(commands.run())
    return told, commands.ends


def test_a_long_line_comes_in_pieces_and_bytes_that_are_no_text_are_escaped():
    size = 3 * LONGEST_LINE_BYTES
    told, _ = taken((sys.executable, "-c", f"import sys; sys.stdout.buffer.write(b'x' * {size} + b'\\n\\xff\\r\\n')"))
    *pieces, last = [text for _, text, _ in told]
    assert size == sum(map(len, pieces))
    assert all(len(piece) <= 2 * LONGEST_LINE_BYTES for piece in pieces)
    assert "\\xff" == last


def test_a_command_that_loses_its_program_is_named():
    _, (end,) = taken(("/nowhere/program",))
    assert (None, "the command cannot be started: No such file or directory") == (end.code, end.problem)


def test_an_error_of_the_caller_stops_the_other_commands():
    def told(*_):
        raise BrokenPipeError

    records = {shard: ShardRecord(url="sqlite:///no.db") for shard in SHARDS}
    commands = ShardCommands(("sh", "-c", "echo a; sleep 60"), records, parallel=2, told=told)
    began = monotonic()
    with pytest.raises(BrokenPipeError):
        asyncio.run(commands.run())
    assert monotonic() - began < 30
    assert "not begun" == commands.ends[2].problem


@pytest.mark.slow
def test_a_process_that_outlives_its_command_keeps_no_shard_waiting():
    began = monotonic()
    told, ends = taken(("sh", "-c", "sleep 30 & echo begun"), shards=SHARDS, parallel=3)
    assert monotonic() - began < 15
    assert [0, 0, 0] == [end.code for end in ends]
    assert 3 == len(told)


def started(files, folder, script, *options):
    """Start the command in a process of its own, and wait until the first shard runs."""
    words = [*COMMAND, "shards", "each", files.url, SET, *options, "--", "sh", "-c", script]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = monotonic() + 30
    while not (folder / "begun").exists() and monotonic() < until:
        sleep(0.02)
    assert (folder / "begun").exists()
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_the_command_under_way_to_end_and_begins_no_other(made, folder, number):
    process = started(made, folder, 'trap "echo bye; exit 5" TERM; touch begun; while :; do sleep 0.1; done')
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert 128 + number == process.returncode
    assert ["a | bye", "- a: exit code 5", "- b: not begun", "- c: not begun"] == out.decode().splitlines()[:4]


@pytest.mark.slow
def test_a_second_signal_kills_a_command_that_does_not_end(made, folder):
    process = started(made, folder, 'trap "" TERM; touch begun; while :; do sleep 0.1; done', "--parallel", "3")
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert 128 + signal.SIGINT == process.returncode
    assert out.decode().count("ended by SIGKILL") == 3


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_commands(made, folder):
    script = "touch begun; while :; do echo more; sleep 0.05; done"
    process = started(made, folder, script)
    process.stdout.close()
    assert 1 == process.wait(30)
    assert b"Traceback" not in process.stderr.read()
