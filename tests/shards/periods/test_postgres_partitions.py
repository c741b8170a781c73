"""Partitions on PostgreSQL: `init` makes them, the next ones come, and old ones leave with their rows in an archive."""

import asyncio
import json
from datetime import timedelta

import psycopg
import pytest

from apportion.errors import BadSnapshot, Fenced, InvalidInput
from apportion.shards import admin
from apportion.shards.periods.archive import ArchiveFile
from apportion.shards.periods.records import noted_partitions
from apportion.shards.periods.timed_table import TimedTable
from apportion.shards.postgres.partitions import server
from apportion.shards.postgres.partitions.server import PartitionServer
from apportion.shards.postgres.server import ServerPlace
from apportion.shards.records import SetKeys, ShardRecord
from apportion.sim.conformance.shards.stage import token_of
from apportion.stores.catalog import connect
from tests.shards.periods.models import Base, model
from tests.shards.periods.rig import (
    FAR,
    LEFT,
    LONG_AGO,
    at,
    month,
    name,
    parts,
    put,
    run,
    shard_in,
    this_month,
)
from tests.shards.sample import SET
from tests.shards.server import OWNER, Servers, as_role

pytestmark = pytest.mark.live
YEAR = timedelta(days=365)


class Work:
    move = "partitions"


