"""Old rows of SQLite: they leave in short transactions, after they were read back from their archive."""

import asyncio
import hashlib
import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest

from apportion import sync
from apportion.errors import BadSnapshot, Conflict, InvalidInput
from apportion.shards import admin
from apportion.shards.sqlite import old_rows
from tests.shards.periods.models import Base, Event, ago
from tests.shards.sample import SET, Files

YEAR = timedelta(days=365)


def filled(folder, days=(1, 40, 500, 600, 700)):
    """Make a set of two shards with rows of some ages, each age for 20 keys."""
    files = Files(folder, base=Base)
    with sync.open_shards(files.url, SET, base=Base) as router:
        for number in range(20):
            rows = [
                Event(country=f"{number}", created_at=ago(each), note=f"a\nb\t{each}", blob=b"\x00\xff")
                for each in days
            ]
            router.run(f"{number}", lambda session, rows=rows: session.add_all(rows))
    return files


def left(files):
    return sum(files.sql(shard, "SELECT count(*) FROM event")[0][0] for shard in files.shards)


def run(files, **options):
    return asyncio.run(admin.partitions(files.url, SET, **options))


def all_rows(files):
    found = "SELECT created_at, country, hex(blob), id, note, slot FROM event ORDER BY id"
    return [row for shard in files.shards for row in files.sql(shard, found)]


def in_archives(folder):
    rows = []
    for about in sorted(folder.glob("*.json")):
        facts, data = json.loads(about.read_text()), about.with_suffix(".jsonl").read_bytes()
        assert hashlib.sha256(data).hexdigest() == facts["sha256"]
        lines = [json.loads(line) for line in data.splitlines()]
        assert len(lines) == facts["rows"]
        rows += [dict(zip(facts["columns"], line, strict=True)) for line in lines]
    return rows


def test_old_rows_are_reported_first_and_then_leave(tmp_path):
    files = filled(tmp_path)
    seen = run(files, older_than=YEAR)
    assert 60 == sum(each.rows for shard in seen.shards for each in shard.due)
    assert 100 == left(files)
    done = run(files, older_than=YEAR, drop=True)
    assert (True, 60, 40) == (done.is_whole, sum(each.rows_dropped for each in done.shards), left(files))
    again = run(files, older_than=YEAR, drop=True)
    assert [()] * 2 == [each.due for each in again.shards]


def test_an_archive_has_each_row_that_left(tmp_path):
    files, folder = filled(tmp_path), tmp_path / "old"
    folder.mkdir()
    before = {row[3]: row for row in all_rows(files)}
    run(files, older_than=YEAR, drop=True, archive=folder)
    kept = {row[3] for row in all_rows(files)}
    found = in_archives(folder)
    assert 60 == len(found)
    for row in found:
        told = before[row["id"]]
        assert told[3] not in kept
        assert (row["created_at"], row["country"], row["note"], row["slot"]) == (told[0], told[1], told[4], told[5])
        assert {"hex": told[2].lower()} == row["blob"]


def test_a_row_that_changed_behind_its_archive_stays_and_goes_to_the_next_one(tmp_path, monkeypatch):
    files, folder = filled(tmp_path), tmp_path / "old"
    folder.mkdir()
    cleared, changed = old_rows.OldRows._cleared, []

    async def later(self, *arguments):
        if not changed:
            changed.append(1)
            for shard in files.shards:
                files.sql(shard, f"UPDATE event SET note = 'new' WHERE created_at < '{ago(650):%Y-%m-%d}'")
        return await cleared(self, *arguments)

    monkeypatch.setattr(old_rows.OldRows, "_cleared", later)
    assert 60 == sum(each.rows_dropped for each in run(files, older_than=YEAR, drop=True, archive=folder).shards)
    assert 40 == left(files)
    assert 20 == sum(row["note"] == "new" for row in in_archives(folder))


