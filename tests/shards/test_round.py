"""Rounds: each slot of a set comes once, in a session that sees its rows alone, and nothing stays open."""

import asyncio
import gc
import sqlite3
from collections import Counter
from contextlib import aclosing, closing, suppress

import pytest
from sqlalchemy import String, func, insert, select, text, union_all
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, joinedload, mapped_column, selectinload

import apportion
from apportion.errors import InvalidInput, StaleRoute, StoreClosed
from apportion.shards import Sharded, admin
from apportion.shards.round import round as rounds
from apportion.sync import shards as sync_shards
from tests.shards.sample import SET, SLOTS, Base, Currency, Files, Photo, Place, Visit

COUNTRIES = [f"C{number}" for number in range(12)]
COUNT = select(func.count()).select_from(Place)


@pytest.fixture
def files(tmp_path):
    """A set with places of twelve countries, and a photo of each."""
    files = Files(tmp_path)
    with opened(files) as router:
        for number, country in enumerate(COUNTRIES):
            place = Place(country=country, visits=number)
            router.run(country, lambda session, place=place: session.add_all([place, Photo(place=place)]))
    return files


@pytest.fixture
def logged(files):
    """The set with a write-ahead log, in which a reader delays no writer."""
    for shard in files.shards:
        files.sql(shard, "PRAGMA journal_mode = wal")
    return files


def opened(files, **options):
    return apportion.sync.open_shards(files.url, SET, base=Base, **options)


def moved(files, router, country):
    """Move the slot of a country to the other shard."""
    slot, source = router.slot(country), router.shard(country)
    target = {"one": "two", "two": "one"}[source]
    carried(files, slot, source, target)
    number = files.publish(slot, target).number
    files.state(target, slot, "owner", number, 1)
    files.state(source, slot, "moved")


def carried(files, slot, source, target):
    """Copy the rows of a slot as a mover does: no trigger refuses them. The source keeps its rows."""
    for table, columns in (("place", "id, country, visits, slot"), ("photo", "id, place_id, slot")):
        rows = files.sql(source, f"SELECT {columns} FROM {table} WHERE slot = ?", (slot,))
        with closing(sqlite3.connect(files.folder / f"{target}.db")) as connection, connection:
            connection.execute("INSERT INTO apportion_mover VALUES ('x')")
            marks = ", ".join("?" for _ in columns.split(","))
            connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)
            connection.execute("DELETE FROM apportion_mover")


