"""Deaths: how long a partition waits for its next owner, and which sessions count."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apportion.groups.crash_loops import HEALTHY_SECONDS, KEPT_DEATHS, LONGEST_WAIT_SECONDS, wait_seconds, with_death


def test_two_deaths_cost_nothing_and_each_more_doubles_the_wait_up_to_a_minute():
    waits = [wait_seconds(deaths) for deaths in range(1, 12)]
    assert [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60] == waits
    assert all(after <= LONGEST_WAIT_SECONDS and after in (0, 1, 60, 2 * before) for before, after in pairwise(waits))


@given(st.lists(st.integers(1, 40), max_size=30), st.sets(st.integers(1, 40)))
def test_the_list_holds_the_last_sessions_in_a_row_that_died(sessions, lived):
    ended = ()
    for session in sessions:
        ended = with_death(ended, session, lasted_seconds=1.0, lived=lived)
    first_seen = list(dict.fromkeys(session for session in sessions if session not in lived))
    assert len(ended) <= KEPT_DEATHS
    assert not lived & {*ended}
    assert len(set(ended)) == len(ended)
    if len(first_seen) <= KEPT_DEATHS:
        assert tuple(first_seen) == ended


@given(st.lists(st.integers(1, 40), max_size=9, unique=True), st.integers(1, 50))
def test_a_minute_of_service_clears_the_list(ended, session):
    assert () == with_death(tuple(ended), session, lasted_seconds=HEALTHY_SECONDS, lived=())
