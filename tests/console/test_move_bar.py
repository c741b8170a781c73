"""The bar of `shards apply`: the rows that were copied, their rate and the time that is left, by the mover's clock."""

import io
import sys

import pytest

pytest.importorskip("sqlalchemy")

from apportion.console.shards.made_report import print_made
from apportion.console.shards.move_bar import MoveBar
from apportion.shards.admin import MoveEvent, MovesMade
from apportion.shards.move_group import MoveGroup

FIRST = MoveGroup(move="a-000", source="one", target="two", slots=(1, 2))
SECOND = MoveGroup(move="a-001", source="one", target="three", slots=(3,))


def event(step, at, *, group=FIRST, state="copying", copied=0, lag=0, why=""):
    return MoveEvent(group=group, state=state, step=step, at=at, copied=copied, lag=lag, why=why)


def taken(*events):
    bar = MoveBar({"a-000": 300, "a-001": 100}, is_shown=False)
    for each in events:
        bar.take(each)
    return bar


def test_the_line_says_share_rate_time_left_and_lag():
    last = event("chunk", 12.0, copied=200, lag=7)
    line = taken(event("list", 10.0), last).line(last)
    assert "██████████░░░░░░░░░░  50%  200 of 400 rows, 100 rows/s, 2 s left, lag 7, one -> two: copying" == line


def test_a_second_move_adds_to_the_first_and_rows_do_not_go_back():
    events = [event("chunk", 12.0, copied=300), event("switch", 13.0), event("chunk", 14.0, group=SECOND, copied=50)]
    assert "350 of 400 rows, 175 rows/s" in taken(*events).line(events[-1])


def test_a_wait_is_told_with_its_reason_first_for_the_line_is_cut():
    last = event("waits", 1.0, why="two does not answer")
    assert "waits: two does not answer" == taken(last).line(last)


def test_a_wait_is_told_without_a_terminal_once_for_each_reason_and_again_after_a_while(capsys):
    taken(*(event("waits", float(at), why="locked") for at in range(40)), event("waits", 40.0, why="full"))
    assert ["waits: locked", "waits: locked", "waits: full"] == capsys.readouterr().err.splitlines()


def test_a_wait_for_a_transaction_is_told_once_though_its_age_grows(capsys):
    taken(*(event("waits", float(at), why=f"process 7 of dump for {at} s") for at in range(20)))
    assert ["waits: process 7 of dump for 0 s"] == capsys.readouterr().err.splitlines()


def test_the_pause_is_the_time_from_the_fence_to_the_switch(capsys):
    bar = taken(event("fence", 2.0), event("drain", 2.1), event("switch", 2.25), event("fence", 3.0, group=SECOND))
    assert (0.25, None) == (bar.moves["a-000"].pause, bar.moves["a-001"].pause)
    print_made("apply", "world", MovesMade(moves=("a-000",), is_whole=False), bar)
    shown = capsys.readouterr().out
    assert "250 ms" in shown
    assert "shards apply: world: 1 moves; another process has paused or aborted the rest" in shown


class Broken(io.StringIO):
    """A stream to a pipe that was closed."""

    def write(self, _):
        raise BrokenPipeError


def test_a_wait_that_cannot_be_told_does_not_end_the_move(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Broken())
    bar = taken(event("waits", 1.0, why="locked"), event("fence", 2.0), event("switch", 2.25))
    assert 0.25 == bar.moves["a-000"].pause
