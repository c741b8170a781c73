"""An empty database joins a set: it gets the tables of the other shards, owns no slot, and nothing is done twice."""

import asyncio
import shutil
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import select

import apportion
from apportion import Assignment, Node
from apportion.errors import InvalidInput, SchemaDiffers
from apportion.shards import admin
from apportion.stores.catalog import connect
from apportion.stores.sqlite import place
from apportion.tables.publisher import Publisher
from tests.shards.sample import SET, SLOTS, Base, Files, Place
from tests.shards.server import OWNER, as_role
from tests.shards.takeover.old_file import SET as OLD_SET
from tests.shards.takeover.old_file import OldBase, OldFile
from tests.shards.takeover.test_survey import CrookedBase


def added(files, shard="two", name=SET, base=Base):
    asyncio.run(admin.add(files.url, name, {shard: f"sqlite:///{files.folder}/{shard}.db"}, base=base))
    return asyncio.run(admin.status(files.url, name)).shards


def test_a_shard_is_added_with_the_weight_0_and_without_a_slot(tmp_path):
    files = Files(tmp_path, shards=("one",))
    for _ in range(2):
        shards = added(files)
        assert [("one", 1.0, SLOTS), ("two", 0.0, 0)] == [(each.id, each.weight, each.slots) for each in shards]
    assert [("two",)] == files.sql("two", "SELECT shard FROM apportion_meta")
    assert [] == files.sql("two", "SELECT * FROM apportion_slot")
    with pytest.raises(sqlite3.IntegrityError, match="apportion: stale route"):
        files.sql("two", "INSERT INTO place (id, country, visits, slot) VALUES ('a', 'FR', 0, 1)")


def test_a_shard_beside_a_file_that_had_rows_has_equal_tables(tmp_path):
    old = OldFile(tmp_path)
    old.take(("one",))
    assert [64, 0] == [each.slots for each in added(old, name=OLD_SET, base=OldBase)]


def test_absent_triggers_are_made_again(tmp_path):
    files = Files(tmp_path, shards=("one",))
    files.sql("one", "DROP TRIGGER apportion_place_insert")
    added(files, "one")
    with pytest.raises(sqlite3.IntegrityError, match="apportion: stale route"):
        files.sql("one", "INSERT INTO place (id, country, visits, slot) VALUES ('a', 'FR', 0, NULL)")


def test_an_absent_trigger_of_a_child_is_found_and_made_again_in_a_file_that_had_rows(tmp_path):
    old = OldFile(tmp_path)
    old.take(("one",))
    old.sql("DROP TRIGGER apportion_street_parent_update")
    (found,) = (
        each.found
        for each in asyncio.run(admin.doctor(old.url, OLD_SET, base=OldBase))
        if each.subject == "triggers of one"
    )
    assert "absent: apportion_street_parent_update" == found
    added(old, "one", name=OLD_SET, base=OldBase)
    with pytest.raises(sqlite3.IntegrityError, match="apportion: a child has the slot of its parent"):
        old.sql("UPDATE street SET town_id = town_id + 1")


INDEXES = {
    "sqlite": "SELECT sql FROM sqlite_schema WHERE name = 'visit_by_slot'",
    "postgresql": "SELECT pg_get_indexdef(indexrelid), indisreplident FROM pg_index i JOIN pg_class c "
    "ON c.oid = indexrelid WHERE relname = 'visit_by_slot'",
}


def test_a_lost_index_over_slot_and_key_is_made_again(make_set, kind, monkeypatch):
    files = make_set(kind, shards=("one",))
    as_role(monkeypatch, OWNER)
    before = files.sql("one", INDEXES[kind])
    files.sql("one", "DROP INDEX visit_by_slot")
    asyncio.run(admin.add(files.url, SET, {"one": files.shards["one"].url}, base=Base))
    assert before == files.sql("one", INDEXES[kind])


@pytest.mark.live
def test_another_index_of_this_name_is_refused_and_named(make_set, monkeypatch):
    files = make_set("postgresql", shards=("one",))
    as_role(monkeypatch, OWNER)
    for made in ("INDEX visit_by_slot ON visit (slot, id)", "UNIQUE INDEX visit_by_slot ON visit (id) WHERE slot > 7"):
        files.sql("one", "DROP INDEX visit_by_slot")
        files.sql("one", f"CREATE {made}")
        said = r"^index visit_by_slot of table visit is 'another one', expected a unique one over slot, id\.\nDrop or"
        with pytest.raises(InvalidInput, match=said):
            asyncio.run(admin.add(files.url, SET, {"one": files.shards["one"].url}, base=Base))


