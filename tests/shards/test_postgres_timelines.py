"""Timelines of servers: noted by init, add and the first connection, and compared at the cost of one round trip."""

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, event

import apportion
from apportion.errors import InvalidInput, StoreWentBack
from apportion.shards import admin
from apportion.shards.mover.failover import record_of
from apportion.shards.postgres.fence import PostgresFence
from apportion.shards.records import SetKeys
from apportion.shards.timeline.timeline import Timeline
from apportion.stores.catalog import connect
from tests.shards.sample import SET, Base, Place
from tests.shards.server import OWNER, as_role

pytestmark = pytest.mark.live

KEYS = SetKeys(SET)
OTHER = Timeline(cluster="7", number=1)


@pytest.fixture(scope="module")
def made(make_set):
    return make_set("postgresql")


@pytest.fixture
def files(made, monkeypatch):
    """A set of all tests, as its owner. Each test leaves it as it was."""
    as_role(monkeypatch, OWNER)
    return made


@contextmanager
def opened(files, **options):
    options = {"session": {"expire_on_commit": False}, **options}
    with apportion.sync.open_shards(files.url, SET, base=Base, **options) as router:
        yield router


def kept(files, shard="one", change=None):
    """Return the noted timeline of a shard; `change` is a function that makes another record of it first."""

    async def main():
        store = await connect(files.url)
        try:
            found = await record_of(store, KEYS, shard)
            if change is not None:
                timeline = change(found.record.timeline)
                assert await replace(found, record=replace(found.record, timeline=None)).note(store, timeline)
                return timeline
            return found.record.timeline
        finally:
            await store.close()

    return asyncio.run(main())


def key_of(router, shard):
    return next(key for key in map(str, range(200)) if router.shard(key) == shard)


def add(router, key):
    router.run(key, lambda session: session.add(Place(country=key)))


def accepted(files, **options):
    return asyncio.run(admin.accept_failover(files.url, SET, "one", **options))


def test_init_and_add_note_the_timeline_and_the_first_connection_does_where_it_is_absent(files):
    noted = kept(files)
    assert noted.number == 1
    assert noted == kept(files, "two")
    asyncio.run(admin.init(files.url, SET, {each: files.place(each) for each in ("one", "two")}, base=Base, slots=64))
    asyncio.run(admin.add(files.url, SET, {"tri": files.place("tri")}, base=Base))
    assert noted == kept(files, "tri")
    kept(files, change=lambda _: None)
    with opened(files) as router:
        assert None is kept(files)
        add(router, key_of(router, "one"))
        assert noted == kept(files)


def test_a_connection_costs_one_round_trip_more_and_a_transaction_none(files):
    statements = []

    def engine(url):
        made = create_engine(url, pool_size=1, max_overflow=0)
        event.listen(made, "before_cursor_execute", lambda *words: statements.append(words[2]))
        return made

    with opened(files, create_engine=engine) as router:
        key = key_of(router, "one")
        for _ in range(3):
            add(router, key)
    assert 1 == sum("pg_control_system" in each for each in statements[3:])  # the first three are the engine's
    assert 3 == sum("apportion.fence" in each for each in statements)
    assert 3 + 1 + 2 * 3 == len(statements)


def test_a_server_that_a_pooler_put_behind_a_connection_is_compared_again(files, monkeypatch):
    asked, admit = [], PostgresFence._admit

    def spied(self, connection, number=None):
        if number is not None:
            seen = connection.info["apportion_timeline"]
            connection.info["apportion_timeline"] = replace(seen, number=seen.number + len(asked))
        admit(self, connection, number)
        asked.append(connection.info["apportion_timeline"])

    monkeypatch.setattr(PostgresFence, "_admit", spied)
    with opened(files) as router:
        add(router, key_of(router, "one"))
    assert [kept(files)] * 2 == asked


