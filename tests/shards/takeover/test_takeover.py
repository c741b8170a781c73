"""A file with rows becomes a shard: each row gets its slot beside live writers, and a call that was cut off goes on."""

import asyncio
import sqlite3
from functools import partial
from random import Random

import pytest
from sqlalchemy import select

import apportion
from apportion.errors import InvalidInput, StoreUnavailable
from apportion.shards import admin, place
from apportion.shards.foundation import found
from apportion.shards.records import ShardRecord
from apportion.shards.slots import hash_slot
from apportion.shards.takeover import rows, takeover
from tests.shards.takeover.old_file import COUNTRIES, SET, SLOTS, OldBase, OldFile, Street, Town

TABLES = ("town", "street", "house", "stamp")


@pytest.fixture(autouse=True)
def _chunks_are_short(monkeypatch):
    monkeypatch.setattr(rows, "CHUNK_ROWS", 16)
    monkeypatch.setattr(takeover, "CHUNK_ROWS", 16)


def test_each_row_has_its_slot_and_the_shard_with_the_rows_owns_all_slots(tmp_path):
    old = OldFile(tmp_path)
    counted = {table: old.sql(f"SELECT count(*) FROM {table}") for table in TABLES}
    old.take()
    assert [] == old.wrong()
    assert counted == {table: old.sql(f"SELECT count(*) FROM {table}") for table in TABLES}
    assert [(SLOTS,)] == old.sql("SELECT count(*) FROM apportion_slot WHERE state = 'owner'")
    assert [(0,)] == old.sql("SELECT count(*) FROM apportion_slot", file="two.db")
    assert {table: [(0, 1), (1, 1)] for table in TABLES} == {
        table: old.sql(f"SELECT seqno, (SELECT [unique] FROM pragma_index_list('{table}') WHERE name = ?) "
                       f"FROM pragma_index_info(?) LIMIT 2", (f"{table}_by_slot",) * 2) for table in TABLES
    }  # fmt: skip
    assert [(0,)] == old.sql("SELECT max(changed) FROM town"), "no function of the application runs"


def test_the_program_goes_on_in_pinned_sessions(tmp_path):
    old = OldFile(tmp_path)
    old.take()
    with apportion.sync.open_shards(old.url, SET, base=OldBase) as router, router.session("FR") as session:
        assert 8 == len(session.scalars(select(Town)).all())
        session.add(Street(id=900, town_id=0))
        session.commit()
    assert [] == old.wrong()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO town (id, country) VALUES (900, 'FR')",
        f"INSERT INTO street (id, town_id, slot) VALUES (900, 1, {hash_slot('FR', SLOTS)})",  # of DE
        "UPDATE street SET town_id = town_id + 1",
        f"UPDATE town SET slot = {hash_slot('FR', SLOTS)}",
        "UPDATE town SET slot = NULL",
    ],
)
def test_a_row_without_a_slot_or_with_another_one_is_refused_from_any_program(tmp_path, statement):
    old = OldFile(tmp_path)
    old.take()
    with pytest.raises(sqlite3.IntegrityError, match="apportion: "):
        old.sql(statement)
    assert [] == old.wrong()


@pytest.mark.slow
def test_a_takeover_that_was_cut_off_at_any_transaction_goes_on(tmp_path, monkeypatch):
    whole, plain = OldFile(_folder(tmp_path, "whole")), takeover.within
    begun = []

    def within(*words):
        begun.append(words)
        return plain(*words)

    monkeypatch.setattr(takeover, "within", within)
    whole.take()
    count = len(begun)
    assert count > 30
    for stop in range(count):
        old = OldFile(_folder(tmp_path, f"{stop}"))
        begun.clear()

        def cut(*words, stop=stop):
            if len(begun) == stop:
                raise KeyboardInterrupt
            return within(*words)

        monkeypatch.setattr(takeover, "within", cut)
        with pytest.raises(KeyboardInterrupt):
            old.take()
        monkeypatch.setattr(takeover, "within", plain)
        old.take()
        assert [] == old.wrong()
        assert whole.schema() == old.schema()


def _folder(path, name):
    (path / name).mkdir()
    return path / name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_writers_that_know_of_no_slot_leave_no_row_with_a_wrong_one(tmp_path, monkeypatch, seed):
    old, plain, random = OldFile(tmp_path), takeover.within, Random(seed)

    def within(engine, shard, act):
        if not old.sql("SELECT 1 FROM sqlite_schema WHERE name = 'apportion_slot'"):
            for _ in range(random.randrange(4)):
                _written(old, random)
        return plain(engine, shard, act)

    monkeypatch.setattr(takeover, "within", within)
    old.take()
    assert [] == old.wrong()
    assert [(0,)] == old.sql("SELECT count(*) FROM town WHERE slot IS NULL")
    assert not [name for _, name, _ in old.schema() if "_rekey" in name or "_orphan" in name]