def test_tables_that_differ_from_those_of_the_other_shards_are_refused(tmp_path):
    old = OldFile(tmp_path)
    old.take(("one",))
    old.sql("ALTER TABLE town ADD COLUMN mayor TEXT")
    with pytest.raises(SchemaDiffers, match=r"shard one and shard two .*: town\.mayor is absent in two\."):
        added(old, name=OLD_SET, base=OldBase)
    assert ["one"] == [each.id for each in asyncio.run(admin.status(old.url, OLD_SET)).shards]
    assert [] == old.sql("SELECT name FROM sqlite_schema", file="two.db"), "nothing of it is left"


def test_a_database_with_rows_is_refused(tmp_path):
    old = OldFile(tmp_path)
    old.take(("one",))
    (tmp_path / "rich").mkdir()
    rich = OldFile(tmp_path / "rich")
    (tmp_path / "two.db").write_bytes((rich.folder / "one.db").read_bytes())
    with pytest.raises(InvalidInput, match=r"^database of shard two is 'one with rows', expected an empty one"):
        added(old, name=OLD_SET, base=OldBase)


def test_a_shard_of_another_set_is_refused(tmp_path):
    files = Files(tmp_path, shards=("one",))
    (tmp_path / "other").mkdir()
    other = Files(tmp_path / "other", shards=("two",))
    with closing(sqlite3.connect(other.folder / "two.db")) as connection, connection:
        connection.execute("UPDATE apportion_meta SET set_id = 'moon'")
    with pytest.raises(InvalidInput, match=r"^set_id of shard two is 'moon', expected world"):
        asyncio.run(admin.add(files.url, SET, {"two": f"sqlite:///{other.folder}/two.db"}, base=Base))


def test_the_id_of_a_shard_that_is_there_is_refused_for_another_file(tmp_path):
    files = Files(tmp_path, shards=("one",))
    with pytest.raises(InvalidInput, match=r"^URL of shard one is "):
        asyncio.run(admin.add(files.url, SET, {"one": f"sqlite:///{tmp_path}/two.db"}, base=Base))


def test_a_copy_of_the_database_of_another_shard_is_refused_before_anything_is_made(tmp_path):
    files = Files(tmp_path, shards=("one",))
    shutil.copyfile(tmp_path / "one.db", tmp_path / "copy.db")
    both = {"two": f"sqlite:///{tmp_path}/two.db", "zoo": f"sqlite:///{tmp_path}/copy.db"}
    with pytest.raises(
        InvalidInput, match=r"^database of shard zoo is .*, expected another one than that of shard one\."
    ) as refused:
        asyncio.run(admin.add(files.url, SET, both, base=Base))
    assert "Give each shard a database of its own. Nothing was written." == refused.value.hint
    assert not (tmp_path / "two.db").exists()


def test_a_shard_that_a_restored_store_does_not_know_is_added_under_its_own_id_alone(tmp_path):
    files, saved = Files(tmp_path, shards=("one",)), tmp_path / "saved"
    shutil.copyfile(tmp_path / "control.db", saved)
    added(files)
    shutil.copyfile(saved, tmp_path / "control.db")
    with pytest.raises(InvalidInput, match=r"^database of shard zoo is 'shard two of this set', expected an empty one"):
        asyncio.run(admin.add(files.url, SET, {"zoo": f"sqlite:///{tmp_path}/two.db"}, base=Base))
    assert ["one", "two"] == [each.id for each in added(files)]


@pytest.mark.live
def test_the_database_of_another_shard_is_refused_under_another_name_of_its_host(make_set, monkeypatch, tmp_path):
    made = make_set("postgresql", shards=("one",))
    as_role(monkeypatch, OWNER)
    alias = made.shards["one"].url.replace("127.0.0.1", "localhost")
    said = f"^database of shard two is '{made.name('one')}', expected another one than that of shard one"
    with pytest.raises(InvalidInput, match=said) as refused:
        asyncio.run(admin.add(made.url, SET, {"two": alias}, base=Base))
    assert "Nothing was written." in refused.value.hint
    new = made.place("new")
    both = {"a": new, "b": new.replace("127.0.0.1", "localhost")}
    with pytest.raises(
        InvalidInput, match=f"^database of shard b is '{made.name('new')}', expected .* that of shard a"
    ):
        asyncio.run(admin.add(made.url, SET, both, base=Base))
    assert [] == made.sql("new", "SELECT 1 FROM pg_namespace WHERE nspname = 'apportion'")
    assert ["one"] == [each.id for each in asyncio.run(admin.status(made.url, SET)).shards]