def test_a_database_of_another_shard_is_refused_at_a_new_connection(files):
    def engine(url):
        return create_engine(url, pool_size=1, max_overflow=0)

    with opened(files, create_engine=engine) as router:
        key = key_of(router, "one")
        add(router, key)
        files.sql("one", "UPDATE apportion.shard_meta SET shard = 'tri'")
        add(router, key)  # this connection was compared before
        router.engine("one")[0].dispose()
        with pytest.raises(InvalidInput, match="shard of shard one is 'tri', expected one"):
            add(router, key)
    files.sql("one", "UPDATE apportion.shard_meta SET shard = 'one'")


def test_another_cluster_is_refused_by_sessions_and_by_movers_until_it_is_accepted(files):
    found = kept(files)
    kept(files, change=lambda _: OTHER)
    with opened(files) as router:
        key = key_of(router, "one")
        with pytest.raises(StoreWentBack, match="it is another cluster, but timeline 7/1 was seen before"):
            add(router, key)
        add(router, key_of(router, "two"))
        plan = asyncio.run(admin.plan(files.url, SET, slots=[router.slot(key)], to="two"))
        with pytest.raises(StoreWentBack, match="timeline 7/1"):
            asyncio.run(admin.apply(files.url, SET, plan))
    assert () == asyncio.run(admin.status(files.url, SET)).moves
    assert (str(OTHER), str(found)) == (accepted(files, is_check=True).noted, accepted(files, is_check=True).found)
    assert OTHER == kept(files)
    doubt = next(each for each in asyncio.run(admin.doctor(files.url, SET)) if each.subject == "timeline of one")
    assert ("warning", f"{found}, and {OTHER} is noted") == (doubt.verdict, doubt.found)
    assert ((), (), ()) == (accepted(files).refused, accepted(files).accepted, accepted(files).moves)
    assert found == kept(files)
    with opened(files) as router:
        add(router, key)


def test_slots_that_may_have_lost_rows_are_accepted_with_the_word_of_the_caller_alone(files):
    with opened(files) as router:
        key, other = key_of(router, "one"), key_of(router, "two")
        slot, foreign = router.slot(key), router.slot(other)
        fenced = next(each for each in range(64) if router.table.shard(each) == "one" and each != slot)
    kept(files, change=lambda _: OTHER)
    files.state("one", slot, "moved")
    files.state("one", fenced, "fenced")
    files.state("one", foreign, "owner")
    told = accepted(files)
    assert ((slot,), (fenced,), (foreign,)) == (told.lost, told.accepted, told.refused)
    states = "SELECT state FROM apportion_slot WHERE slot = ANY (%s) ORDER BY array_position(%s, slot::int)"
    named = [slot, fenced, foreign]
    assert [("moved",), ("fenced",), ("owner",)] == files.sql("one", states, (named, named))
    assert OTHER == kept(files)
    assert told == accepted(files, accept_loss=True)
    assert [("owner",), ("owner",), ("moved",)] == files.sql("one", states, (named, named))
    with opened(files) as router:
        add(router, key)


def test_a_table_that_is_older_than_the_shard_is_not_asserted(files):
    kept(files, change=lambda _: OTHER)
    [(slot,)] = files.sql("one", "SELECT min(slot) FROM apportion_slot WHERE state = 'owner'")
    files.state("one", slot, "owner", 99, 2**60)
    assert (slot,) == accepted(files, accept_loss=True).ahead
    assert OTHER == kept(files)
    files.state("one", slot, "owner")
    assert () == accepted(files).ahead
    assert OTHER != kept(files)


def test_a_recovery_of_the_control_store_notes_the_timelines_of_all_shards(files):
    found = kept(files)
    for shard in ("one", "two"):
        kept(files, shard, change=lambda _: OTHER)
    assert () == asyncio.run(admin.recover(files.url, SET, is_check=True)).doubts
    assert OTHER == kept(files)
    asyncio.run(admin.recover(files.url, SET))
    assert [found] * 2 == [kept(files), kept(files, "two")]
    assert asyncio.run(admin.clean(files.url, SET, soak=timedelta(0))).is_whole
