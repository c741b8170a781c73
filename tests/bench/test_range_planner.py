"""The goals of the planners of ranges, on small replays."""

import pytest

from bench.figures import range_planner

TEN_MINUTES = 600


@pytest.mark.parametrize("seed", range(3))
def test_a_zipf_load_with_hot_neighbours_is_even_after_three_splits(seed):
    first, splits, _, _, ratio = range_planner.even_after(4, are_ordered=True, seed=seed)
    assert first > 2.9
    assert (True, True) == (ratio <= range_planner.MOST_RATIO, splits <= range_planner.MOST_SPLITS)


def test_no_change_is_undone_in_two_days_and_nights_though_ranges_split_merge_and_move():
    fleet, _ = range_planner.replayed(4 * 3600, days=2, seed=1, turn_seconds=TEN_MINUTES)
    counts = fleet.counts
    assert (0, 0) == (counts.undone, counts.returns)
    assert min(counts.splits, counts.merges, counts.moves) > 0


def test_with_short_windows_the_replay_finds_changes_that_were_undone():
    fleet, _ = range_planner.replayed(TEN_MINUTES, days=1, seed=1, turn_seconds=TEN_MINUTES)
    assert fleet.counts.undone + fleet.counts.returns > 0
