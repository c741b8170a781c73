"""Holdings: what may be worked on now, and when the work on what was lost has ended."""

import os
import signal
import sys
from contextlib import suppress
from functools import partial

import pytest

from apportion.errors import InvalidInput, NotOwner
from apportion.groups.holdings import GroupChange, Holdings
from apportion.model.epoch import FencingToken


class Clock:
    now = 0.0

    def elapsed(self):
        return self.now


def token(partition, epoch=1):
    return FencingToken(resource=f"g/{partition}", holder="me", incarnation=1, epoch=epoch)


@pytest.fixture
def quiet():
    return []


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def holdings(clock, quiet):
    made = Holdings(clock, quiet=lambda partitions: quiet.extend(sorted(partitions)), told=lambda: None)
    made.deadline = 10.0
    made.grant({1: token(1), 2: token(2)})
    return made


def test_nothing_is_ours_past_the_deadline_and_all_is_again_when_it_was_confirmed_late(holdings, clock):
    held = holdings[1]
    clock.now = 10.0
    assert ([], 0, None) == (list(holdings), len(holdings), holdings.get(1))
    with pytest.raises(NotOwner, match="not confirmed"):
        holdings.enter(1)
    holdings.deadline = 20.0
    assert held is holdings[1]


def test_items_and_values_are_of_one_moment_and_survive_a_loss(holdings, clock):
    items, values = holdings.items(), holdings.values()
    holdings.withdraw([1])
    assert ([1, 2], [1, 2]) == ([each for each, _ in items], [int(held.token.resource[-1]) for held in values])
    assert [2] == [each for each, _ in holdings.items()]
    clock.now = 10.0
    assert ([], []) == (list(holdings.items()), list(holdings.values()))


def test_a_partition_that_is_not_ours_cannot_be_held(holdings):
    with pytest.raises(NotOwner, match="partition 3 is not ours"):
        holdings.enter(3)


def test_what_is_lost_is_quiet_at_once_when_nobody_works_on_it(holdings, quiet):
    holdings.withdraw([1])
    assert ([1], [2]) == (quiet, list(holdings))


def test_what_is_lost_is_quiet_when_the_last_hold_on_it_has_ended(holdings, quiet):
    (_, first), (_, second) = holdings.enter(1), holdings.enter(1)
    holdings.withdraw([1])
    holdings.leave(first)
    assert [] == quiet
    holdings.leave(second)
    assert [1] == quiet
    with pytest.raises(NotOwner):
        holdings.enter(1)


def told(holdings):
    """Take what there is to tell."""
    change = holdings.next_change()
    if change is not None:
        holdings.tell(change)
    return change


def test_what_was_gained_is_told_once_it_may_be_worked_on(holdings, clock):
    holdings.consume()
    clock.now = 10.0
    assert None is told(holdings)
    holdings.withdraw([2])
    holdings.confirm(20.0)
    assert GroupChange(gained=(1,), lost=()) == told(holdings)


def test_a_lapse_is_told_as_a_loss_and_what_goes_on_as_a_gain_after_the_work_on_it(holdings, clock, quiet):
    holdings.consume()
    told(holdings)
    held, (_, hold) = holdings[1], holdings.enter(1)
    clock.now = 10.0
    assert GroupChange(gained=(), lost=(1, 2)) == told(holdings)
    assert None is told(holdings)
    holdings.confirm(20.0)
    assert GroupChange(gained=(2,), lost=()) == told(holdings)
    assert None is told(holdings)
    holdings.leave(hold)
    assert GroupChange(gained=(1,), lost=()) == told(holdings)
    assert None is told(holdings)
    assert ([], held) == (quiet, holdings[1])


def test_a_lapse_that_was_over_before_anybody_looked_is_told_too(holdings, clock):
    holdings.consume()
    told(holdings)
    clock.now = 10.0
    holdings.confirm(20.0)
    assert [GroupChange(gained=(), lost=(1, 2)), GroupChange(gained=(1, 2), lost=())] == [
        told(holdings),
        told(holdings),
    ]