@pytest.mark.live
def test_a_server_that_takes_no_writes_as_a_standby_does_is_refused(make_set, monkeypatch):
    made = make_set("postgresql", shards=("one",))
    as_role(monkeypatch, OWNER)
    url = made.place("idle")
    made.sql("idle", f"ALTER DATABASE {made.name('idle')} SET default_transaction_read_only = on")
    with pytest.raises(InvalidInput, match=r"^server of shard two is 'one that takes no writes', expected the primary"):
        asyncio.run(admin.add(made.url, SET, {"two": url}, base=Base))
    assert ["one"] == [each.id for each in asyncio.run(admin.status(made.url, SET)).shards]


def test_keys_that_two_shards_would_give_out_are_refused(tmp_path):
    files = Files(tmp_path, shards=("one",))
    for act in (
        admin.add(files.url, SET, {"two": f"sqlite:///{tmp_path}/two.db"}, base=CrookedBase),
        admin.init(files.url, "moon", {each: f"sqlite:///{tmp_path}/{each}.db" for each in "ab"}, base=CrookedBase),
    ):
        with pytest.raises(InvalidInput, match=r"^model of firm is 'the database gives out id'"):
            asyncio.run(act)


@pytest.mark.parametrize("shard", ["a b", "a'b", 'a"b', "a\nb", "x" * 64])
def test_a_shard_has_a_plain_short_name(tmp_path, shard):
    files = Files(tmp_path, shards=("one",))
    with pytest.raises(InvalidInput, match=r"^shard id is "):
        asyncio.run(admin.add(files.url, SET, {shard: f"sqlite:///{tmp_path}/two.db"}, base=Base))
    assert not (tmp_path / "two.db").exists()


def test_a_file_system_of_a_network_is_refused(tmp_path, monkeypatch):
    files = Files(tmp_path, shards=("one",))
    monkeypatch.setattr(place, "file_system", lambda path: "nfs4")
    for act in (added, lambda files: Files(tmp_path, shards=("b",))):
        with pytest.raises(InvalidInput, match=r"^file system of the store is 'nfs4 at "):
            act(files)


def moved_to(files, slot, shard):
    """Give a slot to a shard, as a mover does with a slot that has no rows."""

    async def published():
        store = await connect(files.url)
        try:
            publisher = Publisher(store, SET)
            table = await publisher.newest()
            topology = table.topology.add(Node(shard, weight=0))
            names = [topology.nodes[owner].id for owner in (topology.index("one"), topology.index(shard))]
            rows = [(topology.index(names[place == slot]),) for place in range(SLOTS)]
            return (await publisher.publish(Assignment(topology=topology, rows=tuple(rows), names=table.names))).version
        finally:
            await store.close()

    files.state("one", slot, "moved")
    version = asyncio.run(published())
    files.state(shard, slot, "owner", number=version.number, life=version.incarnation)


def test_a_router_that_is_open_goes_to_a_shard_that_was_added_later(tmp_path):
    files = Files(tmp_path, shards=("one",))
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        router.run("FR", lambda session: session.execute(select(Place)).all())
        added(files)
        moved_to(files, router.slot("FR"), "two")
        router.run("FR", lambda session: session.add(Place(country="FR")))
        assert "two" == router.shard("FR")
    assert [(1,)] == files.sql("two", "SELECT count(*) FROM place")


def test_an_async_router_goes_to_a_shard_that_was_added_later(tmp_path):
    files = Files(tmp_path, shards=("one",))

    async def work(session):
        session.add(Place(country="FR"))

    async def main():
        async with apportion.open_shards(files.url, SET, base=Base) as router:
            await asyncio.to_thread(added, files)
            await asyncio.to_thread(moved_to, files, router.slot("FR"), "two")
            await router.run("FR", work)

    asyncio.run(main())
    assert [(1,)] == files.sql("two", "SELECT count(*) FROM place")
