"""The explorer finds nothing in the hand-over of a lane of keys, and a short story where one of its locks is gone."""

import pytest

from apportion.groups.holdings import Holdings
from apportion.stores import task_ledger
from apportion.stores.lanes import tokens
from apportion.work.lanes.lane_holds import LaneHolds
from models.__main__ import FULL_LANES, SMALL_LANES, main
from models.explorer import Explorer
from models.lane_parts import LaneBounds
from models.lanes import Lanes

LARGEST = SMALL_LANES[0]


def explored(**bounds):
    return Explorer(Lanes(LaneBounds(**bounds))).run()


@pytest.mark.slow
def test_nothing_is_found_in_a_lane_whose_two_stores_each_end_a_session():
    report = Explorer(Lanes(LARGEST)).run()
    assert ("", 0) == (report.broken, report.stuck)
    assert report.states >= 100_000


@pytest.mark.slow
@pytest.mark.parametrize("bounds", SMALL_LANES[1:], ids=str)
def test_nothing_is_found_in_a_lane(bounds):
    report = Explorer(Lanes(bounds)).run()
    assert ("", 0) == (report.broken, report.stuck)
    assert report.states > 2_000


def told(report):
    return report.broken.partition(":")[0], len(report.trace)


def test_without_the_compare_of_tokens_a_former_owner_takes_the_lane_back(monkeypatch):
    monkeypatch.setattr(tokens, "accepts", lambda *_: True)
    assert ("LaneTokensGrow", 9) == told(explored(flips=1))


def test_without_the_deadline_of_the_group_a_former_owner_still_calls_a_lane_its_own(monkeypatch):
    monkeypatch.setattr(Holdings, "is_current", True)
    assert "OwnerIsServed" == told(explored(flips=1, group_cuts=1))[0]


def test_without_a_hold_a_lane_is_given_away_under_a_running_task(monkeypatch):
    monkeypatch.setattr(LaneHolds, "_held", lambda _, claim: claim)
    assert ("LaneWaits", 7) == told(explored(flips=1))


def test_without_the_index_of_open_claims_two_tasks_of_a_key_are_claimed_at_once(monkeypatch):
    def first_of_the_unclaimed(tasks):
        first = {}
        for task in tasks:
            if task.session is None:
                first.setdefault(task.new.key, task.id)
        return {*first.values()}

    monkeypatch.setattr(task_ledger, "are_first", first_of_the_unclaimed)
    assert ("OneOfAKey", 7) == told(explored())


def test_without_the_order_of_a_key_a_later_task_is_claimed_first(monkeypatch):
    monkeypatch.setattr(task_ledger, "are_first", lambda tasks: {max(tasks, key=lambda task: task.position).id})
    assert "KeyInOrder" == told(explored())[0]


def test_a_hold_that_is_not_released_at_the_end_of_its_task_keeps_the_lane(monkeypatch):
    monkeypatch.setattr(LaneHolds, "release", lambda *_: None)
    assert "Converge" == told(explored(flips=1))[0]


def test_a_hold_that_nobody_can_cancel_is_told_at_the_drain_time_out(monkeypatch):
    monkeypatch.setattr(Holdings, "cancel", lambda *_: None)
    assert "DrainEnds" == told(explored(flips=1))[0]


def test_a_lane_that_claims_the_tasks_of_a_live_session_is_told(monkeypatch):
    def retaken(ledger, worker, *_):
        for task in [each for each in ledger.by_position() if each.session not in (None, worker.session)]:
            yield ledger.take(task, worker.session)

    monkeypatch.setattr(task_ledger.TaskLedger, "_retaken", retaken)
    assert ("RetakenOnlyAfterTheEnd", 9) == told(explored(flips=1))


def test_the_full_bounds_of_lanes_hold_the_small_ones():
    def holds(full, small):
        return all(larger >= smaller for larger, smaller in zip(full, small, strict=True))

    assert [] == [small for small in SMALL_LANES if not any(holds(full, small) for full in FULL_LANES)]


def test_the_command_explores_a_lane_alone(capsys):
    assert 0 == main(["--lanes", "0,1"])
    assert capsys.readouterr().out.startswith("a lane of keys, 1 group cuts, 1 keys; ")


@pytest.mark.parametrize("text", ["", "1,x", "1,-1", "1,1,1,1,1,1,1,1"])
def test_bounds_of_lanes_that_are_none_are_refused(text, capsys):
    with pytest.raises(SystemExit):
        main([f"--lanes={text}"])
    assert "expected one to seven numbers" in capsys.readouterr().err