def test_what_was_lost_for_good_in_a_lapse_is_lost_once_and_then_quiet(holdings, clock, quiet):
    holdings.consume()
    told(holdings)
    clock.now = 10.0
    told(holdings)
    holdings.withdraw([1, 2])
    holdings.confirm(20.0)
    assert (None, [1, 2]) == (told(holdings), quiet)


def test_who_consumes_after_another_hears_of_all_that_is_ours(holdings):
    holdings.consume()
    told(holdings)
    holdings.abandon()
    holdings.consume()
    assert GroupChange(gained=(1, 2), lost=()) == told(holdings)


def test_what_is_lost_is_quiet_when_the_consumer_has_asked_for_the_next_change(holdings, quiet):
    holdings.consume()
    gained = holdings.next_change()
    assert GroupChange(gained=(1, 2), lost=()) == gained
    assert holdings.tell(gained)
    holdings.withdraw([1])
    lost = holdings.next_change()
    assert GroupChange(gained=(), lost=(1,)) == lost
    assert [] == quiet
    holdings.tell(lost)
    assert [] == quiet
    assert None is holdings.next_change()
    assert [1] == quiet


def test_a_change_that_was_not_delivered_comes_again(holdings, quiet):
    holdings.consume()
    holdings.tell(holdings.next_change())
    holdings.withdraw([2])
    assert holdings.next_change() == holdings.next_change() == GroupChange(gained=(), lost=(2,))
    assert [] == quiet


def test_a_consumer_never_hears_of_what_came_and_went(holdings, quiet):
    holdings.consume()
    holdings.withdraw([1])
    assert ([1], GroupChange(gained=(2,), lost=())) == (quiet, holdings.next_change())


def test_a_consumer_that_goes_away_stands_in_nobodys_way(holdings, quiet):
    holdings.consume()
    holdings.tell(holdings.next_change())
    holdings.withdraw([1])
    holdings.tell(holdings.next_change())
    holdings.abandon()
    assert [1] == quiet


def test_there_is_one_consumer(holdings):
    holdings.consume()
    with pytest.raises(InvalidInput, match=r"consumer of changes\(\)"):
        holdings.consume()
    holdings.abandon()
    holdings.consume()


def test_untouched_partitions_keep_their_very_holding(holdings):
    held = holdings[2]
    holdings.withdraw([1])
    holdings.grant({3: token(3)})
    assert held is holdings[2]


def test_only_holds_on_the_partition_are_cancelled(holdings):
    cancelled = []
    holdings.enter(1, lambda: cancelled.append(1))
    holdings.enter(2, lambda: cancelled.append(2))
    holdings.cancel(2)
    assert [2] == cancelled
    holdings.cancel()
    assert [2, 1, 2] == cancelled


def test_the_oldest_hold_is_known(holdings, clock):
    assert None is holdings.oldest()
    clock.now = 3.0
    holdings.enter(2)
    clock.now = 4.0
    holdings.enter(1)
    assert (3.0, 2) == holdings.oldest()


def test_a_hold_that_rests_keeps_its_partition_and_is_not_the_oldest(holdings, clock, quiet):
    (_, first), _ = holdings.enter(1), holdings.enter(2)
    clock.now = 3.0
    first.rest()
    assert (0.0, 2) == holdings.oldest()
    holdings.withdraw([1, 2])
    assert [] == quiet
    with first.at_work():
        clock.now = 4.0
        assert [(0.0, 2), (3.0, 1)] == sorted((hold.since, hold.partition) for hold in holdings._holds)
    assert float("inf") == first.since
    holdings.leave(first)
    assert [1] == quiet


def test_a_child_that_was_forked_ends_its_blocks_and_touches_nothing(holdings, quiet):
    _, hold = holdings.enter(1)
    holdings.consume()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        holdings.leave(hold)
        change = holdings.next_change()
        holdings.abandon()
        os._exit(0 if change is None and not quiet else 1)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    holdings.abandon()
    holdings.leave(hold)
    holdings.withdraw([1])
    assert ([1], [2]) == (quiet, list(holdings))


