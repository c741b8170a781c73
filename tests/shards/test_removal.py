"""A shard leaves its set, on both kinds of databases: nothing of the set is left there, and no row is lost."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from time import monotonic

import pytest
from sqlalchemy import create_engine

import apportion
from apportion.errors import InvalidInput, StaleRoute, StoreUnavailable, UnknownOption
from apportion.shards import admin, place
from apportion.shards.admin import departure
from apportion.shards.dialects import address_of
from apportion.shards.forms import sync_form
from apportion.shards.records import ShardRecord
from apportion.tables.follower import Follower
from tests.shards.sample import SET, Base, Place
from tests.shards.server import OWNER, as_role

COUNTRIES = [f"C{number}" for number in range(12)]
NOW = timedelta(0)
_CATALOGS = {
    "sqlite": ["SELECT type, name, sql FROM sqlite_schema ORDER BY name"],
    "postgresql": [
        "SELECT nspname FROM pg_namespace WHERE NOT starts_with(nspname::text, 'pg_') ORDER BY 1",
        "SELECT relnamespace::regnamespace::text, relname FROM pg_class"
        " WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace) ORDER BY 1, 2",
        "SELECT pronamespace::regnamespace::text, proname FROM pg_proc"
        " WHERE pronamespace <> 'pg_catalog'::regnamespace ORDER BY 1, 2",
        "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
        "SELECT conrelid::regclass::text, conname FROM pg_constraint ORDER BY 1, 2",
    ],
}


@pytest.fixture
def world(make_set, kind, monkeypatch):
    """A set of two databases with a place of each country."""
    as_role(monkeypatch, OWNER)
    made = make_set(kind, shards=("one", "two"))
    with apportion.sync.open_shards(made.url, SET, base=Base) as router:
        for country in COUNTRIES:
            router.run(country, lambda session, country=country: session.add(Place(country=country)))
    return made


def act(name, world, *words, **options):
    return asyncio.run(getattr(admin, name)(world.url, SET, *words, **options))


def joined(world, shard="four"):
    act("add", world, {shard: world.place(shard)}, base=Base)


def ids(world):
    return [each.id for each in act("status", world).shards]


def count(world, shard):
    [(found,)] = world.sql(shard, "SELECT count(*) FROM place")
    return found


def catalogs(world, shard):
    return [world.sql(shard, each) for each in _CATALOGS[world.kind]]


def written(router):
    for country in COUNTRIES:
        router.run(country, lambda session, country=country: session.add(Place(country=country)))


def emptied(world, shard):
    act("drain", world, shard)
    act("clean", world, soak=NOW)


def test_a_shard_that_joined_and_left_has_the_catalogs_of_before_and_may_join_again(world):
    engine = create_engine(address_of(ShardRecord(url=world.place("four")).address(), sync_form.drivers))
    Base.metadata.create_all(engine)
    engine.dispose()
    before = catalogs(world, "four")
    joined(world)
    with apportion.sync.open_shards(world.url, SET, base=Base) as router:
        act("apply", world, act("plan", world, weights={"four": 1}))
        written(router)
        assert count(world, "four")
        act("clean", world, soak=NOW)
        emptied(world, "four")
        act("remove", world, "four")
        assert before == catalogs(world, "four")
        assert ["one", "two"] == ids(world)
        written(router)
    assert (36, 0, 0) == ((whole := act("verify", world, base=Base)).rows, whole.left, whole.faulty)
    joined(world)
    act("apply", world, act("plan", world, slots=range(8), to="four"))
    assert {"four": 8} == {each.id: each.slots for each in act("status", world).shards if each.id == "four"}


def test_a_router_with_an_old_table_gets_a_stale_route_from_a_shard_that_left(world, monkeypatch):
    with (
        apportion.sync.open_shards(world.url, SET, base=Base) as old,
        apportion.sync.open_shards(world.url, SET, base=Base) as unused,
    ):
        written(old)
        table, country = old.table, next(each for each in COUNTRIES if old.shard(each) == "one")
        emptied(world, "one")
        joined(world)
        act("remove", world, "one")
        for router in (old, unused):
            with monkeypatch.context() as cut:  # both routers hear nothing of the moves
                cut.setattr(type(router), "table", table)
                cut.setattr(Follower, "refresh", silent)
                with pytest.raises(StaleRoute), router.session(country) as session:
                    session.connection()
            written(router)
    assert 48 == count(world, "two")


async def silent(*_, **__):
    raise StoreUnavailable("the control store", "it was cut off")


def test_a_shard_with_slots_moves_or_rows_is_refused_and_keeps_its_triggers(world):
    with pytest.raises(UnknownOption, match="shard is 'four'"):
        act("remove", world, "four")
    with pytest.raises(InvalidInput, match="one, with 32 slots") as refusal:
        act("remove", world, "one")
    assert "apportion shards drain URL SET one" in refusal.value.hint
    act("drain", world, "one")
    before = catalogs(world, "one")
    for force in (False, True):
        with pytest.raises(InvalidInput, match=r"one, with move [-0-9a-f]+, which is complete") as refusal:
            act("remove", world, "one", force=force)
        assert "apportion shards clean URL SET" in refusal.value.hint
    act("clean", world, soak=NOW)
    plant(world, "one")
    with pytest.raises(InvalidInput, match=r"one, with rows in table .*place.*, expected one without rows") as refusal:
        act("remove", world, "one")
    assert "apportion shards verify" in refusal.value.hint
    assert (before, ["one", "two"]) == (catalogs(world, "one"), ids(world))


def plant(world, shard):
    """Write a row that no trigger sees."""
    bare = f"INSERT INTO place (id, country, visits, slot) VALUES ('{'0' * 32}', 'FR', 0, 1)"
    statements = ["INSERT INTO apportion_mover VALUES ('me')", bare, "DELETE FROM apportion_mover"]
    if world.kind == "postgresql":
        statements = [f"SET session_replication_role = replica; {bare}"]
    for statement in statements:
        world.sql(shard, statement)


def test_a_row_in_a_table_without_its_index_is_found_too(world):
    emptied(world, "one")
    plant(world, "one")
    drop = {"sqlite": "DROP INDEX place_by_slot", "postgresql": "ALTER INDEX place_by_slot RENAME TO another"}
    world.sql("one", drop[world.kind])
    before = catalogs(world, "one")
    with pytest.raises(InvalidInput, match=r"one, with rows in table .*place"):
        act("remove", world, "one")
    assert before == catalogs(world, "one")


def test_the_last_shard_with_a_weight_stays(world):
    joined(world)
    emptied(world, "one")
    with pytest.raises(InvalidInput, match="shard is 'two', expected a shard in a set where another"):
        act("remove", world, "two")
    act("remove", world, "four")
    assert ["one", "two"] == ids(world)


def test_a_removal_that_was_cut_off_is_finished_by_the_same_call(world, monkeypatch):
    emptied(world, "one")

    class Cut(Exception):
        pass

    async def cut(*_):
        raise Cut

    with monkeypatch.context() as death:
        death.setattr(departure, "_forget", cut)
        with pytest.raises(Cut):
            act("remove", world, "one")
    assert ["one", "two"] == ids(world)
    with pytest.raises(InvalidInput, match="database of shard one is 'no shard of a set'") as refusal:
        act("verify", world, base=Base)
    assert "apportion shards remove URL SET ID" in refusal.value.hint
    act("remove", world, "one")
    assert ["two"] == ids(world)
    with pytest.raises(UnknownOption):
        act("remove", world, "one")


def test_a_set_that_is_made_again_gives_no_slot_to_a_database_that_has_left(world, monkeypatch):
    owners = act("status", world).table.owners
    act("apply", world, act("plan", world, slots=[each for each in owners if owners[each] == "one"], to="two"))
    act("clean", world, soak=NOW)

    async def cut(*_):
        raise KeyError

    with monkeypatch.context() as death:
        death.setattr(departure, "_forget", cut)
        with pytest.raises(KeyError):
            act("remove", world, "one")
    act("init", world, {shard: world.place(shard) for shard in ("one", "two")}, base=Base, slots=64)
    assert [] == [each for each in act("doctor", world, base=Base) if each.verdict == "error"]
    act("remove", world, "one")
    assert ["two"] == ids(world)


def test_a_shard_that_moves_half_way_is_refused_until_its_moves_have_ended(world):
    joined(world)

    class Cut(Exception):
        pass

    def cut(event):
        if event.step == "verify":
            raise Cut

    with pytest.raises(Cut):
        act("apply", world, act("plan", world, slots=range(64), to="four"), observer=cut)
    for force in (False, True):
        with pytest.raises(InvalidInput, match=r"four, with move [-0-9a-f]+, which is (catching-up|verified)"):
            act("remove", world, "four", force=force)
    act("abort", world)
    act("remove", world, "four")
    assert ["one", "two"] == ids(world)
    assert 12 == act("verify", world, base=Base).rows


def test_a_database_that_is_gone_is_removed_by_force_alone_and_without_slots(world):
    joined(world)
    act("apply", world, act("plan", world, slots=range(8), to="four"))
    act("clean", world, soak=NOW)
    gone(world, "four")
    with pytest.raises(InvalidInput, match="four, with 8 slots"):
        act("remove", world, "four", force=True)
    back(world, "four")
    act("apply", world, act("plan", world, slots=range(8), to="one"))
    gone(world, "four")
    with pytest.raises(StoreUnavailable) as refusal:
        act("remove", world, "four")
    assert refusal.value.hint.endswith("--force")
    act("remove", world, "four", force=True)
    assert (["one", "two"], ()) == (ids(world), act("status", world).moves)
    assert 12 == act("verify", world, base=Base).rows
    assert act("plan", world, slots=range(8), to="two").groups
    back(world, "four")


def gone(world, shard):
    if world.kind == "sqlite":
        (world.folder / f"{shard}.db").rename(world.folder / f"{shard}.away")
    else:
        world.rig.sql(f"ALTER DATABASE {world.name(shard)} RENAME TO {world.name(shard)}_away", database="postgres")


def back(world, shard):
    if world.kind == "sqlite":
        (world.folder / f"{shard}.away").rename(world.folder / f"{shard}.db")
    else:
        world.rig.sql(f"ALTER DATABASE {world.name(shard)}_away RENAME TO {world.name(shard)}", database="postgres")


def test_a_locked_file_is_not_gone(make_set, monkeypatch):
    files = make_set("sqlite")
    emptied(files, "one")
    monkeypatch.setattr(place, "LOCK_SECONDS", 0.01)
    with closing(sqlite3.connect(files.folder / "one.db", isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="database is locked") as refusal:
            act("remove", files, "one", force=True)
    assert "--force" not in refusal.value.hint
    (files.folder / "one.db").write_bytes(b"no database" * 99)
    with pytest.raises(StoreUnavailable, match="not a database") as refusal:
        act("remove", files, "one")
    assert refusal.value.hint.endswith("--force")
    act("remove", files, "one", force=True)
    assert ["two"] == ids(files)


@pytest.mark.live
def test_a_server_that_refuses_a_password_is_not_gone(make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    world = make_set("postgresql")
    emptied(world, "one")
    with monkeypatch.context() as wrong:
        wrong.setenv("SERVER_SECRET", "wrong")
        with pytest.raises(StoreUnavailable, match="password authentication failed") as refusal:
            act("remove", world, "one", force=True)
    assert "--force" not in refusal.value.hint
    assert ["one", "two"] == ids(world)


@pytest.mark.live
def test_the_log_of_a_lost_move_goes_with_its_shard(make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    world = make_set("postgresql")
    emptied(world, "one")
    world.sql("one", 'CREATE TABLE apportion."log_50% lost" (id bigint)'.replace("%", "%%"), ())
    act("remove", world, "one")
    assert [("information_schema",), ("public",)] == catalogs(world, "one")[0]


@pytest.mark.live
@pytest.mark.slow
def test_a_session_that_waits_for_a_removal_gets_a_stale_route(make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    world = make_set("postgresql")
    with (
        apportion.sync.open_shards(world.url, SET, base=Base) as router,
        ThreadPoolExecutor() as threads,
        world.connect("one") as reader,
    ):
        written(router)
        table, country = router.table, next(each for each in COUNTRIES if router.shard(each) == "one")
        emptied(world, "one")
        monkeypatch.setattr(type(router), "table", table)
        monkeypatch.setattr(Follower, "refresh", silent)
        reader.execute("SELECT FROM place")
        removal = threads.submit(act, "remove", world, "one")
        waiting(world, 1)
        write = threads.submit(router.run, country, lambda session: session.add(Place(country=country)))
        waiting(world, 2)
        reader.rollback()
        removal.result()
        with pytest.raises(StaleRoute):
            write.result()


def waiting(world, count):
    """Wait until so many transactions on shard one wait for a lock."""
    until = monotonic() + 4
    waits = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
    while world.sql("one", waits) != [(count,)]:
        assert monotonic() < until
