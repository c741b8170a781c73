"""The machine of a move: its acts in order, where a killed mover goes on, and how a retreat and an abort end."""

from dataclasses import replace
from itertools import pairwise

import pytest

from apportion.shards.reshard import BEFORE_SWITCH, MoveAct, MoveRecord, MoveView, next_act
from apportion.shards.slot_rows import SlotRow, accepts, written
from models.move_world import TARGET, MoveBounds, Sent, version
from models.reshard import Reshard, _reversed, _written, lands

NEWEST = version(7)


def walk(state, *, until=()):
    """Yield each act of a mover that nothing disturbs, with the state after it."""
    while (act := next_act(state.found())) is not None and act.label not in until:
        state = lands(state, Sent(act, 1, state.revision, state.values[0], state.way == "back"))
        yield act, state


def said(act):
    return f"{act.label} {act.record.state}" if act.record else act.label


def first():
    return Reshard(MoveBounds()).initial


def test_a_move_that_nothing_disturbs_does_each_act_once():
    acts = [said(act) for act, _ in walk(first())]
    assert [
        "prepare",
        "record prepared",
        "capture",
        "record copying",
        "chunk",
        "record catching-up",
        "verify",
        "record verified",
        "record fenced",
        "fence",
        "announce",
        "switch switched",
        "settle-source",
        "settle-target",
        "record complete",
        "uncapture",
        "clean-batch",
        "record cleaned",
        "release",
    ] == acts


def states():
    """Return the states between the acts of a move that nothing disturbs."""
    return [first(), *(state for _, state in walk(first()))]


@pytest.mark.parametrize("place", range(len(states())))
def test_an_abort_before_the_switch_leaves_nothing_and_a_later_one_changes_nothing(place):
    state = states()[place]._replace(is_aborting=True)
    *_, (_, end) = [(None, state), *walk(state)]
    if state.state in BEFORE_SWITCH:
        assert ("aborted", "owner", False) == (end.state, end.source.state, end.captured[0])
        assert end.target is None or end.target.state == "moved"
    else:
        assert ("cleaned", "moved") == (end.state, end.source.state)


def reversible():
    return Reshard(MoveBounds(reverses=1)).initial


def back():
    """Return the state at the begin of the way back, after a write to the target."""
    *_, complete = (state for act, state in walk(reversible()) if act.label == "uncapture")
    return _reversed(_written(complete, TARGET))


def test_a_reversible_move_logs_on_its_target_before_the_fence_and_until_the_clean_up():
    acts = [said(act) for act, _ in walk(reversible())]
    assert ["verify", "capture-back", "record verified", "record fenced", "fence"] == acts[6:11]
    ends = ["uncapture", "forgo complete", "clean-batch", "uncapture-back", "record cleaned", "release"]
    assert ends == acts[-6:]


def test_the_way_back_copies_no_chunk_and_does_each_act_once():
    acts = [said(act) for act, _ in walk(back())]
    assert [
        "prepare",
        "record catching-up",
        "verify",
        "record verified",
        "record fenced",
        "fence",
        "apply-log",
        "announce",
        "switch switched",
        "settle-source",
        "settle-target",
        "record complete",
        "uncapture",
        "clean-batch",
        "record cleaned",
        "release",
    ] == acts


@pytest.mark.parametrize("place", range(9))
def test_an_abort_on_the_way_back_leaves_the_slot_where_it_is_and_no_old_row(place):
    state = [back(), *(state for _, state in walk(back()))][place]._replace(is_aborting=True)
    *_, (_, end) = walk(state)
    assert ("aborted", "owner", "moved") == (end.state, end.source.state, end.target.state)
    assert ((1, 0), (False, False), False) == (end.values, end.captured, end.is_listed)


def test_an_abort_leaves_no_log_on_the_target_of_a_reversible_move():
    states = [state for act, state in walk(reversible()) if act.label in ("capture-back", "announce")]
    for state in states:
        *_, (_, end) = walk(state._replace(is_aborting=True))
        assert ("aborted", (False, False)) == (end.state, end.captured)


def test_a_retreat_opens_the_source_only_after_the_record_and_then_tries_again():
    state = next(state for act, state in walk(first()) if act.label == "fence")._replace(is_late=True)
    acts = [said(act) for act, _ in walk(state)]
    assert ["record catching-up", "unfence", "verify", "record verified", "record fenced", "fence"] == acts[:6]
    assert ["record cleaned", "release"] == acts[-2:]
    assert 2 == [state.attempt for _, state in walk(state)][-1]


def test_a_retreat_after_the_announcement_withdraws_it_first():
    state = next(state for act, state in walk(first()) if act.label == "announce")._replace(is_late=True)
    assert ["record", "unfence", "withdraw"] == [act.label for act, _ in walk(state)][:3]


