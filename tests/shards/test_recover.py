"""A control store is restored from a copy of any moment of a move: the shards know more, and nothing is lost."""

import asyncio
import random
import sqlite3
from contextlib import closing, suppress
from datetime import timedelta
from uuid import UUID

import pytest

import apportion
from apportion.errors import StoreUnavailable, StoreWentBack
from apportion.shards import admin
from apportion.shards.admin import carrier
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.recovery import moves_to_end, owner_in
from apportion.shards.reshard import MoveRecord
from apportion.shards.slot_rows import SlotRow
from apportion.stores.catalog import administration
from apportion.tables.layout import Version
from tests.shards.sample import SET, SLOTS, Base, Place
from tests.shards.server import OWNER, as_role

NOW = timedelta(0)
MOVED = range(0, SLOTS, 2)


class Died(Exception):
    pass


class History:
    """Calls of the stop point, counted: a copy of the control store at one of them, a death at another one."""

    def __init__(self, files, *, copied_at, dies_at):
        self.files, self.copied_at, self.dies_at, self.count, self.labels = files, copied_at, dies_at, 0, []

    def __call__(self, label):
        self.labels.append(label)
        self.count += 1
        if self.count == self.copied_at:
            copied(self.files)
        if self.count == self.dies_at:
            raise Died(label)


@pytest.fixture
def files(make_set, kind, monkeypatch):
    as_role(monkeypatch, OWNER)
    return make_set(kind)


def backup(path, copy):
    with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(copy)) as there:
        here.backup(there)


def copied(files):
    """Copy the control store while it is in use."""
    backup(files.folder / "control.db", files.folder / "copy.db")


def restored(files, *, is_told=True):
    """Put the copy in the place of the control store. A new file would tell the store of its restore by itself."""
    backup(files.folder / "copy.db", files.folder / "control.db")
    if is_told:
        asyncio.run(administration(files.url).restored())


def act(name, files, *words, **options):
    return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))


def write(files, numbers):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number in numbers:
            key = f"key-{number}"
            router.run(
                key, lambda session, key=key, number=number: session.add(Place(id=UUID(int=number), country=key))
            )


def rows(files):
    """Return the numbers of all rows in owned slots, as routers find them."""
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        found = []
        for number in range(60):
            with router.session(f"key-{number}") as session:
                found += [place.id.int for place in session.query(Place).filter_by(country=f"key-{number}")]
    return found


def is_sound(files):
    found = act("doctor", files, base=Base, is_whole=True)
    return act("verify", files, base=Base).is_sound and not [each for each in found if each.verdict == "error"]


def left(files):
    """Return what the shards still have of moves."""
    found = [(move.id, move.state, move.left_behind) for move in act("status", files, has_rows=True).moves]
    return found, act("verify", files, base=Base).left


def played(files, monkeypatch, *, copied_at, dies_at, is_reversed=False):
    """Move slots from one to two, and back if `is_reversed`, up to a death. Write rows, and restore the copy."""
    write(files, range(30))
    plan = act("plan", files, slots=list(MOVED), to="two")
    history = History(files, copied_at=copied_at, dies_at=dies_at)
    monkeypatch.setattr(carrier, "stop_point", lambda: history)
    with suppress(Died):
        made = act("apply", files, plan, is_reversible=is_reversed)
        if is_reversed:
            act("reverse", files, made.moves)
        act("clean", files, soak=NOW)
    monkeypatch.undo()
    as_role(monkeypatch, OWNER)
    if history.count < copied_at:
        copied(files)
    if writes_after(history):
        write(files, range(30, 45))
    restored(files)
    return history


def writes_after(history):
    """Whether writers go on after the death. A fence that stands would be opened by them."""
    return "fence" not in history.labels[-1]


def is_owned_once(files, monkeypatch, seed):
    """Play a history, kill the recovery too, and run it again."""
    draw, is_reversed = random.Random(seed), seed % 2 == 1
    longest = 100 if is_reversed else 60
    copied_at = draw.randint(1, longest - 20)
    dies_at = draw.randint(copied_at, longest)
    history = played(files, monkeypatch, copied_at=copied_at, dies_at=dies_at, is_reversed=is_reversed)
    monkeypatch.setattr(carrier, "stop_point", lambda: History(files, copied_at=0, dies_at=draw.randint(1, 8)))
    with suppress(Died):
        act("recover", files)
    monkeypatch.undo()
    as_role(monkeypatch, OWNER)
    assert () == act("recover", files).doubts
    assert [*range(45 if writes_after(history) else 30)] == rows(files)
    act("apply", files)
    act("clean", files, soak=NOW)
    assert ([], 0) == left(files)
    assert is_sound(files)
    write(files, range(45, 60))
    act("apply", files, act("plan", files, slots=list(MOVED), to="one"))
    act("clean", files, soak=NOW)
    assert ([], 0) == left(files)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_set_is_recovered_from_a_copy_of_any_moment(files, monkeypatch, seed):
    is_owned_once(files, monkeypatch, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 100))
