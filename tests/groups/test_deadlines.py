"""Patience: first the work is cancelled, then the session is given up; each once."""

from hypothesis import given
from hypothesis import strategies as st

from apportion.groups.life.deadlines import Deadlines
from apportion.groups.opening import Options
from apportion.groups.view.records import GroupRecord, MemberRecord


def patience(**given):
    record, member = GroupRecord(partitions=3), MemberRecord(nonce="")
    times = {"drain_seconds": 5.0, "ttl_seconds": 2.0} | given
    return Deadlines(Options(group="g", record=record, member_id="a", member=member, **times))


def test_work_is_cancelled_after_the_drain_and_the_session_given_up_a_time_to_live_later():
    waiting = patience()
    waiting.lost([1, 2], 10.0)
    assert 15.0 == waiting.wakes_at(None)
    assert () == waiting.to_cancel(14.9)
    assert (1, 2) == waiting.to_cancel(15.0)
    assert ((), None, 17.0) == (waiting.to_cancel(16.9), waiting.verdict(None, 16.9), waiting.wakes_at(None))
    assert "forced: work on partition 1 goes on after its drain" == waiting.verdict(None, 17.0)
    assert (None, float("inf")) == (waiting.verdict(None, 18.0), waiting.wakes_at(None))


def test_work_that_ends_in_time_has_no_consequence():
    waiting = patience()
    waiting.lost([1], 0.0)
    waiting.ended([1])
    assert ((), float("inf")) == (waiting.to_cancel(99.0), waiting.wakes_at(None))
    waiting.lost([1], 0.0)
    waiting.to_cancel(5.0)
    waiting.ended([1])
    assert None is waiting.verdict(None, 99.0)


def test_a_hold_that_is_open_for_too_long_is_stuck():
    waiting = patience(progress_seconds=30.0)
    assert 130.0 == waiting.wakes_at((100.0, 7))
    assert None is waiting.verdict((100.0, 7), 129.9)
    assert "stuck: work on partition 7 makes no progress" == waiting.verdict((100.0, 7), 130.0)
    waiting.renew()
    assert "stuck: work on partition 7 makes no progress" == waiting.verdict((100.0, 7), 140.0)


def test_holds_that_all_rest_are_never_stuck():
    waiting = patience(progress_seconds=30.0)
    resting = (float("inf"), 7)
    assert (None, float("inf")) == (waiting.verdict(resting, 9999.0), waiting.wakes_at(resting))


@given(st.floats(0, 1e7), st.floats(0.01, 100))
def test_what_it_wakes_for_is_so_then_to_the_last_bit(since, seconds):
    waiting = patience(progress_seconds=seconds)
    assert waiting.verdict((since, 7), waiting.wakes_at((since, 7))) is not None


def test_work_that_is_left_from_a_former_session_has_no_consequence_in_the_next():
    waiting = patience()
    waiting.lost([1], 0.0)
    assert (1,) == waiting.to_cancel(5.0)
    waiting.lost([2], 5.0)
    waiting.renew()
    assert ((), None, float("inf")) == (waiting.to_cancel(99.0), waiting.verdict(None, 99.0), waiting.wakes_at(None))
    waiting.lost([1], 99.0)
    assert 104.0 == waiting.wakes_at(None)


def test_a_partition_that_is_lost_again_while_its_work_goes_on_gets_no_more_time():
    waiting = patience()
    waiting.lost([1], 0.0)
    waiting.lost([1], 3.0)
    assert 5.0 == waiting.wakes_at(None)
    assert (1,) == waiting.to_cancel(5.0)
    waiting.lost([1], 6.0)
    assert 7.0 == waiting.wakes_at(None)
    assert () == waiting.to_cancel(99.0)
