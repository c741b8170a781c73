"""The explorer finds nothing in the move of a slot, and a short story where one of its rules is gone."""

import pytest

from apportion.shards import reshard, slot_rows
from models import reshard as model
from models.__main__ import FULL_MOVES, SMALL_MOVES
from models.explorer import Explorer
from models.move_world import MoveBounds, Row
from models.reshard import Reshard


def explored(**bounds):
    return Explorer(Reshard(MoveBounds(**{**dict.fromkeys(MoveBounds._fields, 0), "writes": 1, **bounds}))).run()


def told(report):
    return report.broken.partition(":")[0] or ("stuck" if report.stuck else "nothing")


@pytest.mark.slow
@pytest.mark.parametrize("bounds", SMALL_MOVES, ids=str)
def test_nothing_is_found_in_a_move(bounds):
    report = Explorer(Reshard(bounds)).run()
    assert ("", 0) == (report.broken, report.stuck)
    assert report.states > 1_000


@pytest.mark.soak
@pytest.mark.parametrize("bounds", FULL_MOVES, ids=str)
def test_nothing_is_found_in_a_move_with_a_fault_of_each_kind(bounds):
    report = Explorer(Reshard(bounds)).run()
    assert ("", 0) == (report.broken, report.stuck)
    assert report.states >= 300_000


def test_a_source_that_opens_before_the_record_says_aborted_is_found(monkeypatch):
    shipped = reshard.next_act

    def opened_first(found):
        is_fenced = found.record.state == "fenced" and found.source.state == "fenced"
        return reshard.MoveAct(label="unfence") if is_fenced and found.wish == "abort" else shipped(found)

    monkeypatch.setattr(model, "next_act", opened_first)
    assert "S1" == told(explored(aborts=1, movers=1))


def test_a_retreat_that_opens_the_source_before_the_record_is_found(monkeypatch):
    shipped = reshard.next_act

    def opened_first(found):
        is_fenced = found.record.state == "fenced" and found.source.state == "fenced"
        return reshard.MoveAct(label="unfence") if is_fenced and found.is_late else shipped(found)

    monkeypatch.setattr(model, "next_act", opened_first)
    assert told(explored(retreats=1, movers=1)) in ("S1", "S2")


def test_a_switch_that_leaves_the_record_untouched_is_found(monkeypatch):
    recorded = model._recorded

    def untouched(state, sent):
        after = recorded(state, sent)
        if sent.act.label != "switch":
            return after
        return state._replace(names=after.names)

    monkeypatch.setattr(model, "_recorded", untouched)
    assert told(explored(aborts=1, movers=1)) in ("S1", "S2", "S4")


def accepting(monkeypatch, **changed):
    """Let shards decide by a changed rule: `owner` and `incoming` say whether a writer with a number is accepted."""

    def accepts(row, version):
        if row is None or row.state not in ("owner", "incoming"):
            return False
        known = row.number is not None and version is not None and row.number <= version
        rules = {
            "owner": version is None or row.number is None or known,
            "incoming": known,
            "bare": False,
        } | {name: rule(row, version) for name, rule in changed.items()}
        return rules[row.state] or (row.state == "incoming" and version is None and rules["bare"])

    monkeypatch.setattr(slot_rows, "accepts", accepts)


def test_the_rule_of_these_tests_is_the_shipped_one(monkeypatch):
    shipped = slot_rows.accepts
    accepting(monkeypatch)
    rows = [None, *(Row(state, number).row for state in ("owner", "fenced", "moved", "incoming") for number in (0, 2))]
    for row in rows:
        for version in (None, *map(model.version, (1, 2, 3))):
            assert shipped(row, version) == slot_rows.accepts(row, version)


def test_an_incoming_slot_that_ignores_the_number_is_found_by_the_oldest_table(monkeypatch):
    accepting(monkeypatch, incoming=lambda row, version: row.number is not None and version is not None)
    assert "nothing" == told(explored())
    assert "S1" == told(explored(retreats=1))  # a retreat opens the source, and the target has its number still


def test_an_incoming_slot_without_a_number_that_accepts_is_found(monkeypatch):
    accepting(monkeypatch, incoming=lambda row, version: version is not None)
    assert "S1" == told(explored())


def test_a_bare_writer_that_an_incoming_slot_accepts_is_found(monkeypatch):
    accepting(monkeypatch, bare=lambda row, version: True)
    assert "S1" == told(explored())


def test_capture_that_begins_after_the_first_chunk_is_found(monkeypatch):
    def late(found):
        if not found.is_copied:
            return reshard.MoveAct(label="chunk")
        return reshard._to(found, "catching-up") if found.is_captured else reshard.MoveAct(label="capture")

    monkeypatch.setattr(
        reshard, "_NEXT", {**reshard._NEXT, "prepared": lambda found: reshard._to(found, "copying"), "copying": late}
    )
    assert "S2" == told(explored())


def test_a_copier_that_shows_no_token_is_found(monkeypatch):
    lands, copier = model.lands, ("chunk", "apply-log")

    def unguarded(state, sent):
        after = lands(state, sent._replace(token=99) if sent.act.label in copier else sent)
        return after._replace(late=state.late)  # no lock of a guard makes them wait

    monkeypatch.setattr(model, "lands", unguarded)
    assert "S2" == told(explored(movers=1))
