"""Rounds on PostgreSQL: the database refuses writes, and no transaction stays open."""

import asyncio

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import InternalError

import apportion
from tests.shards.sample import SET, Base, Place
from tests.shards.server import as_role
from tests.stores.rigs.postgres import USER

pytestmark = pytest.mark.live
COUNT = select(func.count()).select_from(Place)
COUNTRIES = [f"C{number}" for number in range(6)]
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"


@pytest.fixture(scope="module")
def places(make_set):
    """A set with places of six countries."""
    places = make_set("postgresql")
    with pytest.MonkeyPatch.context() as patched:
        as_role(patched, USER)
        fill(places)
    return places


def fill(places):
    with opened(places) as router:
        for country in COUNTRIES:
            router.run(country, lambda session, country=country: session.add(Place(country=country)))


def opened(places):
    return apportion.sync.open_shards(places.url, SET, base=Base)


def transactions(places):
    """Return the number of open transactions on all shards."""
    return sum(places.sql(shard, OPEN)[0][0] for shard in places.shards)


def test_the_database_refuses_writes(places):
    with opened(places) as router:
        for shard in router.each():
            shard.session.add(Place(country="C1", slot=shard.slots[0]))
            with pytest.raises(InternalError, match="read-only transaction"):
                shard.session.flush()
            shard.session.rollback()
        assert 6 == sum(shard.session.scalar(COUNT) for shard in router.each(parallel=2))


def test_an_error_in_the_loop_ends_all_transactions(places):
    def job(router):
        for shard in router.each(parallel=2):
            shard.session.scalar(COUNT)
            assert 2 == transactions(places)
            raise ZeroDivisionError

    with opened(places) as router:
        with pytest.raises(ZeroDivisionError):
            job(router)
        assert 0 == transactions(places)


def test_no_transaction_is_open_while_a_key_is_used(places):
    async def main():
        async with apportion.open_shards(places.url, SET, base=Base) as router:
            found = []
            async for key in router.keys(Place):
                assert 0 == await asyncio.to_thread(transactions, places)
                found.append(key)
            counts = [await shard.session.scalar(COUNT) async for shard in router.each(parallel=2)]
        return found, counts

    keys, counts = asyncio.run(main())
    assert COUNTRIES == sorted(keys)
    assert 6 == sum(counts)
