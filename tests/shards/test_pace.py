"""The pace of a move: rates over ten seconds, the time that is left, and the time without progress."""

from dataclasses import replace

import pytest

from apportion.shards.admin.pace import paced
from apportion.shards.admin.status import MoveStatus


def reading(state="copying", copied=None, lag=None, **more):
    return MoveStatus(id="a-000", state=state, source="one", target="two", slots=4, copied=copied, lag=lag, **more)


def told(*readings):
    """Return the pace of a move after readings at given times."""
    paces = {}
    for at, move in readings:
        paces = paced(paces, [move], at)
    return paces["a-000"]


def test_one_reading_has_no_rate_and_no_guess():
    pace = told((100.0, reading(copied=500, rows=900)))
    assert (None, None, 0.0) == (pace.rows_per_second, pace.seconds_left, pace.idle_seconds)


def test_two_readings_have_a_rate_and_the_time_that_is_left():
    pace = told((100.0, reading(copied=500, rows=900)), (102.0, reading(copied=700, rows=900)))
    assert (100.0, 2.0, 0.0) == (pace.rows_per_second, pace.seconds_left, pace.idle_seconds)


def test_the_time_that_is_left_is_unknown_without_rows_or_without_a_rate():
    assert told((0.0, reading(copied=0)), (1.0, reading(copied=10))).seconds_left is None
    halted = told((0.0, reading(copied=10, rows=90)), (1.0, reading(copied=10, rows=90)))
    assert (0.0, None, 1.0) == (halted.rows_per_second, halted.seconds_left, halted.idle_seconds)


def test_rows_that_writers_add_make_no_negative_time():
    assert 0.0 == told((0.0, reading(copied=10, rows=20)), (1.0, reading(copied=25, rows=20))).seconds_left


def test_a_rate_forgets_readings_older_than_ten_seconds():
    slow = [(float(at), reading(copied=at)) for at in range(20)]
    fast = [(20.0 + at, reading(copied=20 + 100 * at)) for at in range(11)]
    assert 1.0 == told(*slow).rows_per_second
    assert 100.0 == told(*slow, *fast).rows_per_second


def test_readings_far_apart_still_have_a_rate():
    assert 2.0 == told((0.0, reading(copied=0)), (60.0, reading(copied=120))).rows_per_second


def test_a_copy_has_a_rate_and_a_later_state_has_none():
    pace = told((0.0, reading(copied=0)), (1.0, reading("catching-up", copied=10)))
    assert (None, None) == (pace.rows_per_second, pace.seconds_left)


@pytest.mark.parametrize(
    ("first", "second", "idle"),
    [
        (reading(copied=5), reading(copied=5), 9.0),
        (reading(copied=5), reading(copied=6), 0.0),
        (reading(copied=5, lag=7), reading(copied=5, lag=2), 9.0),  # writers log and undo nothing while rows are copied
        (reading("catching-up", copied=0, lag=7), reading("catching-up", copied=0, lag=6), 0.0),
        (reading("catching-up", copied=0, lag=7), reading("catching-up", copied=0, lag=8), 9.0),
        (reading("catching-up", copied=0, lag=7), reading("verified", copied=0, lag=7), 0.0),
        (reading("switched", copied=0), reading("switched", copied=0), 9.0),
        (reading("copying", copied=5), reading("copying", problem="two does not answer"), 9.0),
        (reading("complete"), reading("complete"), None),
        (reading(copied=5, wish="pause"), reading(copied=5, wish="pause"), None),
        (reading("switched", copied=0, wish="pause"), reading("switched", copied=0, wish="pause"), 9.0),
        (reading("aborted", copied=0), reading("aborted", copied=0), 9.0),
        (reading("copying", problem="denied"), reading("copying", problem="denied"), None),
    ],
)
def test_progress_is_a_new_state_one_more_row_or_a_shorter_lag(first, second, idle):
    assert idle == told((1.0, first), (10.0, second)).idle_seconds


def test_a_move_that_falls_back_from_its_fence_again_and_again_makes_no_progress():
    states = [("catching-up", 5), ("verified", 4), ("fenced", 3)] + [
        (state, lag) for _ in range(30) for state, lag in (("catching-up", 6), ("verified", 4), ("fenced", 3))
    ]
    pace = told(*((float(at), reading(state, copied=9, lag=lag)) for at, (state, lag) in enumerate(states)))
    assert 90.0 == pace.idle_seconds


def test_a_move_that_goes_on_after_a_rest_is_idle_from_then_on():
    paused = [(float(at), reading(copied=5, wish="pause")) for at in range(0, 600, 60)]
    assert 0.0 == told(*paused, (600.0, reading(copied=5))).idle_seconds
    assert 30.0 == told(*paused, (600.0, reading(copied=5)), (630.0, reading(copied=5))).idle_seconds


def test_a_reversed_move_makes_progress_from_its_first_state_on():
    back = replace(reading("planned", copied=0), source="two", target="one")
    paces = [(0.0, reading("complete", copied=9)), (50.0, back), (60.0, replace(back, state="copying"))]
    assert [0.0, 0.0] == [told(*paces[:count]).idle_seconds for count in (2, 3)]
    assert 5.0 == told(*paces, (65.0, replace(back, state="copying"))).idle_seconds


def test_a_move_that_a_reading_lacks_is_left_out():
    assert {} == paced(paced({}, [reading()], 0.0), [], 1.0)