def test_a_set_is_recovered_from_a_copy_of_a_hundred_moments(files, monkeypatch, seed):
    is_owned_once(files, monkeypatch, seed)


def version(files):
    return act("status", files).version


def test_a_set_that_is_well_is_left_alone(files):
    before = version(files)
    found = act("recover", files)
    assert (before, 0, (), ()) == (found.version, found.slots, found.moves, found.doubts)
    assert before == version(files)


def move_all(files):
    act("apply", files, act("plan", files, weights={"one": 0.0}))
    act("clean", files, soak=NOW)


def test_a_store_that_was_not_told_of_its_restore_is_refused(files):
    copied(files)
    move_all(files)
    restored(files, is_told=False)
    with pytest.raises(StoreWentBack, match="the table of set world went back: version") as refused:
        act("recover", files)
    assert "apportion store restored URL" in refused.value.hint
    asyncio.run(administration(files.url).restored())
    assert SLOTS // 2 == act("recover", files).slots
    assert is_owner_everywhere(files, "two")


def is_owner_everywhere(files, shard):
    return {shard} == set(act("status", files).table.owners.values())


def test_a_check_writes_nothing(files):
    copied(files)
    move_all(files)
    restored(files)
    before = version(files)
    found = act("recover", files, is_check=True)
    assert (before, SLOTS // 2) == (found.version, found.slots)
    assert before == version(files)
    assert not is_owner_everywhere(files, "two")


def test_a_slot_with_two_owners_or_none_is_named_and_nothing_is_written(files):
    copied(files)
    move_all(files)
    restored(files)
    before = version(files)
    files.state("one", 1, "owner")
    files.state("two", 2, "moved")
    found = act("recover", files)
    assert 2 == found.doubtful
    assert "slot 1: owner on one, owner on two" == found.doubts[0]
    assert found.doubts[1] in ("slot 2: moved on one, moved on two", "slot 2: no row on one, moved on two")
    assert before == version(files)


def test_a_key_that_was_pinned_after_the_copy_is_a_doubt(files):
    copied(files)
    act("pin", files, ["acme"], base=Base)
    restored(files)
    found = act("recover", files)
    assert (f"slot {SLOTS}: it belongs to a pinned key, and the table has no such key",) == found.doubts
    (advice,) = [each.advice for each in act("doctor", files) if f"unknown to the table: {SLOTS}" == each.found]
    assert "restore a newer copy" in advice


def test_a_shard_that_is_away_ends_a_recovery_before_anything_is_written(make_set):
    files = make_set("sqlite")
    copied(files)
    move_all(files)
    restored(files)
    before = version(files)
    (files.folder / "one.db").rename(files.folder / "away.db")
    with pytest.raises(StoreUnavailable, match="shard one is unavailable: no file at "):
        act("recover", files)
    assert not (files.folder / "one.db").exists()
    (files.folder / "away.db").rename(files.folder / "one.db")
    assert before == version(files)


@pytest.mark.parametrize(
    ("one", "two", "owner"),
    [
        ("owner", None, "one"),
        ("owner", "moved", "one"),
        ("owner", "incoming", "one"),
        ("fenced", "incoming", "one"),
        ("fenced", "owner", "two"),
        ("moved", "owner", "two"),
        ("moved", "incoming", "two"),
        ("owner", "owner", None),
        ("fenced", "fenced", None),
        ("moved", "moved", None),
        ("moved", None, None),
        (None, None, None),
    ],
)
def test_the_owner_of_a_slot_is_the_shard_that_may_have_the_newest_write(one, two, owner):
    number = Version(incarnation=1, number=2)
    rows = {
        shard: None if state is None else SlotRow(state=state, number=number)
        for shard, state in (("one", one), ("two", two))
    }
    assert owner == owner_in(rows)


def test_a_slot_that_waits_without_a_number_has_accepted_nothing_and_owns_nothing():
    assert owner_in({"one": SlotRow(state="moved"), "two": SlotRow(state="incoming")}) is None


def test_a_move_with_a_fence_that_its_target_has_outlived_is_settled_and_not_forgotten():
    rows = {"one": {1: SlotRow(state="fenced")}, "two": {1: SlotRow(state="owner")}}
    group = MoveGroup(move="m-1", source="one", target="two", slots=(1,))
    kept = {"m-1": MoveEntry(group=group, record=MoveRecord(state="switched"))}
    states = {}
    for state in ("fenced", "moved"):
        rows["one"][1] = SlotRow(state=state)
        (due,) = moves_to_end({1: "two"}, rows, {}, kept)
        states[state] = due.record.state
    assert {"fenced": "switched", "moved": "cleaned"} == states