def assert_unlocked(files):
    """No transaction of this process is open on a shard: a writer of another one needs no wait."""
    for shard in files.shards:
        with closing(sqlite3.connect(files.folder / f"{shard}.db", timeout=0)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS written (id INTEGER)")
            connection.execute("INSERT INTO written VALUES (1)")


def test_each_slot_comes_once_with_its_rows(files):
    with opened(files) as router:
        parts = [(shard.id, shard.slots, shard.session.scalars(select(Place)).all()) for shard in router.each()]
        assert ["one", "two"] == [shard for shard, _, _ in parts]
        assert [*range(SLOTS)] == sorted(slot for _, slots, _ in parts for slot in slots)
        assert sorted(COUNTRIES) == sorted(place.country for _, _, places in parts for place in places)
        assert all(router.shard(place.country) == shard for shard, _, places in parts for place in places)
    assert_unlocked(files)


def test_the_same_calls_work_on_an_event_loop(files):
    async def main():
        async with apportion.open_shards(files.url, SET, base=Base) as router:
            counts = [await shard.session.scalar(COUNT) async for shard in router.each(parallel=2)]
            return counts, [key async for key in router.keys(Place)]

    counts, keys = asyncio.run(main())
    assert 12 == sum(counts)
    assert sorted(COUNTRIES) == sorted(keys)


@pytest.mark.parametrize("parallel", [1, 2, 7])
def test_a_slot_that_moves_between_two_turns_comes_once(logged, parallel):
    with opened(logged) as router:
        first = next(country for country in COUNTRIES if router.shard(country) == "one")
        second = next(country for country in COUNTRIES if router.shard(country) == "two")
        found, turns = Counter(), []
        for shard in router.each(parallel=parallel):
            found.update(shard.session.scalars(select(Place.country)))
            turns.append(shard.id)
            if len(turns) == 1:
                moved(logged, router, first)
                moved(logged, router, second)
    assert dict.fromkeys(COUNTRIES, 1) == found
    assert turns == (["one", "two", "one"] if parallel == 1 else ["one", "two"])


def test_a_turn_without_slots_of_its_own_is_left_out(tmp_path):
    files = Files(tmp_path)
    asyncio.run(admin.add(files.url, SET, {"three": f"sqlite:///{tmp_path}/three.db"}, base=Base))
    with opened(files) as router:
        assert ["one", "two"] == [shard.id for shard in router.each()]


def test_rows_that_a_move_brings_or_leaves_are_seen_once(files):
    with opened(files) as router:
        slot, source = router.slot("C3"), router.shard("C3")
        target = {"one": "two", "two": "one"}[source]
        files.state(target, slot, "incoming")
        carried(files, slot, source, target)
        for state, life in (("owner", None), ("fenced", None)):
            files.state(source, slot, state, life=life)
            assert [source] == [each.id for each in router.each() if slot in each.slots]
            assert 12 == sum(shard.session.scalar(COUNT) for shard in router.each())
        files.state(target, slot, "incoming", 1, 1)  # the switch is near: nobody has written there
        assert [source] == [each.id for each in router.each() if slot in each.slots]
        files.state(source, slot, "moved")
        assert [target] == [each.id for each in router.each() if slot in each.slots]
        assert 12 == sum(shard.session.scalar(COUNT) for shard in router.each())
        files.state(target, slot, "owner", 1, 1)
        files.state(source, slot, "fenced")  # the mover has not come back to it
        assert [target] == [each.id for each in router.each() if slot in each.slots]
        assert 12 == sum(shard.session.scalar(COUNT) for shard in router.each(parallel=2))
        assert sorted(COUNTRIES) == sorted(router.keys(Place))


OTHER = aliased(Place)
PLACES = select(Place.id).cte()
STATEMENTS = {
    "entities": (select(Place), 12),
    "columns": (select(Place.country), 12),
    "an alias": (select(OTHER), 12),
    "a child": (select(Photo), 12),
    "a join": (select(Place.id).join(Photo, Photo.place_id == Place.id), 12),
    "a subquery": (select(Photo).where(Photo.place_id.in_(select(Place.id))), 12),
    "a union": (union_all(select(Place.id), select(Photo.id)), 24),
    "a CTE": (select(Photo).join(PLACES, PLACES.c.id == Photo.place_id), 12),
    "any()": (select(Place).where(Place.photos.any()), 12),
    "exists()": (select(Place.id).where(select(Photo.id).where(Photo.place_id == Place.id).exists()), 12),
    "joined photos": (select(Photo).options(joinedload(Photo.place)), 12),
    "photos in one query": (select(Place).options(selectinload(Place.photos)), 12),
    "text in OR": (select(Place).where(text("visits >= 0 OR visits < 0")), 12),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_sees_rows_of_other_slots(files, name):
    statement, count = STATEMENTS[name]
    with opened(files) as router:
        moved(files, router, "C3")  # its rows still lie on the source
        moved(files, router, "C4")
        assert count == sum(len(shard.session.execute(statement).all()) for shard in router.each())


def test_objects_are_read_again_and_further_rows_are_limited(files):
    with opened(files) as router:
        moved(files, router, "C3")
        found = []
        for shard in router.each():
            places = shard.session.scalars(select(Place)).all()
            shard.session.commit()  # it expires the objects, and ends no transaction
            found += [
                (place.country, len(place.photos), shard.session.get(Place, place.id) is place) for place in places
            ]
    assert [(country, 1, True) for country in sorted(COUNTRIES)] == sorted(found)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (text("SELECT 1"), "one of Core or text"),
        (select(Place.__table__.c.id), "one of Core or text"),
        (select(Place).from_statement(text("SELECT * FROM place")), "one of Core or text"),
        (select(Photo.id, Place.__table__.c.id), "one with a table in place of a model"),
        (select(func.count(Place.id).filter(Place.visits > 1)), "one of Core or text"),
    ],
)
def test_a_statement_that_could_see_rows_of_other_slots_is_refused(files, statement, found):
    with opened(files) as router:
        for shard in router.each():
            with pytest.raises(InvalidInput, match=f"statement is '{found}"):
                shard.session.execute(statement)
    assert_unlocked(files)


def test_text_that_would_end_the_condition_of_slots_is_refused_also_while_nothing_moves(files):
    statement = select(Photo.id).join(Place, text("place.id = photo.place_id OR 1"))
    with opened(files) as router:
        for shard in router.each():
            with pytest.raises(InvalidInput, match="text in a condition is"):
                shard.session.execute(statement)


def test_other_statements_go_to_the_connection(files):
    counted = text("SELECT count(*) FROM place WHERE slot < 1000")
    with opened(files) as router:
        assert 12 == sum(shard.session.connection().execute(counted).scalar_one() for shard in router.each())


def test_a_reference_table_is_read_on_each_shard(files):
    for shard in files.shards:
        files.sql(shard, "INSERT INTO currency VALUES ('EUR')")
    with opened(files) as router:
        assert ["EUR", "EUR"] == [shard.session.scalars(select(Currency.code)).one() for shard in router.each()]


