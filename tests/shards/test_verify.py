"""Verification of a set: a row in a wrong slot, a key on two shards and a child apart from its parent are found."""

import asyncio
import sqlite3
from contextlib import closing
from uuid import UUID

import pytest

import apportion
from apportion.errors import InvalidInput, StoreUnavailable
from apportion.shards.admin.reads.verify import MOST_FAULTS, verified
from tests.shards.sample import SET, SLOTS, Base, Files, Photo, Place, Visit


@pytest.fixture
def files(tmp_path):
    """A set with rows of twelve countries, photos of them, and a tuple of keys."""
    files = Files(tmp_path)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number in range(12):
            country = f"C{number}"
            with router.session(country) as session:
                place = Place(id=UUID(int=number), country=country)
                session.add_all([place, Photo(id=UUID(int=number), place=place)])
                session.commit()
            with router.session((country, 2000)) as session:
                session.add(Visit(id=UUID(int=number), country=country, year=2000))
                session.commit()
    return files


def found(files):
    return asyncio.run(verified(files.url, SET, Base))


def changed(files, shard, statement, values=()):
    """Run a statement as a mover could: no trigger and no foreign key refuses it."""
    with closing(sqlite3.connect(files.folder / f"{shard}.db")) as connection, connection:
        connection.execute("INSERT INTO apportion_mover VALUES ('x')")
        connection.execute(statement, values)
        connection.execute("DELETE FROM apportion_mover")


def test_every_row_is_compared(files):
    whole = found(files)
    assert (36, 0, 0, ()) == (whole.rows, whole.left, whole.faulty, whole.faults)
    assert whole.is_sound


def test_a_set_without_rows_is_not_called_sound(tmp_path):
    assert not found(Files(tmp_path)).is_sound


def at(files, table="place"):
    """Return a shard, and the id and the slot of a row there."""
    for shard in files.shards:
        for row in files.sql(shard, f"SELECT id, slot FROM {table}"):
            return shard, *row
    raise AssertionError("no row")


def test_a_row_in_a_wrong_slot_of_the_same_shard_is_found(files):
    shard, row, slot = at(files, "visit")
    (other,) = files.sql(shard, "SELECT slot FROM apportion_slot WHERE slot <> ? AND state = 'owner' LIMIT 1", (slot,))
    files.sql(shard, "DROP TRIGGER apportion_visit_slot")
    changed(files, shard, "UPDATE visit SET slot = ? WHERE id = ?", (*other, row))
    whole = found(files)
    assert (36, 1) == (whole.rows, whole.faulty)
    assert f"on shard {shard} has slot {other[0]}, and its key has {slot}" in whole.faults[0]


def test_a_child_apart_from_its_parent_is_found(files):
    shard, row, slot = at(files, "photo")
    (other,) = files.sql(shard, "SELECT slot FROM apportion_slot WHERE slot <> ? AND state = 'owner' LIMIT 1", (slot,))
    files.sql(shard, "DROP TRIGGER apportion_photo_slot")
    changed(files, shard, "UPDATE photo SET slot = ? WHERE id = ?", (*other, row))
    assert f"has slot {other[0]}, and its key has {slot}" in found(files).faults[0]


def test_a_key_on_two_shards_is_found(files):
    shard, row, _ = at(files)
    (other,) = {*files.shards} - {shard}
    (slot,) = files.sql(other, "SELECT slot FROM apportion_slot WHERE state = 'owner' LIMIT 1")[0]
    files.sql(other, "INSERT INTO place (id, slot, country, visits) VALUES (?, ?, 'XX', 0)", (row, slot))
    faults = found(files).faults
    assert any("lies on shard one, and on shard two" in fault for fault in faults)


def test_copies_that_a_move_has_left_are_counted_and_are_no_fault(files):
    shard, _, slot = at(files)
    (other,) = {*files.shards} - {shard}
    count = sum(files.sql(shard, f"SELECT count(*) FROM {each} WHERE slot = ?", (slot,))[0][0] for each in TABLES)
    files.state(shard, slot, "moved")
    files.state(other, slot, "owner")
    whole = found(files)
    assert (36 - count, count, 0) == (whole.rows, whole.left, whole.faulty)


TABLES = ("place", "photo", "visit")


@pytest.mark.parametrize("states", [("owner", "owner"), ("moved", None), ("moved", "moved")])
def test_a_slot_with_no_owner_or_two_is_refused(files, states):
    slot = 3
    for shard, state in zip(files.shards, states, strict=True):
        files.sql(shard, "DELETE FROM apportion_slot WHERE slot = ?", (slot,))
        if state:
            files.state(shard, slot, state)
    with pytest.raises(InvalidInput, match="owners of the slots"):
        found(files)


def test_all_faults_are_counted_and_the_first_are_described(files):
    for shard in files.shards:
        (slot,) = files.sql(shard, "SELECT slot FROM apportion_slot WHERE state = 'owner' LIMIT 1")[0]
        rows = [(UUID(int=900 + number).hex, slot) for number in range(SLOTS)]
        for row in rows:
            files.sql(shard, "INSERT INTO place (id, slot, country, visits) VALUES (?, ?, 'none', 0)", row)
    whole = found(files)
    assert whole.faulty > MOST_FAULTS == len(whole.faults)


@pytest.mark.parametrize(("column", "said"), [("id", "does not fit its model"), ("country", "nobody can route")])
def test_a_value_that_does_not_fit_its_model_is_a_fault(files, column, said):
    shard, row, _ = at(files)
    files.sql(shard, "DROP TRIGGER apportion_place_key")
    value = {"id": "no uuid", "country": "x" * 70_000}[column]
    changed(files, shard, f"UPDATE place SET {column} = ? WHERE id = ?", (value, row))
    told = found(files)
    assert not told.is_sound
    assert any("place" in each and said in each for each in told.faults)


def test_the_rows_beside_a_value_that_does_not_fit_its_model_are_compared(files):
    shard = max(files.shards, key=lambda shard: len(files.sql(shard, "SELECT id FROM place")))
    (first, *_, last) = sorted(row for (row,) in files.sql(shard, "SELECT id FROM place"))
    changed(files, shard, "UPDATE place SET id = 'no uuid' WHERE id = ?", (first,))
    files.sql(shard, "DROP TRIGGER apportion_place_key")
    changed(files, shard, "UPDATE place SET country = 'elsewhere' WHERE id = ?", (last,))
    told = found(files)
    assert 35 == told.rows
    for said in ("place ('no uuid',)", f"place ({UUID(last)!r},)"):
        assert any(fault.startswith(said) for fault in told.faults), told.faults


def test_a_shard_that_cannot_be_opened_is_named(tmp_path):
    files = Files(tmp_path)
    (tmp_path / "two.db").unlink()
    (tmp_path / "two.db").mkdir()
    with pytest.raises(StoreUnavailable, match=r"^database of shard two is unavailable: unable to open"):
        asyncio.run(verified(files.url, SET, Base))
