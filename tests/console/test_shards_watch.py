"""`apportion shards status --watch`: a line for each change in a pipe, a screen on a terminal, until Ctrl-C."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import threading
from types import SimpleNamespace

import pytest

from apportion.console.print import live
from apportion.console.shards.pace_report import pace_line
from apportion.shards import admin
from apportion.shards.admin.pace import paced
from apportion.shards.admin.status import MoveStatus
from apportion.shards.admin.watch import SetWatch
from tests.console.grouping import eventually
from tests.console.running import COMMAND, refused, run
from tests.console.test_group_top import read
from tests.console.test_shards import URL
from tests.console.test_shards_moves import made


class Cut(Exception):
    """The end of a mover."""


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return made(tmp_path)


def begin(step):
    """Begin to move all slots of a shard, and end the mover after a step."""

    def cut(event):
        if event.step == step:
            raise Cut

    plan = asyncio.run(admin.plan(URL, "world", weights={"one": 0.0}))
    with pytest.raises(Cut):
        asyncio.run(admin.apply(URL, "world", plan, observer=cut))
    return plan.moves[0].move


def watched(monkeypatch, world, acts, *options):
    """Run the command. In the pauses between its readings, do the acts one after another; then comes Ctrl-C."""
    due = iter(acts)

    def sleep(seconds):
        assert 0.25 == seconds
        act = next(due, None)
        if act is None:
            raise KeyboardInterrupt
        act()

    monkeypatch.setattr(live, "time", SimpleNamespace(sleep=sleep))
    done = run("shards", "status", URL, "world", "--watch", "--every", "0.25s", *options, folder=world)
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout.decode().splitlines()


def _nothing():
    """Let a reading come without a change."""


def test_each_change_has_a_line_in_a_pipe(world, monkeypatch):
    acts = [
        _nothing,
        lambda: begin("verify"),
        lambda: asyncio.run(admin.pause(URL, "world")),
        _nothing,
        lambda: asyncio.run(admin.apply(URL, "world")),
    ]
    lines = watched(monkeypatch, world, acts)
    steps = [line for line in lines if line.startswith(("one: ", "two: "))]
    assert ["one: draining", "two: moving", "one: soaking", "two: soaking"] == [
        line[: line.index(":", 5)] for line in steps
    ]
    assert all("; next: apportion shards " in line for line in steps)
    table, begun, paused, table_after, complete = [line for line in lines if line not in steps]
    assert re.fullmatch(r"world: version \d+:1: one 32 slots, two 32 slots", table)
    assert re.fullmatch(r"\w+-000 one -> two: catching-up, (.) of (\1|\?) rows, lag 0, attempt 1, paused 0 ms", begun)
    assert "catching-up (pause), " in paused
    assert re.fullmatch(r"world: version \d+:2: one 0 slots, two 64 slots", table_after)
    assert re.fullmatch(r"\w+-000 one -> two: complete, lag 0, attempt \d+, paused \d+ ms", complete)


def test_a_move_that_is_over_has_a_last_line(world, monkeypatch):
    move = begin("chunk")
    lines = watched(monkeypatch, world, [lambda: asyncio.run(admin.abort(URL, "world"))])
    over = lines.index(f"{move}: over")
    left = "one: draining: weight 0, 32 slots left; next: apportion shards drain URL world one"
    assert [left, "two: clean: 32 slots, and no move"] == lines[over + 1 :]


def test_each_change_is_an_object_of_its_own_with_json(world, monkeypatch):
    acts = [_nothing, lambda: begin("chunk"), lambda: asyncio.run(admin.pause(URL, "world"))]
    before, begun, *_, paused = map(json.loads, watched(monkeypatch, world, acts, "--json"))
    assert ("shards status", "world", []) == (before["command"], before["set"], before["moves"])
    [move] = begun["moves"]
    assert ("copying", None, None, 0.0) == (
        move["state"], move["rows_per_second"], move["seconds_left"], move["idle_seconds"]
    )  # fmt: skip
    assert [("pause", None)] == [(each["wish"], each["idle_seconds"]) for each in paused["moves"]]


def test_the_rows_of_a_move_are_counted_beside_the_readings(world, monkeypatch):
    begin("chunk")
    monkeypatch.setattr(live, "time", SimpleNamespace(sleep=lambda _: None))
    seen = []

    def tell(found):
        seen.append([pace.move.rows for pace in found.paces])
        if seen[-1] != [None]:
            raise KeyboardInterrupt

    watch = SetWatch(URL, "world")
    live.tell_live(lambda: asyncio.run(watch.read()), tell)
    rows = {each.id: each.rows for each in asyncio.run(admin.status(URL, "world", has_rows=True)).shards}
    assert ([None], [rows["one"]]) == (seen[0], seen[-1])


def test_a_line_tells_the_rate_the_time_left_and_the_reason_of_a_silent_shard():
    moves = [
        MoveStatus(id="a-000", state="copying", source="one", target="two", slots=4, copied=copied, rows=9_000, lag=3)
        for copied in (0, 1_500)
    ]
    [pace] = paced(paced({}, moves[:1], 0.0), moves[1:], 10.0).values()
    said = "copying, 1500 of 9000 rows, 150 rows/s, 50 s left, lag 3, attempt 1, paused 0 ms"
    assert f"a-000 one -> two: {said}" == pace_line(pace)
    silent = MoveStatus(id="a-000", state="copying", source="one", target="two", slots=4, problem="two is away")
    [pace] = paced({"a-000": pace}, [silent], 400.0).values()
    said = "copying, ? of ? rows, 150 rows/s, lag ?, attempt 1, paused 0 ms, idle for 6 min 30 s, two is away"
    assert f"a-000 one -> two: {said}" == pace_line(pace)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--every", "2s"), "--every is '2s', expected --watch with it"),
        (("--watch", "--every", "0s"), "expected a time above 0"),
        (("--watch", "--every=-1s"), "--every is '-1s', expected a time above 0"),
    ],
)
def test_a_mistake_is_told_before_the_first_reading(tmp_path, options, said):
    assert said in refused(run("shards", "status", "sqlite:///nowhere.db", "world", *options, folder=tmp_path))


@pytest.mark.slow
def test_the_screen_follows_the_move_until_ctrl_c(world):
    ours, theirs = pty.openpty()
    seen, wide = bytearray(), {**os.environ, "TERM": "xterm", "COLUMNS": "140"}
    words = [*COMMAND, "shards", "status", URL, "world", "--watch", "--every", "0.1s"]
    process = subprocess.Popen(words, cwd=world, stdout=theirs, env=wide)
    os.close(theirs)
    threading.Thread(target=read, args=(ours, seen), daemon=True).start()
    eventually(lambda: b"shards status: world in" in seen)
    begin("verify")
    eventually(lambda: re.search(rb"one -> two +catching-up +\d of \d", seen))
    process.send_signal(signal.SIGINT)
    assert 0 == process.wait(20)