@pytest.mark.parametrize("step", ["finish", "note", "_deleted_equal"])
def test_the_same_call_goes_on_after_a_run_that_was_cut_off(tmp_path, monkeypatch, step):
    files, folder = filled(tmp_path), tmp_path / "old"
    folder.mkdir()

    def cut(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(old_rows if step == "_deleted_equal" else old_rows.ArchiveFile, step, cut)
        with pytest.raises(ZeroDivisionError):
            run(files, older_than=YEAR, drop=True, archive=folder)
    assert 100 == left(files)
    run(files, older_than=YEAR, drop=True, archive=folder)
    found = in_archives(folder)
    assert (40, 60) == (left(files), len({json.dumps(row["id"]) for row in found}))
    assert 60 == len(found)


def test_rows_stay_if_their_archive_was_damaged_on_its_way(tmp_path, monkeypatch):
    files, folder = filled(tmp_path), tmp_path / "old"
    folder.mkdir()
    finish = old_rows.ArchiveFile.finish

    def damaged(self, *arguments):
        entry = finish(self, *arguments)
        self.path.write_bytes(self.path.read_bytes().replace(b"a\\nb", b"a\\nB", 1))
        return entry

    monkeypatch.setattr(old_rows.ArchiveFile, "finish", damaged)
    with pytest.raises(BadSnapshot, match="another checksum"):
        run(files, older_than=YEAR, drop=True, archive=folder)
    assert 100 == left(files)


def test_each_transaction_deletes_few_rows(tmp_path, monkeypatch):
    files = Files(tmp_path, shards=("one",), base=Base)
    files.sql(
        "one",
        f"""INSERT INTO event (id, created_at, country, slot)
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        SELECT printf('%032d', i), '{ago(500):%Y-%m-%d} 00:00:00.000000', 'FR', 1 FROM n""",
    )
    deleted, counts = old_rows._deleted, []

    def counted(*arguments):
        number, seconds = deleted(*arguments)
        counts.append(number)
        return number, seconds

    monkeypatch.setattr(old_rows, "_deleted", counted)
    run(files, older_than=YEAR, drop=True)
    assert 20_000 == sum(counts)
    assert max(counts) <= 5_000


def test_times_that_are_numbers_are_refused(tmp_path):
    files = Files(tmp_path, shards=("one",), base=Base)
    made = "INSERT INTO event (id, created_at, country, slot) VALUES (?, 1700000000, 'FR', 1)"
    files.sql("one", made, (uuid4().hex,))
    with pytest.raises(InvalidInput, match=r"a value of event\.created_at is 'integer'"):
        run(files, older_than=YEAR, drop=True)


@pytest.mark.parametrize("time", ["1/1/2199", "01-12-2199", " 2199-01-01", "+2199-01-01", ""])
def test_text_that_does_not_begin_with_a_day_is_refused_before_a_row_leaves(tmp_path, time):
    files = Files(tmp_path, shards=("one",), base=Base)
    made = "INSERT INTO event (id, created_at, country, slot) VALUES (?, ?, 'FR', 1)"
    for each in (time, "2020-01-01 00:00:00.000000"):
        files.sql("one", made, (uuid4().hex, each))
    with pytest.raises(InvalidInput, match=r"a value of event\.created_at is .* expected one that begins as 2026"):
        run(files, older_than=YEAR, drop=True)
    assert [(2,)] == files.sql("one", "SELECT count(*) FROM event")


def test_a_shard_stays_as_it_is_while_its_archive_cannot_be_written(tmp_path):
    files, folder = filled(tmp_path), tmp_path / "old"
    folder.mkdir()
    month = max(each.upper for each in run(files, older_than=YEAR).shards[0].due)
    blocked = folder / f"world.one.event_until_{month:%Y%m%d}.jsonl.part"
    blocked.mkdir()
    found = run(files, older_than=YEAR, drop=True, archive=folder)
    one, two = found.shards
    assert ("", False) == (two.why, found.is_whole)
    assert f"archive {blocked}" in one.why
    assert two.rows_dropped == len(in_archives(folder))
    blocked.rmdir()
    again = run(files, older_than=YEAR, drop=True, archive=folder)
    assert (True, 60, 40) == (again.is_whole, len(in_archives(folder)), left(files))


def test_an_age_of_any_length_is_taken(tmp_path):
    files = filled(tmp_path)
    assert [()] * 2 == [each.due for each in run(files, older_than=timedelta.max, drop=True).shards]


def test_a_dropped_index_is_named_with_the_statement_that_makes_it(tmp_path):
    files = Files(tmp_path, shards=("one",), base=Base)
    files.sql("one", "DROP INDEX apportion_event_time")
    with pytest.raises(InvalidInput, match=r"index of event\.created_at") as refused:
        run(files, older_than=YEAR)
    files.sql("one", refused.value.hint.partition(": ")[2])
    assert run(files, older_than=YEAR).is_whole


def test_shards_with_a_move_are_left_out_until_it_is_cleaned(tmp_path):
    files = filled(tmp_path)
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot ORDER BY slot LIMIT 4")]

    async def moved():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        assert (await admin.apply(files.url, SET, plan)).is_whole

    asyncio.run(moved())
    with pytest.raises(Conflict, match="all shards of set world have moves that are not over"):
        run(files, older_than=YEAR, drop=True)
    asyncio.run(admin.add(files.url, SET, {"three": files.place("three")}, base=Base))
    found = {each.shard: each.why for each in run(files, older_than=YEAR, drop=True).shards}
    assert found["three"] == ""
    assert all("is not over" in found[shard] for shard in ("one", "two"))
    assert 100 <= left(files)
    asyncio.run(admin.clean(files.url, SET, soak=timedelta(0)))
    assert run(files, older_than=YEAR, drop=True).is_whole
    assert 40 == left(files)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"ahead": -1}, "ahead"),
        ({"ahead": True}, "ahead"),
        ({"older_than": timedelta(0)}, "older_than"),
        ({"drop": True}, "drop"),
        ({"older_than": YEAR, "archive": "x"}, "archive"),
        ({"older_than": YEAR, "drop": True, "archive": "/absent"}, "archive"),
    ],
)
def test_options_are_refused_before_any_effect(options, field):
    with pytest.raises(InvalidInput) as refused:
        asyncio.run(admin.partitions("sqlite:///absent.db", SET, **options))
    assert field == refused.value.field


def test_a_set_without_a_table_with_a_time_is_refused(tmp_path):
    files = Files(tmp_path)
    with pytest.raises(InvalidInput, match="without a table that has a time"):
        run(files)


def test_the_index_of_the_time_leaves_with_its_shard(tmp_path):
    files = Files(tmp_path, base=Base)
    asyncio.run(admin.drain(files.url, SET, "two"))
    asyncio.run(admin.clean(files.url, SET, soak=timedelta(0)))
    asyncio.run(admin.remove(files.url, SET, "two"))
    with closing(sqlite3.connect(tmp_path / "two.db")) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'apportion%'")]
    assert [] == names
