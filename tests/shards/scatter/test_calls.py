"""Calls of a scatter: on an event loop and without one, with limits, with a shard that is away, and with objects."""

import asyncio
import gc
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import aliased
from sqlalchemy.orm.exc import DetachedInstanceError

import apportion
from apportion.errors import InvalidInput, NotScatterable, StoreClosed, TimedOut, UnknownOption
from apportion.shards import admin
from tests.shards.sample import SET, Base, Files, Photo, Place

COUNT = select(func.count()).select_from(Place)


@pytest.fixture
def files(tmp_path):
    """A set with places of twelve countries, and a photo of each."""
    files = Files(tmp_path)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number in range(12):
            place = Place(country=f"C{number}", visits=number)
            router.run(place.country, lambda session, place=place: session.add_all([place, Photo(place=place)]))
    return files


def opened(files, **options):
    return apportion.sync.open_shards(files.url, SET, base=Base, **options)


def test_an_answer_is_a_result_with_its_version_and_the_time_of_each_shard(files):
    with opened(files) as router:
        answer = router.scatter(select(Place.country, Place.visits).order_by(Place.visits.desc()).limit(2))
        assert router.version == answer.version
    assert {"one", "two"} == {*answer.seconds}
    assert ((), ["country", "visits"]) == (answer.missing, [*answer.keys()])
    assert [("C11", 11), ("C10", 10)] == answer.all()


def test_the_same_call_works_on_an_event_loop(files):
    async def main():
        async with apportion.open_shards(files.url, SET, base=Base) as router:
            return (await router.scatter(COUNT)).scalar_one()

    assert 12 == asyncio.run(main())


def test_objects_belong_to_no_session(files):
    with opened(files) as router:
        places = router.scatter(select(Place).order_by(Place.visits)).scalars().all()
    assert [*range(12)] == [place.visits for place in places]
    with pytest.raises(DetachedInstanceError):
        places[0].photos  # noqa: B018 - it is read


def test_more_rows_than_expected_are_refused_with_the_next_step(files):
    with opened(files) as router, pytest.raises(NotScatterable, match=r"more than 11 rows: add limit\(\)"):
        router.scatter(select(Place.id), max_rows=11)


@pytest.mark.parametrize(
    ("options", "error"),
    [({"timeout": -1}, InvalidInput), ({"partial": "yes"}, UnknownOption), ({"max_rows": 0}, InvalidInput)],
)
def test_wrong_options_are_told(files, options, error):
    with opened(files) as router, pytest.raises(error, match=next(iter(options)).split("_")[0]):
        router.scatter(COUNT, **options)


def test_a_router_that_has_ended_answers_nothing(files):
    with opened(files) as router:
        pass
    with pytest.raises(StoreClosed):
        router.scatter(COUNT)


def test_a_shard_that_takes_too_long_is_named(files):
    other = aliased(Place)
    pairs = select(func.count()).select_from(Place).join(other, other.slot == Place.slot)
    with opened(files) as router:
        router.run("C1", lambda session: session.add_all(Place(country="C1") for _ in range(3_000)))
        with pytest.raises(TimedOut, match=r"shard (one|two) did not come within 0\.1 s"):
            router.scatter(pairs, timeout=0.1)
        assert 3012 == router.scatter(COUNT, timeout=30).scalar_one()


def test_a_report_names_the_slots_of_a_shard_that_is_away(files):
    with opened(files) as router:
        here = router.scatter(COUNT).scalar_one()
        lost = {slot for slot, shard in router.table.owners.items() if shard == "two"}
        with sqlite3.connect(files.folder / "two.db") as connection:
            connection.execute("ALTER TABLE place RENAME TO elsewhere")
        with pytest.raises(OperationalError):
            router.scatter(COUNT)
        answer = router.scatter(COUNT, partial="report")
    assert lost == {*answer.missing}
    assert {"one"} == {*answer.seconds}
    assert 0 < answer.scalar_one() < here


def test_a_shard_that_cannot_be_reached_is_reported_too(files):
    (files.folder / "two.db").rename(files.folder / "elsewhere.db")
    (files.folder / "two.db").mkdir()  # no file can be opened there
    with opened(files) as router:
        with pytest.raises(OperationalError):
            router.scatter(COUNT)
        answer = router.scatter(COUNT, partial="report")
        assert {"one"} == {*answer.seconds}
        assert all(router.table.owners[slot] == "two" for slot in answer.missing)


def test_no_lock_of_a_shard_outlasts_an_answer(files):
    with opened(files) as router:
        router.run("C1", lambda session: session.add_all(Place(country="C1") for _ in range(200)))
        gc.disable()  # nothing may wait for a collection of garbage
        try:
            assert 100 == len(router.scatter(select(Place.id).order_by(Place.id).limit(100)).all())
            for shard in files.shards:
                with closing(sqlite3.connect(files.folder / f"{shard}.db", timeout=0)) as connection, connection:
                    connection.execute("CREATE TABLE written (id INTEGER)")
        finally:
            gc.enable()


def test_shards_that_come_and_go_are_learnt_from_the_control_store(files):
    three = {"three": f"sqlite:///{files.folder}/three.db"}
    with opened(files) as router:
        assert 12 == router.scatter(COUNT).scalar_one()
        asyncio.run(admin.add(files.url, SET, three, base=Base))
        fenced = min(router.table.owners)
        files.state(router.table.shard(fenced), fenced, "fenced")
        assert {"one", "two", "three"} == {*router.scatter(COUNT).seconds}
        files.state(router.table.shard(fenced), fenced, "owner")
        asyncio.run(admin.remove(files.url, SET, "three"))
        assert {"one", "two"} == {*router.scatter(COUNT).seconds}


def test_a_key_with_a_slot_of_its_own_is_read_once(files):
    asyncio.run(admin.pin(files.url, SET, ["acme"], base=Base))
    with opened(files) as router:
        assert router.slot("acme") >= router.table.hash_slots
        router.run("acme", lambda session: session.add(Place(country="acme")))
        assert 13 == router.scatter(COUNT).scalar_one()


def test_rows_that_a_move_brings_or_leaves_are_counted_once(files):
    with opened(files) as router:
        slot = router.slot("C3")
        source = router.shard("C3")
        target = {"one": "two", "two": "one"}[source]
        rows = files.sql(source, "SELECT id, country, visits, slot FROM place WHERE slot = ?", (slot,))
        files.state(target, slot, "incoming")
        _copy(files, target, rows)
        assert 12 == router.scatter(COUNT).scalar_one()
        files.state(source, slot, "fenced")
        assert 12 == router.scatter(COUNT).scalar_one()


def _copy(files, shard, rows):
    """Write rows as a mover does: no trigger refuses them."""
    with sqlite3.connect(files.folder / f"{shard}.db") as connection:
        connection.execute("INSERT INTO apportion_mover VALUES ('x')")
        connection.executemany("INSERT INTO place (id, country, visits, slot) VALUES (?, ?, ?, ?)", rows)
        connection.execute("DELETE FROM apportion_mover")
