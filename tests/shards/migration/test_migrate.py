"""A migration brings each shard to one revision with real Alembic, and leaves each with its triggers."""

import asyncio
import os
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from datetime import timedelta

import pytest

from apportion.errors import Conflict, InvalidInput, MissingExtra, SchemaDiffers
from apportion.shards import admin
from apportion.shards.admin import carrier
from tests.docs.blocks import ROOT
from tests.shards.migration.scripts import BATCH, Scripts, stamped
from tests.shards.sample import SET, Base, Files
from tests.shards.takeover.old_file import OldFile


@pytest.fixture
def scripts(tmp_path):
    return Scripts(tmp_path)


def states(found):
    return {each.id: (each.state, each.revision) for each in found.shards}


def columns(files, shard):
    return [row[1] for row in files.sql(shard, "PRAGMA table_info(place)")]


def test_each_shard_comes_to_the_head_and_has_its_triggers_again(tmp_path, scripts):
    files = stamped(Files(tmp_path))
    scripts.revision("0002", "0001", BATCH)
    before = files.sql("one", "SELECT name FROM sqlite_schema WHERE name LIKE 'apportion_%' ORDER BY 1")
    found = scripts.migrate(files)
    assert found.is_whole
    assert {"one": ("done", "0002"), "two": ("done", "0002")} == states(found)
    assert "mayor" in columns(files, "one")
    assert before == files.sql("one", "SELECT name FROM sqlite_schema WHERE name LIKE 'apportion_%' ORDER BY 1")
    with pytest.raises(sqlite3.IntegrityError, match="apportion: stale route"):
        files.sql("two", "INSERT INTO place (id, country, visits, slot) VALUES ('a', 'FR', 0, 0)")


def revisions(files):
    return {shard: files.sql(shard, "SELECT version_num FROM alembic_version")[0][0] for shard in files.shards}


def test_the_index_over_the_slot_is_made_again(tmp_path, scripts):
    files = stamped(Files(tmp_path, shards=("one",)))
    scripts.revision("0002", "0001", 'op.drop_index("place_by_slot", "place")')
    index = "SELECT sql FROM sqlite_schema WHERE name = 'place_by_slot'"
    before = files.sql("one", index)
    assert scripts.migrate(files).is_whole
    assert before == files.sql("one", index)


def test_a_dry_run_names_the_revisions_that_are_due_and_changes_nothing(tmp_path, scripts):
    files = stamped(Files(tmp_path, shards=("one",)))
    scripts.revision("0002", "0001", BATCH)
    scripts.revision("0003", "0002")
    found = scripts.migrate(files, is_dry_run=True)
    (seen,) = found.shards
    assert ("one", "0001", ("0002", "0003")) == (seen.id, seen.revision, seen.due)
    assert {"one": "0001"} == revisions(files)
    assert asyncio.run(admin.status(files.url, SET)).migration is None


FAILS = 'sa.text(op.get_bind().exec_driver_sql("SELECT shard FROM apportion_meta").scalar())\n    '
FAILS += 'assert os.environ["SHARD_ID"] != "s07", "no space for mayors"'


@pytest.mark.slow
def test_after_the_failure_of_the_seventh_of_20_shards_6_are_done_and_13_untouched_and_a_second_run_finishes(
    tmp_path, scripts
):
    files = stamped(Files(tmp_path, shards=tuple(f"s{number:02}" for number in range(1, 21))))
    broken = scripts.revision("0002", "0001", FAILS)
    found = scripts.migrate(files, parallel=1)
    assert not found.is_whole
    expected = {f"s{number:02}": ("done", "0002") for number in range(1, 7)}
    expected |= {"s07": ("failed", "0001")} | {f"s{number:02}": ("pending", "") for number in range(8, 21)}
    assert expected == states(found)
    assert "AssertionError: no space for mayors" == found.shards[6].error
    assert {"0001": 14, "0002": 6} == Counter(revisions(files).values())
    assert not asyncio.run(admin.status(files.url, SET)).migration.is_over
    broken.unlink()
    scripts.revision("0002", "0001", BATCH)
    assert scripts.migrate(files).is_whole
    assert {"0002"} == {*revisions(files).values()}


def test_of_shards_in_parallel_no_other_begins_after_a_failure_and_the_canary_is_alone(tmp_path, scripts):
    files = stamped(Files(tmp_path, shards=("a", "b", "c")))
    scripts.revision("0002", "0001", 'assert os.environ["SHARD_ID"] != "c"')
    told = []
    found = scripts.migrate(files, canary="c", observer=lambda state: told.append((state.id, state.state)))
    assert {"c": ("failed", "0001"), "a": ("pending", ""), "b": ("pending", "")} == states(found)
    assert [("c", "running"), ("c", "failed")] == told


@pytest.mark.slow
def test_no_move_and_no_plan_begins_before_a_failed_migration_has_ended(tmp_path, scripts):
    files = stamped(Files(tmp_path))
    plan = asyncio.run(admin.plan(files.url, SET, weights={"two": 3}))
    broken = scripts.revision("0002", "0001", "raise OSError")
    assert not scripts.migrate(files).is_whole
    for call in (admin.plan(files.url, SET, weights={"two": 3}), admin.apply(files.url, SET, plan)):
        with pytest.raises(Conflict, match="the migration of set world to 0002 has not ended"):
            asyncio.run(call)
    with pytest.raises(Conflict, match="has not ended"):
        asyncio.run(admin.add(files.url, SET, {"three": files.place("three")}, base=Base))
    broken.unlink()
    scripts.revision("0002", "0001", BATCH)
    assert scripts.migrate(files).is_whole
    assert asyncio.run(admin.apply(files.url, SET, plan)).is_whole
    with pytest.raises(Conflict, match=r"moves of set world are not over: \S+ \(complete\)"):
        scripts.migrate(files)
    asyncio.run(admin.clean(files.url, SET, soak=timedelta(0)))
    assert scripts.migrate(files).is_whole


