"""The steps of a recovery, one at a time: older movers are refused first, and nothing is published over a change."""

import json
import sqlite3
from contextlib import closing, suppress
from importlib import import_module

import pytest

import apportion
from apportion.errors import Conflict
from apportion.shards.admin import carrier, ends
from apportion.shards.mover.records import name_of_pin
from tests.shards.sample import SLOTS, Base, Place
from tests.shards.test_recover import MOVED, Died, act, copied, restored, rows, write

steps = import_module("apportion.shards.admin.recover")  # the name in its room is the call


@pytest.fixture
def files(make_set):
    return make_set("sqlite")


def dying(label):
    def dies(reached):
        if reached == label:
            raise Died(label)

    return lambda: dies


def cut(monkeypatch, label, files, name, *words, **options):
    """Do a call up to a stop point."""
    with monkeypatch.context() as death:
        death.setattr(carrier, "stop_point", dying(label))
        with suppress(Died):
            act(name, files, *words, **options)


def died_at(monkeypatch, files, label):
    """Copy the control store, begin a move, and restore the copy after the death of the mover at a stop point."""
    copied(files)
    cut(monkeypatch, label, files, "apply", act("plan", files, slots=list(MOVED), to="two"))
    restored(files)


def unpublished(monkeypatch, files):
    """Recover a set up to its publication."""

    async def dies(*_):
        raise Died

    with monkeypatch.context() as death:
        death.setattr(steps, "_published", dies)
        with pytest.raises(Died):
            act("recover", files)


def tokens(files, shard):
    return dict(files.sql(shard, "SELECT resource, position FROM apportion_fences"))


def items(files):
    """Return the records of the set and its table."""
    with closing(sqlite3.connect(files.folder / "control.db")) as store:
        found = {bytes(key).decode(): bytes(value) for key, value in store.execute("SELECT key, value FROM item")}
    return {key: value for key, value in found.items() if "/shards/" in key or "/table/world/" in key}


def contents(files):
    shards = {shard: (files.folder / f"{shard}.db").read_bytes() for shard in files.shards}
    return shards, items(files)


def test_both_shards_refuse_the_older_mover_before_anything_is_published(files, monkeypatch):
    died_at(monkeypatch, files, "verify.before")
    before = [tokens(files, shard) for shard in ("one", "two")]
    (move,) = act("recover", files, is_check=True).moves
    unpublished(monkeypatch, files)
    after = [tokens(files, shard) for shard in ("one", "two")]
    resource = f"shards/world/{move}"
    assert [True, True] == [old[resource] != new[resource] for old, new in zip(before, after, strict=True)]


def test_the_number_of_a_waiting_shard_is_taken_back_before_anything_is_published(files, monkeypatch):
    died_at(monkeypatch, files, "announce.after")
    waits = "SELECT count(*) FROM apportion_slot WHERE state = 'incoming' AND number IS NOT NULL"
    assert [(len(act("plan", files, slots=list(MOVED), to="two").groups[0].slots),)] == files.sql("two", waits)
    unpublished(monkeypatch, files)
    assert [(0,)] == files.sql("two", waits)
    assert act("recover", files).moves
    assert () == act("status", files).moves


def test_a_slot_that_got_another_owner_meanwhile_is_published_by_the_next_recovery(files, monkeypatch):
    died_at(monkeypatch, files, "verify.before")
    before, close = act("status", files).version, steps._close
    slot = next(slot for slot, owner in act("status", files).table.owners.items() if owner == "one")

    async def changed(*words):
        await close(*words)
        files.state("one", slot, "moved")
        files.state("two", slot, "owner")

    with monkeypatch.context() as race:
        race.setattr(steps, "_close", changed)
        with pytest.raises(Conflict, match="a slot got another owner meanwhile"):
            act("recover", files)
    assert before == act("status", files).version
    assert 1 == act("recover", files).slots


def test_a_record_that_changed_meanwhile_is_not_overwritten(files, monkeypatch):
    cut(monkeypatch, "verify.before", files, "apply", act("plan", files, slots=list(MOVED), to="two"))
    copied(files)
    restored(files)
    before, close = act("status", files).version, steps._close

    async def wished(*words):
        await close(*words)
        assert 1 == await ends.wish(files.url, "world", "pause")

    with monkeypatch.context() as race:
        race.setattr(steps, "_close", wished)
        with pytest.raises(Conflict):
            act("recover", files)
    assert before == act("status", files).version
    assert act("recover", files).moves


def test_a_check_beside_a_pin_that_was_cut_off_changes_no_byte(files, monkeypatch):
    died_at(monkeypatch, files, "verify.before")
    cut(monkeypatch, "publish.after", files, "pin", ["acme"], base=Base)
    before = contents(files)
    assert act("recover", files, is_check=True).moves
    assert before == contents(files)


def test_a_pin_that_the_copy_shows_half_way_is_settled(files, monkeypatch):
    write(files, range(10))
    cut(monkeypatch, "publish.after", files, "pin", ["acme"], base=Base)
    copied(files)
    act("apply", files, act("plan", files, slots=list(MOVED), to="two"))
    restored(files)
    assert name_of_pin(SLOTS) in json.loads(items(files)["apportion/shards/world/moving"])["moving"]
    assert act("recover", files).slots
    assert name_of_pin(SLOTS) not in json.loads(items(files)["apportion/shards/world/moving"])["moving"]
    with apportion.sync.open_shards(files.url, "world", base=Base) as router:
        router.run("acme", lambda session: session.add(Place(country="acme")))
    assert [*range(10)] == rows(files)


def test_twenty_doubts_are_described_and_all_are_counted(files):
    for shard in ("one", "two"):
        files.sql(shard, "UPDATE apportion_slot SET state = 'moved'")
    found = act("recover", files)
    assert (SLOTS, 20, ()) == (found.doubtful, len(found.doubts), found.moves)