def _written(old, random):
    """Write as a program does that knows of no slot. Each town keeps its streets, each street its houses."""
    town, other, street = random.randrange(40), random.randrange(40), random.randrange(80)
    country, new = random.choice(COUNTRIES), random.randrange(1000, 10**9)
    random.choice(
        [
            partial(old.sql, "UPDATE town SET country = ? WHERE id = ?", (country, town)),
            partial(old.sql, "INSERT INTO town (id, country) VALUES (?, ?)", (new, country)),
            partial(old.sql, "INSERT OR REPLACE INTO town (id, country) VALUES (?, ?)", (town, country)),
            partial(old.sql, "UPDATE street SET town_id = ? WHERE id = ?", (other, street)),
            partial(old.sql, "UPDATE house SET street_id = ? WHERE id = ?", (street, random.randrange(120))),
            partial(old.sql, "INSERT INTO street (id, town_id) VALUES (?, ?)", (new, town)),
            partial(old.sql, "DELETE FROM house WHERE id = ?", (random.randrange(120),)),
            partial(_deleted_and_made_again, old, town, country),
            partial(_exchanged, old, town, other, new),
            partial(old.sql, "UPDATE OR IGNORE stamp SET country = ? WHERE year = ?", (country, other)),
        ]
    )()


def _deleted_and_made_again(old, town, country):
    old.sql("DELETE FROM town WHERE id = ?", (town,))
    old.sql("INSERT INTO town (id, country) VALUES (?, ?)", (town, country))


def _exchanged(old, town, other, new):
    """Exchange the ids of two towns; the streets of each now belong to the other."""
    if town != other:
        for before, after in ((town, new), (other, town), (new, other)):
            old.sql("UPDATE town SET id = ? WHERE id = ?", (after, before))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO street VALUES (900, 777)", "rows of street without a row of town is 1, expected a parent"),
        ("UPDATE stamp SET year = 0.5 WHERE year = 3", "shard key country, year of stamp: key is 0.5"),
        ("DROP TABLE street", "table street is None, expected the table of the parents of house"),
        ("ALTER TABLE town ADD COLUMN slot INTEGER DEFAULT 7", "slot of the row 0 of town is 'another value'"),
    ],
)
def test_rows_that_no_slot_fits_are_refused_before_anything_is_changed(tmp_path, statement, said):
    old = OldFile(tmp_path)
    old.sql(statement)
    before = old.schema()
    with pytest.raises(InvalidInput, match=f"^{said}"):
        old.take()
    assert before == old.schema()
    assert not (tmp_path / "two.db").exists()


def test_a_column_that_an_earlier_migration_filled_is_taken_as_it_is(tmp_path):
    old = OldFile(tmp_path)
    old.sql("ALTER TABLE stamp ADD COLUMN slot SMALLINT")
    old.sql("UPDATE stamp SET slot = ? WHERE year = 0", (hash_slot(("FR", 0), SLOTS),))
    old.take()
    assert [] == old.wrong()


def test_rows_in_two_databases_are_refused(tmp_path):
    old = OldFile(tmp_path)
    (tmp_path / "two.db").write_bytes((tmp_path / "one.db").read_bytes())
    with pytest.raises(InvalidInput, match=r"^databases with rows is 'one, two', expected one at most"):
        old.take()


def test_a_database_of_another_set_is_refused_before_a_record_is_written(tmp_path):
    old = OldFile(tmp_path)
    old.take(("one",))
    with pytest.raises(InvalidInput, match=r"^set_id of shard one is 'world', expected moon"):
        asyncio.run(found(old.url, "moon", {"one": ShardRecord(url=f"sqlite:///{tmp_path}/one.db")}, OldBase, SLOTS))
    with pytest.raises(InvalidInput, match=r"^set is 'moon'"):
        apportion.sync.open_shards(old.url, "moon", base=OldBase).__enter__()


def test_a_writer_that_keeps_its_lock_is_told_and_the_same_call_goes_on(tmp_path, monkeypatch):
    old = OldFile(tmp_path)
    holder = sqlite3.connect(tmp_path / "one.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(place, "LOCK_SECONDS", 0)
    with pytest.raises(StoreUnavailable, match="database of shard one is unavailable: database is locked"):
        old.take()
    holder.close()
    old.take()
    assert [] == old.wrong()


def test_progress_is_told_for_each_chunk(tmp_path):
    old, told = OldFile(tmp_path), []
    old.take(told=told.append)
    assert {"town", "street", "house", "stamp"} == {each.table for each in told}
    assert all(each.rows <= each.total for each in told)


@pytest.mark.parametrize(
    "columns",
    [
        "(changed INT NOT NULL DEFAULT 0, country VARCHAR NOT NULL, id BIGINT PRIMARY KEY)",
        "(changed INT NOT NULL DEFAULT 0, country TEXT NOT NULL, id BIGINT PRIMARY KEY)",
        "(changed INT NOT NULL DEFAULT 0, country TEXT NOT NULL, id INTEGER PRIMARY KEY) STRICT",
    ],
)
def test_rows_of_a_file_that_declared_its_columns_in_its_own_words_move(tmp_path, columns):
    old = OldFile(tmp_path, is_made=True)
    old.sql(f"CREATE TABLE town {columns}")
    old.make(40)
    old.take()
    counted = {table: old.sql(f"SELECT count(*) FROM {table}") for table in TABLES}
    plan = asyncio.run(admin.plan(old.url, SET, weights={"one": 0, "two": 1}))
    assert asyncio.run(admin.apply(old.url, SET, plan)).is_whole
    assert counted == {table: old.sql(f"SELECT count(*) FROM {table}", file="two.db") for table in TABLES}
    assert () == asyncio.run(admin.verify(old.url, SET, base=OldBase)).faults
