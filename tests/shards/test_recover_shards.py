"""A control store is restored from a copy of before a shard came or left: the databases know more, no row is lost."""

import asyncio
from contextlib import suppress

import pytest

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.shards import admin
from apportion.shards.admin import carrier
from apportion.shards.mover.book import MoveBook
from tests.shards.sample import SET, SLOTS, Base
from tests.shards.server import OWNER, as_role
from tests.shards.test_recover import NOW, Died, act, copied, is_sound, left, restored, rows, write

ALL = [*range(30)]
LABELS = ("verify.before", "switch.after")


@pytest.fixture
def files(make_set, kind, monkeypatch):
    """A set of three shards with rows."""
    as_role(monkeypatch, OWNER)
    made = make_set(kind, shards=("one", "three", "two"))
    write(made, ALL)
    return made


def cut(monkeypatch, files, label, name, *words):
    """Do a call up to a stop point."""

    def dies(reached):
        if reached == label:
            raise Died(label)

    with monkeypatch.context() as death:
        death.setattr(carrier, "stop_point", lambda: dies)
        with suppress(Died):
            act(name, files, *words)


def taken_out(files, shard="three"):
    act("drain", files, shard)
    act("clean", files, soak=NOW)
    act("remove", files, shard)


def ids(files):
    return [each.id for each in act("status", files).shards]


@pytest.mark.slow
def test_a_shard_that_was_added_after_the_copy_is_added_again_with_its_rows(files, monkeypatch):
    copied(files)
    shards = {"four": files.place("four")}
    act("add", files, shards, base=Base)
    act("apply", files, act("plan", files, weights={"four": 1.0}))
    act("clean", files, soak=NOW)
    cut(monkeypatch, files, "verify.before", "apply", act("plan", files, slots=range(SLOTS), to="four"))
    restored(files)
    assert act("recover", files).doubtful > 0
    act("add", files, shards, base=Base)
    found = act("recover", files)
    assert () == found.doubts
    assert found.moves
    assert {"four", "one", "three", "two"} == set(act("status", files).table.owners.values())
    assert ([], 0) == left(files)
    assert (ALL, True) == (rows(files), is_sound(files))


def test_a_database_with_rows_that_is_no_shard_of_the_set_is_no_new_shard(files):
    taken_out(files)
    row = f"INSERT INTO place (id, country, visits, slot) VALUES ('{'0' * 32}', 'FR', 0, 1)"
    files.sql("three", row)
    with pytest.raises(InvalidInput, match="three is 'one with rows', expected an empty one"):
        act("add", files, {"three": files.place("three")}, base=Base)


@pytest.mark.parametrize("label", [None, *(pytest.param(each, marks=pytest.mark.slow) for each in LABELS)])
def test_a_shard_that_was_removed_after_the_copy_owns_nothing_and_is_removed_again(files, monkeypatch, label):
    if label is not None:
        cut(monkeypatch, files, label, "drain", "three")
    copied(files)
    taken_out(files)
    write(files, range(30, 40))
    restored(files)
    before = act("status", files).version
    told = act("recover", files, is_check=True)
    assert before == act("status", files).version
    found = act("recover", files)
    assert (told.slots, told.moves, ()) == (found.slots, found.moves, found.doubts)
    assert {"one", "two"} == set(act("status", files).table.owners.values())
    assert () == act("status", files).moves
    act("remove", files, "three")
    assert ["one", "two"] == ids(files)
    assert ([*range(40)], True) == (rows(files), is_sound(files))


@pytest.mark.slow
def test_a_recovery_that_was_cut_off_before_the_moves_of_a_removed_shard_ended_goes_on(files, monkeypatch):
    cut(monkeypatch, files, "verify.before", "drain", "three")
    copied(files)
    taken_out(files)
    restored(files)

    async def dies(*_):
        raise Died

    with monkeypatch.context() as death:
        death.setattr(MoveBook, "release", dies)
        with pytest.raises(Died):
            act("recover", files)
    assert act("status", files).moves
    assert act("recover", files).moves
    assert () == act("status", files).moves
    act("remove", files, "three")


def test_a_fenced_slot_that_waits_nowhere_is_a_doubt_beside_a_removed_shard(files):
    copied(files)
    taken_out(files)
    restored(files)
    slot, owner = next((slot, each) for slot, each in act("status", files).table.owners.items() if each != "three")
    files.state(owner, slot, "fenced")
    assert (f"slot {slot}: fenced on {owner}, and three has no table of the set",) == act("recover", files).doubts


def test_a_removed_shard_without_a_file_is_recovered_with_an_empty_one(make_set):
    files = make_set("sqlite", shards=("one", "three", "two"))
    copied(files)
    taken_out(files)
    (files.folder / "three.db").unlink()
    restored(files)
    with pytest.raises(StoreUnavailable, match="no file at ") as refused:
        act("recover", files)
    assert "If the shard was removed from the set, make an empty file." in refused.value.hint
    (files.folder / "three.db").touch()
    assert () == act("recover", files).doubts
    act("remove", files, "three")
    assert ["one", "two"] == ids(files)


def test_a_database_that_became_the_shard_of_another_set_is_refused(make_set):
    files = make_set("sqlite", shards=("one", "three", "two"))
    copied(files)
    taken_out(files)
    other = f"sqlite:///{files.folder}/other.db"
    asyncio.run(admin.init(other, "moon", {"x": files.place("three")}, base=Base, slots=SLOTS))
    restored(files)
    with pytest.raises(InvalidInput, match=f"set_id of shard three is 'moon', expected {SET}"):
        act("recover", files)


@pytest.mark.slow
def test_the_rest_of_a_move_in_a_set_of_one_shard_ends_with_the_shard_that_is_added_again(make_set, monkeypatch):
    files = make_set("sqlite", shards=("one",))
    write(files, ALL)
    copied(files)
    shards = {"four": files.place("four")}
    act("add", files, shards, base=Base)
    cut(monkeypatch, files, "verify.before", "apply", act("plan", files, slots=range(SLOTS), to="four"))
    restored(files)
    for is_check in (True, False):
        with pytest.raises(InvalidInput, match="shards of the set is 'one alone, with the rest of move") as refused:
            act("recover", files, is_check=is_check)
        assert "apportion shards add URL SET ID=URL" in refused.value.hint
    act("add", files, shards, base=Base)
    assert act("recover", files).moves
    assert ([], 0) == left(files)
    assert (ALL, True) == (rows(files), is_sound(files))
