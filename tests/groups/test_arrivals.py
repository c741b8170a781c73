"""Arrivals: when a controller may level, after members have come."""

from apportion.groups.controller.arrivals import LONGEST_SECONDS, STILL_SECONDS, Arrivals


def test_looks_that_find_no_change_leave_a_group_still():
    arrivals = Arrivals(2.0)
    arrivals.look("a", 0.0)
    for second in range(1, int(STILL_SECONDS) + 2):
        arrivals.look("a", float(second))
    now = STILL_SECONDS + 2
    arrivals.look("ab", now)
    assert now == arrivals.levels_at


def test_members_that_keep_coming_are_levelled_after_the_longest_wait():
    arrivals, now = Arrivals(2.0), 0.0
    arrivals.look(["m0"], now)
    first, number = now, 1
    while now < arrivals.levels_at and now < 2 * LONGEST_SECONDS:
        now, number = now + 1.0, number + 1
        arrivals.look([f"m{each}" for each in range(number)], now)
    assert first + LONGEST_SECONDS == now


def test_a_member_that_leaves_makes_nobody_wait():
    arrivals = Arrivals(2.0)
    arrivals.look("ab", 0.0)
    before = arrivals.levels_at
    arrivals.look("a", 1.0)
    assert before == arrivals.levels_at


def test_as_long_as_nobody_has_come_nothing_waits():
    arrivals = Arrivals(2.0)
    arrivals.look("", 0.0)
    assert arrivals.levels_at < 0.0
