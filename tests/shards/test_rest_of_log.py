"""A call that was cut off after the switch of a move left the log on its source: the next `apply` ends it."""

import asyncio

import pytest

from apportion.shards import admin
from apportion.shards.admin import carrier
from tests.shards.sample import SET, Files

LOGS = "SELECT name FROM sqlite_schema WHERE name GLOB 'apportion_*_logged_*' OR name = 'apportion_log'"


class Died(Exception):
    pass


def act(name, files, *words, **options):
    return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))


@pytest.fixture
def cut_off(tmp_path, monkeypatch):
    """A set, and the plan of one move that was cut off there."""

    def reached(label):
        if label == "uncapture.before":
            raise Died

    files = Files(tmp_path)
    plan = act("plan", files, weights={"two": 3})
    with monkeypatch.context() as death:
        death.setattr(carrier, "stop_point", lambda: reached)
        with pytest.raises(Died):
            act("apply", files, plan)
    assert ["complete"] == [each.state for each in act("status", files).moves]
    assert files.sql("one", LOGS)
    return files, plan


@pytest.mark.parametrize("is_in_pieces", [False, True])
def test_the_next_apply_ends_the_log_and_the_old_rows_stay(cut_off, is_in_pieces):
    files, plan = cut_off
    (move,) = plan.moves
    if is_in_pieces:  # The log ends in pieces. The first one ends the capture.
        files.sql("one", "INSERT INTO apportion_log (move, name) VALUES (?, 'place')", (move.move,))
        files.sql("one", "DELETE FROM apportion_capture")
    assert admin.MovesMade(moves=(move.move,)) == act("apply", files)
    assert [] == files.sql("one", LOGS)
    assert ["complete"] == [each.state for each in act("status", files).moves]
    assert admin.MovesMade(moves=()) == act("apply", files, plan)


def test_a_plan_goes_on_after_the_end_of_the_log_of_an_earlier_one(cut_off):
    files, _ = cut_off
    owned = [slot for slot, shard in act("status", files).table.owners.items() if shard == "one"]
    plan = act("plan", files, slots=owned[:4], to="two")
    made = act("apply", files, plan)
    assert (2, True) == (len(made.moves), made.is_whole)
    assert [] == files.sql("one", LOGS)


def test_a_source_that_is_gone_delays_no_other_move(cut_off, tmp_path):
    files, _ = cut_off
    (tmp_path / "one.db").rename(tmp_path / "away.db")
    assert admin.MovesMade(moves=()) == act("apply", files)
    assert not (tmp_path / "one.db").exists()
