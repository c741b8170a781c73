"""A move that would stop later is refused before anything of it is made, and the doctor says the same."""

import asyncio
import re
import shutil
from collections import namedtuple

import pytest

from apportion.errors import InvalidInput, SchemaDiffers
from apportion.shards import admin
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.readiness import ServerFacts, require_ready
from tests.shards.sample import SET, Base, Files
from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_ddl import IN_PARTS, run

GENERATED = (
    "ALTER TABLE visit DROP COLUMN slot CASCADE",
    "ALTER TABLE visit ADD slot smallint NOT NULL GENERATED ALWAYS AS (3) STORED",
)
INDEX = "CREATE UNIQUE INDEX visit_by_slot ON visit (slot, id)"
SPACE = namedtuple("SPACE", "total used free")


def refused(files, error=InvalidInput):
    """Return the refusal of a plan that empties shard one, after a look that nothing was made."""
    before = {shard: files.sql(shard, "SELECT * FROM apportion_slot ORDER BY slot") for shard in ("one", "two")}

    async def main():
        plan = await admin.plan(files.url, SET, weights={"one": 0})
        with pytest.raises(error) as refusal:
            await admin.apply(files.url, SET, plan)
        assert () == (await admin.status(files.url, SET)).moves
        return refusal.value

    found = asyncio.run(main())
    assert before == {shard: files.sql(shard, "SELECT * FROM apportion_slot ORDER BY slot") for shard in before}
    return found


def told(files):
    """Return the faults that the doctor tells, without the models."""
    found = asyncio.run(admin.doctor(files.url, SET, base=None, is_whole=False))
    return [(each.subject, f"{each.found} {each.advice}") for each in found if each.verdict != "ok"]


def test_the_doctor_asks_for_a_move_between_the_shards(tmp_path):
    found = asyncio.run(admin.doctor(Files(tmp_path).url, SET, base=Base, is_whole=False))
    assert [("move from one to two", "nothing would stop it", "ok")] == [
        (each.subject, each.found, each.verdict) for each in found if each.subject.startswith("move")
    ]


def test_rows_that_no_move_brought_are_refused_on_a_file(tmp_path):
    files = Files(tmp_path)
    files.sql("two", "INSERT INTO apportion_mover VALUES ('me')")
    files.sql("two", "INSERT INTO place (id, country, visits, slot) VALUES (hex(zeroblob(16)), 'FR', 0, 3)")
    files.sql("two", "DELETE FROM apportion_mover")
    error = refused(files)
    assert error.problem == "table place of shard two is 'rows of slot 3', expected no rows of the moving slots."
    assert [("move from one to two", f"{error.problem} {error.hint}")] == told(files)


def test_tables_that_differ_are_told_by_the_doctor_in_the_words_of_apply(tmp_path):
    files = Files(tmp_path)
    files.sql("two", "ALTER TABLE place ADD COLUMN height integer")
    error = refused(files, SchemaDiffers)
    assert "place.height" in error.problem
    assert [("move from one to two", f"{error.problem} {error.hint}")] == told(files)


def test_rows_that_a_move_has_left_are_no_obstacle(tmp_path):
    files = Files(tmp_path)
    files.state("two", 3, "moved")
    files.sql("two", "INSERT INTO apportion_mover VALUES ('me')")
    files.sql("two", "INSERT INTO place (id, country, visits, slot) VALUES (hex(zeroblob(16)), 'FR', 0, 3)")
    files.sql("two", "DELETE FROM apportion_mover")
    assert asyncio.run(moved(files)).is_whole
    assert [] == files.sql("two", "SELECT * FROM place")


async def moved(files):
    return await admin.apply(files.url, SET, await admin.plan(files.url, SET, weights={"one": 0}))


@pytest.mark.parametrize("free", [0, 10**6])
def test_a_full_disk_is_seen_before_the_copy(tmp_path, monkeypatch, free):
    files = Files(tmp_path)
    row = "INSERT INTO place (id, country, visits, slot) VALUES (hex(randomblob(16)), 'FR', 0, 3)"
    files.sql("one", row)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SPACE(total=10**7, used=0, free=free))
    if free:
        assert asyncio.run(moved(files)).is_whole
    else:
        assert "free bytes on the disk of shard two is 0, expected at least" in refused(files).problem


