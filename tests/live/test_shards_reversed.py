"""Movers are killed on the way back of moves, while eight writers write: nothing written after a switch is lost.

A reversible move switches, writers write to its target for a while, and a mover is killed at each of its stop points on
the way back. Afterwards only the ledgers and the shards are read. No chunk of rows is copied on the way back. Between
servers `APPORTION_GROUP_RUNS=500` asks for all points, and `make test` takes every third.
"""

import os
import time
from bisect import bisect
from contextlib import closing

import pytest

from tests.live.shard_verdict import read_shard, verdict
from tests.live.test_shards_killed import EVERY, WRITERS, Movers
from tests.live.writer_processes import servers, writing
from tests.shards.sample import Files

pytestmark = [pytest.mark.live, pytest.mark.crowded, pytest.mark.timeout(900)]

FEW_WRITERS = 2
REST_SECONDS, LEAST_AFTER_SWITCH, LONGEST_PAUSE_SECONDS = 0.5, 100, 1.0
STEPS = [
    "reverse", "prepare", "record", "apply-log", "verify", "record", "intent", "fence", "drain", "announce", "switch",
    "settle", "settle", "record", "uncapture",
]  # fmt: skip
POINTS = [f"{step}.{side}" for step in STEPS for side in ("before", "after")]
MISSED = 4  # a log may be short, and a drained one has no step


def test_no_write_after_a_switch_is_lost_when_movers_are_killed_on_the_way_back(tmp_path, record_property):
    check(Files(tmp_path), record_property, os.environ, os.environ)


@pytest.mark.parametrize("channel", ["keys", pytest.param("native", marks=pytest.mark.soak)])
def test_none_is_lost_on_the_way_back_between_servers_either(tmp_path, record_property, monkeypatch, channel):
    with servers(tmp_path, monkeypatch) as (files, user, owner):
        check(files, record_property, user, owner, channel, every=EVERY)


def test_none_is_lost_on_the_way_back_of_a_native_move(tmp_path, record_property, monkeypatch):
    """The rows come by logical replication, and go back by a log of keys. Nobody is killed."""
    with servers(tmp_path, monkeypatch) as (files, user, owner):
        with (
            writing("tests.live.shard_writers", files, FEW_WRITERS, user),
            closing(Movers(files, moving(files)[::2], owner, "native")) as movers,
        ):
            move = there(movers)
            assert "complete" == movers.order(move, wish="back")
            end(movers, move)
        judge(files, record_property, movers)


def moving(files):
    """Return the slots of shard one."""
    return [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot ORDER BY slot")]


def check(files, record_property, user, owner, channel="keys", *, every=1):
    """Kill movers on the way back beside writers at every point, or at one in `every`, and judge."""
    points = POINTS[::every]
    with (
        writing("tests.live.shard_writers", files, WRITERS, user),
        closing(Movers(files, moving(files), owner, channel)) as movers,
    ):
        come_back(movers, points)
    record_property("figures", f"kill points on the way back on {files.kind} ({channel}): {len(movers.kills)}")
    judge(files, record_property, movers)
    assert len(movers.kills) >= len(points) - MISSED


def judge(files, record_property, movers):
    """Judge the ledgers, the rows, and the moves."""
    result = verdict(files.folder, [read_shard(files, shard) for shard in ("one", "two")])
    found = ways_back(files.folder, result.times)
    record_property("acknowledged", result.acknowledged)
    record_property("ways_back", f"{found}")
    assert ({"lost": 0, "stale": 0, "resurrected": 0, "owned_twice": 0}, []) == (result.harm, movers.left)
    assert sum(written for written, _, _ in found.values()) >= LEAST_AFTER_SWITCH
    assert [0] * len(found) == [chunks for _, chunks, _ in found.values()]
    *_, pause = [pause for _, _, pause in found.values()]
    assert pause <= LONGEST_PAUSE_SECONDS or os.getloadavg()[0] > os.cpu_count()


def come_back(movers, points):
    """Kill movers at each point of a way back, and begin another one where a point is not reached; then kill none."""
    move = there(movers)
    for point in points:
        if movers.order(move, point, wish="back") == "complete":
            end(movers, move)
            move = there(movers)
    for _ in range(2):
        while movers.order(move, wish="back") != "complete":
            pass
        end(movers, move)
        move = there(movers)
    end(movers, move)


def there(movers):
    """Make a move that can be reversed. Return it after a while in which writers write to its target."""
    move = movers.move()
    assert "complete" == movers.order(move, wish="there")
    time.sleep(REST_SECONDS)
    return move


def end(movers, move):
    """Delete all that is left of a move."""
    while movers.order(move) != "over":
        pass


def ways_back(folder, times):
    """Return, for each move that went back: the writes on its target, its chunks after that, and its last pause."""
    found, switched, fenced = {}, {}, {}
    for line in (folder / "points").read_text().splitlines():
        move, label, at = line.split()
        if label == "switch.after" and move not in found:
            switched[move] = float(at)
        elif label == "reverse.after":
            found.setdefault(move, [bisect(times, float(at)) - bisect(times, switched[move]), 0, None])
        elif move in found and label == "chunk.before":
            found[move][1] += 1
        elif move in found and label == "fence.before":
            fenced[move] = float(at)
        elif move in found and label == "switch.after":
            found[move][2] = float(at) - fenced[move]
    return found
