"""A mover is killed at each of its stop points, while eight writers write: no acknowledged write is lost or comes back.

A move goes on under the next mover, which is killed at the next point, and so on. Moves go back and forth between two
files. Others are aborted or paused where they were killed. Afterwards only the ledgers and the files are read. Between
servers `APPORTION_GROUP_RUNS=500` asks for all points, and `make test` takes every third.
"""

import os
import subprocess
import sys
from bisect import bisect
from contextlib import closing
from itertools import count, repeat

import pytest

from tests.live.shard_movers import ELECTED
from tests.live.shard_verdict import read_shard, verdict
from tests.live.writer_processes import servers, writing
from tests.shards.sample import Files

WRITERS = 8
WINDOW_SECONDS, LEAST_ACKNOWLEDGED = 0.2, 50
COURSE = [
    "list", "prepare", "record", "capture", "record", "chunk", "chunk", "record", "verify", "record", "intent", "fence",
    "drain", "announce", "switch", "settle", "settle", "record", "uncapture", "clean-batch", "clean-batch", "record",
    "release",
]  # fmt: skip
POINTS = [f"{step}.{side}" for step in COURSE for side in ("before", "after")]
ABORTED_AT = [
    "list.after", "prepare.after", "capture.after", "chunk.after", "verify.after", "intent.after", "fence.after",
    "announce.after",
]  # fmt: skip
ABORT = [
    f"{step}.{side}"
    for step in ("abort-record", "unfence", "drop", "uncapture", "release")
    for side in ("before", "after")
]
PAUSE = [f"{step}.{side}" for step in ("retreat", "unfence", "withdraw") for side in ("before", "after")]
LEAST_KILLS, EVERY = {1: 60, 3: 30}, 1 if os.environ.get("APPORTION_GROUP_RUNS") == "500" else 3


class Movers:
    """The process that forks movers, and the orders to it. `is_elected`: each mover stands for election."""

    def __init__(self, files, slots, env, channel="keys", *, is_elected=False):
        places = [f"{shard}={files.place(shard)}" for shard in ("one", "two")]
        command = [sys.executable, "-m", "tests.live.shard_movers", files.url, str(files.folder), channel, *places]
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert "ready" == self._process.stdout.readline().strip()
        self._epochs, self._moves = repeat(ELECTED) if is_elected else count(1), count(1)
        self._slots, self._points = ",".join(map(str, slots)), files.folder / "points"
        self.kills, self.left, self.place = [], [], "one"

    def move(self):
        """Name a move of the slots to the other shard."""
        target = "two" if self.place == "one" else "one"
        return f"m{next(self._moves)} {self.place} {target} {self._slots}"

    def order(self, move, stops="-", wish="go"):
        """Run a mover; return its last word: killed, or the state of the move. It dies at the first of its stops."""
        self._process.stdin.write(f"{move} {next(self._epochs)} {wish} {stops}\n")
        self._process.stdin.flush()
        word, left = self._process.stdout.readline().strip().split(maxsplit=1)
        assert word != "failed", (move, stops, left)
        if word == "killed":
            self.kills.append(self._points.read_text().split()[-2])
        elif left != "-" and word == "over":
            self.left.append((move, left))
        return word

    def close(self):
        """Let the process end."""
        self._process.stdin.close()
        self._process.wait(30)


def climb(movers, points):
    """Kill movers at each point of a move; a point that is not reached ends the move, and the next one begins."""
    move = movers.move()
    for point in points:
        if movers.order(move, point) == "over":
            movers.place = move.split()[2]
            move = movers.move()
    while movers.order(move) != "over":
        pass
    movers.place = move.split()[2]


def abort(movers, stops):
    """Kill a mover at a point, and then abort the move, with kills on the way of the last one."""
    points = iter(ABORT)
    for stop in stops:
        move = movers.move()
        assert "killed" == movers.order(move, stop)
        while movers.order(move, next(points, "-") if stop == stops[-1] else "-", wish="abort") != "over":
            pass


def pause(movers):
    """Kill a mover under its fence, and then pause the move, with kills on the way; at last it goes on."""
    move = movers.move()
    assert "killed" == movers.order(move, "announce.after")
    for point in PAUSE:
        movers.order(move, point, wish="pause")
    assert "catching-up" == movers.order(move, wish="pause")
    assert "over" == movers.order(move)
    movers.place = move.split()[2]


def windows(folder, times):
    """Return, for each switch and each fence that was ended, the writes that were acknowledged beside it."""
    fenced, found = None, []
    for line in (folder / "points").read_text().splitlines():
        _, label, at = line.split()
        if label == "fence.before":
            fenced = float(at)
        elif label in ("switch.after", "unfence.after") and fenced is not None:
            before = bisect(times, fenced) - bisect(times, fenced - WINDOW_SECONDS)
            found.append((label, before, bisect(times, float(at) + WINDOW_SECONDS) - bisect(times, float(at))))
    return found


@pytest.mark.live
@pytest.mark.crowded
@pytest.mark.timeout(900)
def test_no_acknowledged_write_is_lost_when_the_mover_is_killed_at_any_point(tmp_path, record_property):
    check_killed(Files(tmp_path), record_property, os.environ, os.environ)


@pytest.mark.live
@pytest.mark.crowded
@pytest.mark.timeout(900)
@pytest.mark.parametrize("channel", ["keys", pytest.param("native", marks=pytest.mark.soak)])
def test_none_is_lost_between_servers_either(tmp_path, record_property, monkeypatch, channel):
    with servers(tmp_path, monkeypatch) as (files, user, owner):
        check_killed(files, record_property, user, owner, channel, every=EVERY)


def check_killed(files, record_property, user, owner, channel="keys", *, every=1):
    """Kill movers beside writers at every point, or at one in `every`, each with the environment of its role; judge."""
    tmp_path = files.folder
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot")]
    with (
        writing("tests.live.shard_writers", files, WRITERS, user),
        closing(Movers(files, slots, owner, channel)) as movers,
    ):
        climb(movers, POINTS[::every])
        abort(movers, ABORTED_AT[::-every][::-1])
        pause(movers)
    result = verdict(tmp_path, [read_shard(files, shard) for shard in ("one", "two")])
    around = windows(tmp_path, result.times)
    record_property("figures", f"kill points of movers on {files.kind} ({channel}): {len(movers.kills)}")
    record_property("acknowledged", result.acknowledged)
    record_property("around", f"{around}")
    assert {"lost": 0, "stale": 0, "resurrected": 0, "owned_twice": 0} == result.harm
    assert [] == movers.left
    assert len(movers.kills) >= LEAST_KILLS[every]
    assert result.acknowledged >= 2_000
    assert len(around) >= 4
    least = min(min(before, after) for _, before, after in around)
    if least < LEAST_ACKNOWLEDGED:
        reason = f"nothing was lost, but only {least} writes were acknowledged in {WINDOW_SECONDS} s beside a switch"
        assert os.getloadavg()[0] > os.cpu_count(), f"{reason}: {around}"
        pytest.skip(f"{reason}: the machine is busy")