def test_writes_are_refused_by_the_database(files):
    with opened(files) as router:
        for shard in router.each():
            shard.session.add(Place(country="C1", slot=shard.slots[0]))
            with pytest.raises(OperationalError, match="readonly database"):
                shard.session.flush()
            break
        for shard in router.each():
            with pytest.raises(DBAPIError, match="readonly database"):
                shard.session.execute(insert(Place), [{"country": "C1", "slot": shard.slots[0]}])
            break
        assert 12 == sum(shard.session.scalar(COUNT) for shard in router.each())


def test_a_session_ends_with_its_turn_and_with_a_rollback(files):
    with opened(files) as router:
        sessions = []
        for shard in router.each():
            sessions.append(shard.session)
            shard.session.scalar(COUNT)
            shard.session.rollback()
            with pytest.raises(InvalidInput, match=f"session of shard {shard.id} is .one after its transaction"):
                shard.session.scalar(COUNT)
        with pytest.raises(InvalidInput, match="Use the session within its turn"):
            sessions[0].scalar(COUNT)


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_error_in_the_loop_ends_all_transactions(files, parallel):
    def job(router):
        for shard in router.each(parallel=parallel):
            shard.session.scalars(select(Place)).all()
            raise ZeroDivisionError

    with opened(files) as router:
        gc.disable()  # nothing may wait for a collection of garbage
        try:
            with pytest.raises(ZeroDivisionError):
                job(router)
            assert_unlocked(files)
        finally:
            gc.enable()


async def _failed(router, error):
    async for shard in router.each(parallel=2):
        await shard.session.scalar(COUNT)
        raise error


async def _failed_at_once(router, error):
    async with aclosing(router.each(parallel=2)) as parts:
        async for shard in parts:
            await shard.session.scalar(COUNT)
            raise error


async def _unlocked(files):
    """Wait until the loop has closed an iterator that nobody holds."""
    async with asyncio.timeout(5):
        while True:
            with suppress(sqlite3.OperationalError):
                return await asyncio.to_thread(assert_unlocked, files)


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_an_error_in_the_loop_ends_all_transactions_on_an_event_loop(files, error):
    async def main():
        async with apportion.open_shards(files.url, SET, base=Base) as router:
            with pytest.raises(error):
                await _failed(router, error)
            await _unlocked(files)
            with pytest.raises(error):
                await _failed_at_once(router, error)
            await asyncio.to_thread(assert_unlocked, files)

    asyncio.run(main())


def test_the_end_of_the_router_ends_a_round(files):
    with opened(files) as router:
        parts = router.each(parallel=2)
        shard = next(parts)
        shard.session.scalar(COUNT)
    assert_unlocked(files)
    with pytest.raises(StoreClosed):
        shard.session.scalar(COUNT)
    parts.close()


def test_a_shard_that_is_away_ends_the_round_with_its_error(files):
    (files.folder / "two.db").rename(files.folder / "elsewhere.db")
    (files.folder / "two.db").mkdir()  # no file can be opened there
    with opened(files) as router:
        seen = []
        with pytest.raises(OperationalError):
            seen.extend(shard.id for shard in router.each())
        with pytest.raises(OperationalError):
            seen.extend(shard.id for shard in router.each(parallel=2))


def test_a_slot_that_no_shard_answers_for_is_named(files, monkeypatch):
    monkeypatch.setattr(rounds, "SWITCH_SECONDS", 0.1)
    with opened(files) as router:
        shard = router.table.shard(7)
        files.state(shard, 7, "moved")
        found = []
        with pytest.raises(StaleRoute, match=f"'slot 7' is not handled by '{shard}'"):
            found.extend(each.slots for each in router.each())
        with pytest.raises(StaleRoute, match="slot 7"):
            list(router.keys(Place))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"read_only": False}, r"read_only is False, expected True.*router\.keys"),
        ({"read_only": None}, "read_only is None"),
        ({"parallel": 0}, "parallel is 0, expected an int of at least 1"),
        ({"parallel": True}, "parallel is True"),
        ({"parallel": 2.0}, r"parallel is 2\.0"),
    ],
)
def test_wrong_options_are_told_at_the_call(files, options, said):
    with opened(files) as router, pytest.raises(InvalidInput, match=f"(?s){said}"):
        router.each(**options)


@pytest.mark.parametrize("model", [Photo, Currency, Place.__table__, "Place", int, None])
def test_a_class_without_shard_keys_has_no_keys(files, model):
    with opened(files) as router, pytest.raises(InvalidInput, match="expected a model with a shard key: Place, Visit"):
        router.keys(model)


