"""The status of a set tells how far each move is, and for how long writers waited for it."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from apportion.shards import admin
from apportion.shards.mover.records import MoveEntry
from apportion.shards.reshard import MoveRecord
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role


class Cut(Exception):
    """The end of a mover."""


def act(name, files, *words, **options):
    return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))


def slots_of(files, shard):
    return sorted(slot for (slot,) in files.sql(shard, "SELECT slot FROM apportion_slot WHERE state = 'owner'"))


def insert(files, slots):
    """Write one row into each of some slots of the first shard, beside the sessions."""
    made = "gen_random_uuid()" if files.kind == "postgresql" else "lower(hex(randomblob(16)))"
    for slot in slots:
        row = f"INSERT INTO place (slot, id, country, visits) VALUES (?, {made}, 'FR', 1)"
        files.sql("one", row, (slot,))


def cut_after(files, step, slots):
    """Begin to move slots, and end the mover after a step. The observer is called before another step begins."""
    plan = act("plan", files, slots=slots, to="two")

    def cut(event):
        if event.step == step:
            raise Cut

    with pytest.raises(Cut):
        act("apply", files, plan, observer=cut)
    return plan


@pytest.fixture
def files(kind, make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    return make_set(kind)


def test_a_move_tells_its_rows_and_the_changes_that_wait_for_the_target(files):
    slots = slots_of(files, "one")[:4]
    insert(files, slots * 5)
    cut_after(files, "verify", slots)
    insert(files, slots[:3])
    [plain] = act("status", files).moves
    assert ("catching-up", 1, "go") == (plain.state, plain.attempt, plain.wish)
    assert (None, None, None) == (plain.rows, plain.copied, plain.lag)
    assert plain.since > 0
    [move] = act("status", files, has_rows=True, has_progress=True).moves
    assert (23, 20, 3, "") == (move.rows, move.copied, move.lag, move.problem)
    act("pause", files)
    assert ["pause"] == [each.wish for each in act("status", files).moves]
    heard = []
    act("apply", files, observer=lambda event: heard.append((event.step, event.at)))
    [over] = act("status", files, has_progress=True).moves
    assert ("complete", 0) == (over.state, over.lag)
    assert over.attempt == 1 + sum(step == "retreat" for step, _ in heard)
    assert 0 < over.pause_seconds < heard[-1][1] - heard[0][1]


def test_a_shard_out_of_reach_is_named_with_its_reason(files):
    slots = slots_of(files, "one")[:2]
    cut_after(files, "chunk", slots)
    if files.kind == "postgresql":
        files.rig.sql(f"DROP DATABASE {files.name('two')} WITH (FORCE)", database="postgres")
    else:
        (files.folder / "two.db").unlink()
    found = act("status", files, has_rows=True, has_progress=True)
    assert {"one": True, "two": False} == {each.id: each.rows is not None for each in found.shards}
    assert ["", True] == [found.shards[0].problem, "two" in found.shards[1].problem]
    [move] = found.moves
    assert (0, None, None, True) == (move.rows, move.copied, move.lag, "two" in move.problem)
    if files.kind == "postgresql":
        files.rig.sql(f"CREATE DATABASE {files.name('two')}", database="postgres")  # the end of the module drops it


def test_only_the_time_of_a_fence_is_a_pause():
    entry = MoveEntry(group=SimpleNamespace(), record=MoveRecord(state="planned"), since=100.0)
    for state, now in (("verified", 110.0), ("fenced", 111.0), ("catching-up", 111.5), ("fenced", 120.0)):
        entry = entry.changed(MoveRecord(state=state), now)
    assert (120.0, 0.5) == (entry.since, entry.pause_seconds)
    assert 0.75 == entry.changed(MoveRecord(state="switched"), 120.25).pause_seconds
    assert 0.5 == entry.changed(MoveRecord(state="switched"), 119.0).pause_seconds  # a clock that was set back
    assert entry == replace(entry.wished("pause"), wish="go")