@pytest.fixture
def files(rig, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    made = Servers(rig, tmp_path, base=Base)
    yield made
    made.drop()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "old"
    made.mkdir()
    return made


def noted(files, shard="one"):
    async def main():
        store = await connect(files.url)
        try:
            return await noted_partitions(store, SetKeys(SET), shard)
        finally:
            await store.close()

    return asyncio.run(main())


def read_back(files, folder):
    """Return the rows of all archives, as the server reads them, and the facts of each archive."""
    files.sql("one", "DROP TABLE IF EXISTS back")
    files.sql("one", "CREATE TABLE back (LIKE event)")
    told = []
    for about in sorted(folder.glob("*.json")):
        facts = json.loads(about.read_text())
        told.append(facts)
        copied = f"COPY back ({', '.join(facts['columns'])}) FROM STDIN"
        with files.connect("one", autocommit=True) as connection, connection.cursor().copy(copied) as copy:
            copy.write(about.with_suffix(".copy").read_bytes())
    return files.sql("one", "SELECT to_jsonb(back)::text FROM back ORDER BY 1"), told


def in_table(files):
    return files.sql("one", "SELECT to_jsonb(event)::text FROM event ORDER BY 1")


def test_init_makes_four_periods_and_room_for_rows_of_any_time(files):
    months = [month(number) for number in range(5)]
    wanted = [*map(name, months[:4]), name(months[4], "from_"), name(months[0], "until_")]
    assert wanted == parts(files) == parts(files, "two")
    for day in (LONG_AGO, months[0], months[3], FAR):
        put(files, day)
    assert [(4,)] == files.sql("one", "SELECT count(*) FROM event")
    assert [(None, months[0]), *zip(months, [*months[1:], None], strict=True)] == sorted(
        ((each.lower, each.upper) for each in noted(files)), key=lambda ends: ends[0] or LONG_AGO
    )
    assert all(each.made > 0 and each.bytes > 0 for each in noted(files))


def test_nobody_empties_a_partition_by_truncate(files):
    put(files, this_month())
    for table in ("event", f"apportion_periods.{name(this_month())}"):
        with pytest.raises(psycopg.Error, match="TRUNCATE is refused"):
            files.sql("one", f"TRUNCATE {table}")


def test_absent_periods_are_made_once(files):
    found = run(files, ahead=5)
    assert [name(month(4)), name(month(5))] == list(shard_in(found).made) == list(shard_in(found, "two").made)
    assert name(month(6), "from_") in parts(files)
    before = files.sql("one", "SELECT oid FROM pg_class ORDER BY 1")
    assert [()] * 2 == [each.made for each in run(files, ahead=5).shards]
    assert before == files.sql("one", "SELECT oid FROM pg_class ORDER BY 1")
    put(files, month(4))
    assert [(1,)] == files.sql("one", f"SELECT count(*) FROM apportion_periods.{name(month(4))}")
    assert month(5) in {each.lower for each in noted(files)}


def test_rows_that_came_while_nobody_made_periods_stay_in_one_wide_partition(files, monkeypatch):
    put(files, month(4), 3)
    put(files, month(6))
    at(monkeypatch, month(6) + timedelta(days=3))
    found = shard_in(run(files, ahead=3))
    assert [name(month(4)), name(month(8)), name(month(9))] == list(found.made)
    [wide] = [each for each in found.partitions if each.name == name(month(4))]
    assert (month(4), month(8)) == (wide.lower, wide.upper)
    assert [(4,)] == files.sql("one", f"SELECT count(*) FROM apportion_periods.{wide.name}")
    assert [] == files.sql("one", "SELECT conname FROM pg_constraint WHERE conname = 'apportion_bounds'")


def test_a_row_later_than_all_periods_is_named_and_stays(files):
    put(files, FAR)
    with pytest.raises(InvalidInput, match=r"newest row of event in shard one is '2199-05-05 00:00:00\+00'") as refused:
        run(files, ahead=5)
    assert "larger --ahead" in refused.value.hint
    assert [(1,)] == files.sql("one", "SELECT count(*) FROM event")


def test_a_check_that_a_killed_run_left_refuses_no_row_after_the_next_one(files, monkeypatch):
    put(files, month(4))
    at(monkeypatch, month(4))
    with monkeypatch.context() as patched:
        patched.setattr(server, "attached", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(files, ahead=2)
    with pytest.raises(psycopg.errors.CheckViolation):
        put(files, month(9))
    run(files, ahead=2)
    put(files, month(9))
    assert [(2,)] == files.sql("one", "SELECT count(*) FROM event")


def test_old_periods_are_reported_then_archived_and_dropped(files, folder, monkeypatch):
    put(files, LONG_AGO, 2)
    put(files, this_month(), 5)
    put(files, month(1), 3)
    put(files, month(3))
    kept = f"SELECT to_jsonb(event)::text FROM event WHERE created_at < '{month(2)}' ORDER BY 1"
    gone = files.sql("one", kept)
    at(monkeypatch, month(14) + timedelta(days=5))
    due = [name(this_month(), "until_"), name(this_month()), name(month(1))]
    assert due == [each.name for each in shard_in(run(files, older_than=YEAR)).due]
    assert [(11,)] == files.sql("one", "SELECT count(*) FROM event")
    found = shard_in(run(files, older_than=YEAR, drop=True, archive=folder))
    assert (sorted(due), 10) == (sorted(found.dropped), found.rows_dropped)
    assert [(1,)] == files.sql("one", "SELECT count(*) FROM event")
    rows, told = read_back(files, folder)
    assert gone == rows
    assert [5, 3, 2] == [facts["rows"] for facts in told]
    assert [] == files.sql("one", LEFT)
    put(files, LONG_AGO)
    assert name(month(2), "until_") in parts(files)
    assert {name(month(2), "until_"), name(month(2)), name(month(3)), name(month(4), "from_")} == {
        each.name for each in noted(files)
    }


def test_without_rows_of_any_earlier_time_nothing_is_due(files, monkeypatch):
    at(monkeypatch, month(1) + timedelta(days=2))
    before = parts(files)
    assert () == shard_in(run(files, older_than=timedelta(days=20), drop=True)).due
    assert before == parts(files)


def test_a_reader_delays_the_detach_and_nobody_else(files, monkeypatch):
    put(files, this_month(), 2)
    at(monkeypatch, month(14))
    monkeypatch.setattr(server, "DETACH_SECONDS", 0.5)
    with files.connect("one") as reader:
        reader.execute("SELECT count(*) FROM event")
        found = shard_in(run(files, older_than=YEAR, drop=True))
        assert "transactions have used a table for 0.5 s" in found.why
        put(files, month(3))
    assert [(1,)] == files.sql("one", "SELECT count(*) FROM pg_inherits WHERE inhdetachpending")
    done = shard_in(run(files, older_than=YEAR, drop=True))
    assert ("", 2) == (done.why, done.rows_dropped)
    assert [(1,)] == files.sql("one", "SELECT count(*) FROM event")
    put(files, LONG_AGO)


def test_late_rows_of_one_partition_after_another_leave_to_files_of_their_own(files, folder, monkeypatch):
    run(files, ahead=15)
    at(monkeypatch, month(14))
    run(files, older_than=YEAR, drop=True)
    for day in range(1, 4):
        put(files, LONG_AGO, day)
        assert day == shard_in(run(files, older_than=YEAR, drop=True, archive=folder)).rows_dropped
    assert [1, 2, 3] == sorted(json.loads(each.read_text())["rows"] for each in folder.glob("*.json"))


def test_rows_stay_if_their_archive_was_damaged_on_its_way(files, folder, monkeypatch):
    put(files, this_month(), 3)
    at(monkeypatch, month(14))
    finish = ArchiveFile.finish

    def damaged(self, *arguments):
        entry = finish(self, *arguments)
        self.path.write_bytes(self.path.read_bytes().replace(b"FR", b"FX", 1))
        return entry

    monkeypatch.setattr(ArchiveFile, "finish", damaged)
    with pytest.raises(BadSnapshot, match="archive"):
        run(files, older_than=YEAR, drop=True, archive=folder)
    assert [(3,)] == files.sql("one", f"SELECT count(*) FROM apportion_periods.{name(this_month())}")


@pytest.mark.parametrize(
    ("rows", "expected", "hint"),
    [(0, "an empty one", "Drop it: DROP TABLE event"), (1, "one with rows", "retention.md")],
)
def test_a_plain_table_is_refused_with_the_recipe(rig, tmp_path, monkeypatch, rows, expected, hint):  # noqa: PLR0917
    as_role(monkeypatch, OWNER)
    plain = model(__shard_time__=None, __shard_period__=None)
    files = Servers(rig, tmp_path, shards=("one",), base=plain.__bases__[1])
    try:
        files.sql("one", "DROP SCHEMA apportion CASCADE")
        files.sql(
            "one", "INSERT INTO event SELECT gen_random_uuid(), 'FR', now(), 1 FROM generate_series(1, %s)", (rows,)
        )
        control = f"sqlite:///{tmp_path}/other.db"
        with pytest.raises(InvalidInput, match=f"table event is '{expected}'") as refused:
            asyncio.run(admin.init(control, SET, {"one": files.place("one")}, base=Base, slots=64))
        assert hint in refused.value.hint
        assert [(rows,)] == files.sql("one", "SELECT count(*) FROM event")
    finally:
        files.drop()


def test_a_default_partition_is_refused_because_no_partition_could_leave(files):
    files.sql("one", "CREATE TABLE other PARTITION OF event DEFAULT")
    with pytest.raises(InvalidInput, match=r"partition public\.other is 'DEFAULT'"):
        run(files, ahead=5)


def test_an_older_run_is_refused_after_a_newer_one(files):
    timed = TimedTable(name="event", column="created_at", length="month")
    place = ServerPlace(set_name=SET, shard="one", address=ShardRecord(url=files.place("one")).address())

    async def main():
        acts = PartitionServer(place)
        try:
            assert await acts.grow(Work(), token_of(2), timed, 4) == name(month(4))
            with pytest.raises(Fenced):
                await acts.grow(Work(), token_of(1), timed, 5)
        finally:
            await acts.close()

    asyncio.run(main())