def test_keys_are_distinct_and_may_be_tuples(files):
    with opened(files) as router:
        for year in (2000, 2000, 2001):
            router.run(("C1", year), lambda session, year=year: session.add(Visit(country="C1", year=year)))
        assert [("C1", 2000), ("C1", 2001)] == sorted(router.keys(Visit))


class OwnBase(DeclarativeBase):
    pass


class Town(Sharded, OwnBase):
    __tablename__ = "town"
    __shard_key__ = "name"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(collation="NOCASE"))
    kind: Mapped[str]
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "town"}  # noqa: RUF012 - of SQLAlchemy


class City(Town):
    __mapper_args__ = {"polymorphic_identity": "city"}  # noqa: RUF012 - of SQLAlchemy


def test_keys_that_a_collation_calls_equal_come_both(tmp_path):
    files = Files(tmp_path, slots=1, shards=("one",), base=OwnBase)
    with apportion.sync.open_shards(files.url, SET, base=OwnBase) as router:
        for number, name in enumerate(("bern", "BERN", "Bern", "bern")):
            made = (City if number == 1 else Town)(id=number, name=name)
            router.run(name, lambda session, made=made: session.add(made))
        assert ["BERN", "Bern", "bern"] == sorted(router.keys(Town))
        assert ["BERN"] == [*router.keys(City)]


def test_a_program_writes_while_it_goes_through_the_keys(files):
    with opened(files, pool_size=1) as router:
        for key in router.keys(Place):
            router.run(key, lambda session, key=key: session.add(Place(country=key)))
        assert 24 == sum(shard.session.scalar(COUNT) for shard in router.each())
        assert Counter(COUNTRIES) == Counter(router.keys(Place))


def test_keys_come_once_while_their_slots_move(logged, monkeypatch):
    monkeypatch.setattr(sync_shards, "PAGE_SLOTS", 4)
    found = Counter()
    with opened(logged) as router:
        for key in router.keys(Place):
            found[key] += 1
            moved_back_and_forth(logged, router, COUNTRIES[found.total() % 3])
            moved_back_and_forth(logged, router, key)
    assert dict.fromkeys(COUNTRIES, 1) == found


def moved_back_and_forth(files, router, country):
    """Move the slot of a country. Rows that an earlier move left on the target are deleted first, as a clean does."""
    slot, source = router.slot(country), router.shard(country)
    target = {"one": "two", "two": "one"}[source]
    with closing(sqlite3.connect(files.folder / f"{target}.db")) as connection, connection:
        connection.execute("INSERT INTO apportion_mover VALUES ('x')")
        connection.execute("DELETE FROM photo WHERE slot = ?", (slot,))
        connection.execute("DELETE FROM place WHERE slot = ?", (slot,))
        connection.execute("DELETE FROM apportion_mover")
    before = router.version
    moved(files, router, country)
    router.refreshed(before, 5)


def test_a_key_with_a_slot_of_its_own_is_not_forgotten(files):
    asyncio.run(admin.pin(files.url, SET, ["acme"], base=Base))
    with opened(files) as router:
        router.run("acme", lambda session: session.add(Place(country="acme")))
        assert 13 == sum(shard.session.scalar(COUNT) for shard in router.each())
        assert {"acme", *COUNTRIES} == {*router.keys(Place)}


def test_a_shard_that_comes_during_a_round_is_visited(logged):
    with opened(logged) as router:
        slots = Counter()
        for shard in router.each():
            slots.update(shard.slots)
            if len(slots) == len(shard.slots):
                asyncio.run(admin.add(logged.url, SET, {"three": f"sqlite:///{logged.folder}/three.db"}, base=Base))
                slot = next(slot for slot, owner in router.table.owners.items() if owner == "two")
                number = logged.publish(slot, "three").number
                logged.state("two", slot, "moved")
                logged.state("three", slot, "owner", number, 1)
    assert dict.fromkeys(range(SLOTS), 1) == slots


def test_a_new_shard_may_be_the_owner_of_a_fenced_slot(files):
    with opened(files) as router:
        asyncio.run(admin.add(files.url, SET, {"three": f"sqlite:///{files.folder}/three.db"}, base=Base))
        slot = min(router.table.owners)
        files.state(router.table.shard(slot), slot, "fenced")
        files.state("three", slot, "owner", 1, 1)
        assert ["three"] == [shard.id for shard in router.each() if slot in shard.slots]


def test_a_session_has_the_class_and_options_of_the_application(files):
    class Own(Session):
        def places(self):
            return self.scalars(select(Place)).all()

    with opened(files, session={"class_": Own, "expire_on_commit": False}) as router:
        for shard in router.each():
            assert isinstance(shard.session, Own)
            assert not shard.session.expire_on_commit
            assert shard.session.places()