def test_a_plan_over_unequal_revisions_is_refused_and_status_shows_them(tmp_path, scripts):
    files = stamped(Files(tmp_path))
    files.sql("two", "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(SchemaDiffers, match="the revision is 0001 in one, the revision is 0000 in two"):
        asyncio.run(admin.plan(files.url, SET, weights={"two": 3}))
    found = asyncio.run(admin.status(files.url, SET, has_rows=True))
    assert {"one": "0001", "two": "0000"} == {each.id: each.revision for each in found.shards}


def test_a_new_shard_has_the_revision_of_the_others(tmp_path):
    files = stamped(Files(tmp_path, shards=("one",)))
    asyncio.run(admin.add(files.url, SET, {"two": files.place("two")}, base=Base))
    assert [("0001",)] == files.sql("two", "SELECT version_num FROM alembic_version")


BAD = {
    "another database": (
        {"url": "'sqlite:///other.db'"},
        r"database that env.py opens is 'sqlite:///other.db', expected shard one",
    ),
    "the database of another shard": (
        {"url": "'sqlite:///two.db'"},
        r"shard of shard one is 'two', expected one, as the control store says",
    ),
    "no metadata": ({"metadata": "None"}, r"target_metadata in env.py is 'without sharded tables'"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_environment_that_would_do_harm_is_refused_before_anything_is_changed(tmp_path, scripts, case, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    files = stamped(Files(tmp_path))
    options, message = BAD[case]
    scripts.environment(**options)
    scripts.revision("0002", "0001", BATCH)
    with pytest.raises(InvalidInput, match=message):
        scripts.migrate(files)
    assert {"one": "0001", "two": "0001"} == revisions(files)
    assert asyncio.run(admin.status(files.url, SET)).migration is None
    if case == "another database":
        with closing(sqlite3.connect("other.db")) as connection:
            assert [] == connection.execute("SELECT * FROM sqlite_schema").fetchall()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"heads of the revisions is '0002, 0003', expected one"),
        ({"to": "0009"}, r"revision is '0009', expected the id of a revision, or head"),
        ({"to": "base"}, r"revision is 'base'"),
        ({"canary": "three"}, r"canary is 'three', expected one of"),
        ({"parallel": 0}, r"parallel is 0"),
    ],
)
def test_two_heads_and_unknown_names_are_refused(tmp_path, scripts, options, message):
    files = stamped(Files(tmp_path, shards=("one",)))
    scripts.revision("0002", "0001")
    scripts.revision("0003", "0001")
    with pytest.raises(InvalidInput, match=message):
        scripts.migrate(files, **options)


def test_a_downgrade_is_refused(tmp_path, scripts):
    files = stamped(Files(tmp_path, shards=("one",)), "0002")
    scripts.revision("0002", "0001")
    with pytest.raises(InvalidInput, match=r"'0001', expected one that follows 0002"):
        scripts.migrate(files, to="0001")


def test_without_alembic_or_its_file_the_next_step_is_named(tmp_path, scripts, monkeypatch):
    files = Files(tmp_path, shards=("one",))
    with pytest.raises(InvalidInput, match="settings of Alembic"):
        asyncio.run(admin.migrate(files.url, SET, config=tmp_path / "absent.ini"))
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(MissingExtra, match=r"pip install 'apportion\[alembic\]'"):
        scripts.migrate(files)


def test_a_migration_after_a_pin_that_was_cut_off_does_not_wait_for_its_own_lock(tmp_path, scripts, monkeypatch):
    """The migration takes the pin back first. So it locks a file that another process is to lock alone."""

    class Died(Exception):
        pass

    def dies(label):
        if label == "raise.after":
            raise Died

    files = stamped(Files(tmp_path, shards=("one",)))
    scripts.revision("0002", "0001", BATCH)
    monkeypatch.setattr(carrier, "stop_point", lambda: dies)
    with pytest.raises(Died):
        asyncio.run(admin.pin(files.url, SET, ["FR"], base=Base))
    monkeypatch.undo()
    assert {"one": ("done", "0002")} == states(scripts.migrate(files))


@pytest.mark.parametrize("table", ["street", "town"])
def test_the_triggers_of_children_in_a_file_that_had_rows_are_made_again(tmp_path, scripts, table):
    """Such a file has no foreign key over the slot. So these triggers alone keep a child with its parent.

    SQLite renames no table while such a trigger names a parent that is gone.
    """
    old = OldFile(tmp_path)
    old.take(("one",))
    triggers = old.sql("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1")
    scripts.environment(metadata="OldBase.metadata")
    environment = scripts.folder / "env.py"
    environment.write_text(f"from tests.shards.takeover.old_file import OldBase\n{environment.read_text()}")
    old.sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    old.sql("INSERT INTO alembic_version VALUES ('0001')")
    scripts.revision("0002", "0001", BATCH.replace("place", table))
    assert {"one": ("done", "0002")} == states(scripts.migrate(old))
    assert triggers == old.sql("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1")
    with pytest.raises(sqlite3.IntegrityError, match="a child has the slot of its parent"):
        old.sql("UPDATE street SET town_id = town_id + 1")