def in_the_middle_of(work, finalizer, at):
    """Run some work, and a finalizer before its line number `at` in the file of holdings; whether there was such."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        if not frame.f_code.co_filename.endswith(("groups/holdings.py", "groups/open_holds.py")):
            return None
        if event == "line":
            lines += 1
            if lines == at:
                sys.settrace(None)
                finalizer()
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return lines >= at


def ended(holdings, hold):
    holdings.leave(hold)


def begun_and_ended(holdings, hold):
    with suppress(NotOwner):
        holdings.leave(holdings.enter(2)[1])


def abandoned(holdings, hold):
    holdings.abandon()


def asked(holdings, hold):
    holdings.cancel()
    assert holdings.oldest() is not None or not holdings._holds
    assert not holdings.all_quiet or not dict(holdings)


@pytest.mark.parametrize("finalizer", [ended, begun_and_ended, abandoned, asked])
def test_a_finalizer_may_call_in_at_every_line_and_what_is_lost_is_quiet_once_it_is_done_and_not_before(finalizer):
    at = 0
    while True:
        at += 1
        quiet = []
        holdings = Holdings(Clock(), quiet=quiet.extend, told=lambda: None)
        holdings.deadline = 10.0
        _consumed(holdings)
        _, hold = holdings.enter(1)
        others = []

        def work(holdings=holdings, quiet=quiet, others=others):
            told(holdings)
            others.append(holdings.enter(2)[1])
            holdings.withdraw([1, 2])
            assert 2 not in quiet, "its hold is open"
            holdings.leave(others[0])
            told(holdings)
            holdings.grant({1: token(1, 2)})

        calls_in = partial(finalizer, holdings, hold)
        was_there = in_the_middle_of(work, calls_in, at)
        if not was_there:
            calls_in()
        holdings.withdraw([1])
        if finalizer is not ended:
            assert 1 not in quiet
            holdings.leave(hold)
        holdings.abandon()
        assert {1, 2} == set(quiet)
        assert holdings.all_quiet
        if not was_there:
            assert at > 50
            return


def _consumed(holdings):
    holdings.grant({1: token(1), 2: token(2)})
    holdings.consume()
    told(holdings)


def test_what_is_withdrawn_at_any_line_of_the_beginning_of_a_hold_waits_for_it_or_it_does_not_begin():
    at, was_there, outcomes = 0, True, set()
    while was_there:
        at += 1
        quiet, holds = [], []
        holdings = Holdings(Clock(), quiet=quiet.extend, told=lambda: None)
        holdings.deadline = 10.0
        holdings.grant({1: token(1)})

        def work(holdings=holdings, holds=holds):
            with suppress(NotOwner):
                holds.append(holdings.enter(1)[1])

        was_there = in_the_middle_of(work, partial(holdings.withdraw, [1]), at)
        outcomes.add((bool(holds), bool(quiet)))
        assert bool(quiet) == (was_there and not holds)
        for hold in holds:
            holdings.leave(hold)
    assert {(True, False), (False, True)} == outcomes


def test_what_is_withdrawn_at_any_line_of_telling_it_waits_for_the_consumer_or_the_consumer_does_not_have_it():
    at, was_there, outcomes = 0, True, set()
    while was_there:
        at += 1
        quiet = []
        holdings = Holdings(Clock(), quiet=quiet.extend, told=lambda: None)
        holdings.deadline = 10.0
        holdings.grant({1: token(1)})
        holdings.consume()
        change = holdings.next_change()
        was_there = in_the_middle_of(partial(holdings.tell, change), partial(holdings.withdraw, [1]), at)
        is_told, was_quiet = holdings._tellings.waits_for(1), bool(quiet)
        outcomes.add((is_told, was_quiet))
        assert was_quiet == (was_there and not is_told)
    assert {(True, False), (False, True)} == outcomes


def test_each_change_of_what_may_be_worked_on_wakes_the_consumer(clock):
    woken = []
    made = Holdings(clock, quiet=lambda _: None, told=lambda: woken.append(1))
    for number, change in enumerate(
        (lambda: made.confirm(1.0), lambda: made.grant({1: token(1)}), lambda: made.withdraw([1])), start=1
    ):
        change()
        assert number == len(woken)
    made.confirm(2.0)
    assert len(woken) == 3  # it had not lapsed: nothing is new