WELL = {
    "is_standby": False,
    "texts": ("UTF8", "c", "C", "C"),
    "unlogged": (),
    "generated": (),
    "heirs": (),
    "prepared": (),
}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"is_standby": True}, "server of shard two is 'a standby', expected the primary server"),
        ({"texts": ("LATIN1", "c", "C", "C")}, "encoding and collation of shard two is 'LATIN1, C, C (provider c)'"),
        ({"texts": ("UTF8", "i", "C", "C")}, "expected UTF8, C, C (provider c), as in shard one"),
        ({"unlogged": ("public.a", "public.b")}, "tables of shard two is 'the unlogged table public.a'"),
        (
            {"generated": ("public.a",)},
            "tables of shard two is 'the generated column slot of public.a', expected a plain",
        ),
        ({"heirs": ("public.a",)}, "tables of shard two is 'the table public.a, which inherits from a sharded one'"),
        ({"prepared": ("late",)}, "transactions of shard two is 'the prepared transaction late'"),
    ],
)
def test_a_server_that_cannot_take_rows_is_named(fault, said):
    group = MoveGroup(move="m", source="one", target="two", slots=(3,))
    require_ready(group, ServerFacts(**WELL), ServerFacts(**WELL))
    with pytest.raises(InvalidInput, match=re.escape(said)):
        require_ready(group, ServerFacts(**WELL), ServerFacts(**WELL | fault))


@pytest.mark.live
class TestServers:
    """The same on PostgreSQL."""

    @pytest.fixture
    def files(self, make_set, monkeypatch):
        as_role(monkeypatch, OWNER)
        return make_set("postgresql")

    def test_a_set_that_is_well_is_told_so(self, files):
        assert [] == told(files)

    @pytest.mark.parametrize("shard", ["one", "two"])
    def test_an_unlogged_table_is_refused(self, files, shard):
        files.sql(shard, "ALTER TABLE photo SET UNLOGGED")
        error = refused(files)
        assert f"tables of shard {shard} is 'the unlogged table public.photo'" in error.problem
        assert "ALTER TABLE public.photo SET LOGGED" in error.hint
        assert [("move from one to two", f"{error.problem} {error.hint}")] == told(files)

    def test_an_unlogged_partition_is_refused(self, files):
        run(files, ("one", "two"), *IN_PARTS)
        assert [] == told(files)
        files.sql("two", "ALTER TABLE place_fr SET UNLOGGED")
        error = refused(files)
        assert "tables of shard two is 'the unlogged table public.place_fr'" in error.problem
        assert [("move from one to two", f"{error.problem} {error.hint}")] == told(files)

    @pytest.mark.parametrize("shards", [("one",), ("two",), ("one", "two")])
    def test_a_generated_slot_is_refused_until_it_is_plain_again(self, files, shards):
        run(files, shards, *GENERATED)
        error = refused(files)
        assert f"tables of shard {shards[0]} is 'the generated column slot of public.visit'" in error.problem
        assert [("move from one to two", f"{error.problem} {error.hint}")] == told(files)
        assert "ALTER TABLE public.visit ALTER slot DROP EXPRESSION. Then make its unique index " in error.hint
        assert f"apportion shards add URL SET {shards[0]}=URL" in error.hint
        run(files, shards, "ALTER TABLE public.visit ALTER slot DROP EXPRESSION", INDEX)
        for shard in shards:
            asyncio.run(admin.add(files.url, SET, {shard: files.shards[shard].url}, base=Base))
        assert asyncio.run(moved(files)).is_whole

    def test_rows_that_no_move_brought_are_refused(self, files):
        row = "INSERT INTO place (slot, id, country, visits) VALUES (3, gen_random_uuid(), 'FR', 1)"
        with files.connect("two") as connection:
            connection.execute("SET LOCAL session_replication_role = replica")
            connection.execute(row)
        assert "table public.place of shard two is 'rows of slot 3'" in refused(files).problem
        assert [(3,)] == files.sql("two", "SELECT slot FROM place")

    def test_a_column_that_one_shard_lacks_is_refused(self, files):
        files.sql("two", "ALTER TABLE place ADD COLUMN height integer")
        assert "place" in f"{refused(files, SchemaDiffers)}"

    @pytest.mark.parametrize("shard", ["one", "two"])
    def test_a_table_that_inherits_from_a_sharded_one_is_refused(self, files, shard):
        files.sql(shard, "CREATE TABLE old_place () INHERITS (place)")
        error = refused(files)
        assert f"tables of shard {shard} is 'the table public.old_place, which inherits" in error.problem
        assert [("move from one to two", f"{error.problem} {error.hint}")] == told(files)

    def test_a_prepared_transaction_is_refused_before_anything_is_made(self, files):
        with files.connect("one") as owner:
            owner.execute("SELECT slot FROM apportion.slot FOR SHARE")
            owner.execute("PREPARE TRANSACTION 'from before'")
        try:
            error = refused(files)
            assert "transactions of shard one is 'the prepared transaction from before'" in error.problem
            assert [("move from one to two", f"{error.problem} {error.hint}")] == told(files)
        finally:
            files.sql("one", "ROLLBACK PREPARED 'from before'")