def test_a_fence_does_not_wait_for_an_empty_log_but_for_a_short_one():
    state = next(state for act, state in walk(first()) if act.label == "chunk")
    found = replace(state.found(), record=MoveRecord(state="catching-up"), is_drained=False)
    assert "verify" == next_act(replace(found, is_near=True)).label
    assert "apply-log" == next_act(replace(found, is_near=False)).label


def test_rows_that_were_not_compared_in_this_attempt_are_compared_under_the_fence():
    state = next(state for act, state in walk(first()) if act.label == "fence")
    assert "verify" == next_act(replace(state.found(), is_verified=False)).label


@pytest.mark.parametrize("place", range(len(states())))
def test_a_paused_move_leaves_no_fence_and_does_nothing_else(place):
    state, acts = states()[place], []
    while (act := next_act(replace(state.found(), wish="pause"))) is not None:
        state = lands(state, Sent(act, 1, state.revision, state.values[0]))
        acts.append(said(act))
    assert state.source.state in ("owner", "moved")
    assert not {"capture", "chunk", "verify", "fence", "switch switched", "uncapture", "drop"} & set(acts)


@pytest.mark.parametrize("wish", ["go", "abort"])
@pytest.mark.parametrize("place", range(len(states())))
def test_while_the_target_is_away_the_source_is_opened_and_nothing_else_is_done(place, wish):
    state, acts = states()[place]._replace(is_late=True), []
    away = {"target": None, "is_target_away": True, "wish": wish}
    while (act := next_act(replace(state.found(), **away))) is not None:
        state = lands(state, Sent(act, 1, state.revision, state.values[0]))
        acts.append(said(act))
    assert state.source.state in ("owner", "moved")
    assert {"record catching-up", "record aborted", "unfence", "settle-source"} >= set(acts)


def test_another_publication_is_announced_anew():
    state = next(state for act, state in walk(first()) if act.label == "announce")
    state = state._replace(names=(*state.names, state.names[-1]))
    assert ["announce", "switch"] == [act.label for act, _ in walk(state)][:2]


def test_no_act_is_due_twice_in_a_row_once_it_is_done():
    for (act, _), (then, _) in pairwise(walk(first())):
        assert act != then


def test_every_state_of_the_record_has_a_next_act_for_all_that_can_be_found():
    rows = [
        None,
        *(SlotRow(state=state, number=number) for state in ("owner", "moved", "incoming") for number in (None, NEWEST)),
    ]
    for record in ("planned", "prepared", "copying", "catching-up", "verified", "fenced", "switched", "complete"):
        for source in (SlotRow(state="owner"), SlotRow(state="fenced"), SlotRow(state="moved")):
            for target in rows:
                found = MoveView(record=MoveRecord(state=record), newest=NEWEST, source=source, target=target)
                for wish in ("go", "abort"):
                    assert isinstance(next_act(replace(found, wish=wish)), MoveAct)


@pytest.mark.parametrize(
    ("row", "accepted"),
    [
        (None, []),
        (SlotRow(state="owner"), [None, 6, 7, 8]),
        (SlotRow(state="owner", number=NEWEST), [None, 7, 8]),
        (SlotRow(state="incoming"), []),
        (SlotRow(state="incoming", number=NEWEST), [7, 8]),
        (SlotRow(state="fenced", number=NEWEST), []),
        (SlotRow(state="moved", number=NEWEST), []),
    ],
    ids=str,
)
def test_a_shard_accepts_writers_by_the_state_and_the_number_of_the_row(row, accepted):
    callers = [None, 6, 7, 8]
    assert accepted == [each for each in callers if accepts(row, None if each is None else version(each))]


def test_an_older_life_of_the_store_comes_before_every_number_of_a_later_one():
    row = SlotRow(state="owner", number=replace(NEWEST, incarnation=2))
    assert not accepts(row, replace(NEWEST, number=99))


def test_the_first_write_keeps_the_number():
    assert SlotRow(state="owner", number=NEWEST) == written(SlotRow(state="incoming", number=NEWEST))


@pytest.mark.parametrize(
    ("way", "label"), [("one-way", "uncapture"), ("reversible", "uncapture"), ("back", "clean-back")]
)
def test_an_abort_deletes_old_rows_of_the_target_only_on_the_way_back(way, label):
    moved, owner = SlotRow(state="moved"), SlotRow(state="owner")
    record = MoveRecord(state="aborted", way=way)
    act = next_act(MoveView(record=record, newest=NEWEST, source=owner, target=moved, is_captured=True))
    assert MoveAct(label=label) == act
