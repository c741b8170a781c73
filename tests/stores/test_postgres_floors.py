"""The low position of a lane moves once no transaction from before its mark runs, and not earlier."""

import pytest

from apportion.stores.postgres.tasks.floors import Floors
from apportion.stores.task_values import LANES

NOBODY_WAITS = [None for _ in LANES]


@pytest.mark.parametrize(("oldest_open", "low"), [(6, 0), (7, 10), (8, 10)])
def test_a_rescan_begins_after_the_floor_of_a_mark_once_all_older_transactions_have_ended(oldest_open, low):
    floors = Floors()
    floors.claimed(["q"], NOBODY_WAITS, {("q", 2): 10})
    floors.rescanned(["q"], NOBODY_WAITS, oldest_open=5, mark=7, now=0.0, took=0.0)
    floors.rescanned(["q"], NOBODY_WAITS, oldest_open=oldest_open, mark=9, now=2.0, took=0.0)
    _, lanes, positions = floors.places(["q"], is_rescan=True)
    assert low == dict(zip(lanes, positions, strict=True))[2]


def test_the_low_position_stays_before_a_task_that_is_still_ready():
    floors = Floors()
    floors.claimed(["q"], NOBODY_WAITS, {("q", 2): 10})
    left = [4 if lane == 2 else None for lane in LANES]
    for mark in (7, 9):
        floors.rescanned(["q"], left, oldest_open=mark, mark=mark, now=0.0, took=0.0)
    _, lanes, positions = floors.places(["q"], is_rescan=True)
    assert 3 == dict(zip(lanes, positions, strict=True))[2]
