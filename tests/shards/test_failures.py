"""Failures of sharded databases as articles of the field list them: each has a test, and a row in `failures.md`."""

import asyncio

import pytest
from sqlalchemy import select

import apportion
from apportion.errors import CrossShard, StaleRoute, StoreUnavailable
from apportion.stores import api
from apportion.stores.catalog import connect
from apportion.tables.layout import TableKeys
from tests.shards.moved_slots import FR, ends, switch, visits, write
from tests.shards.sample import SET, Base, Files, Place


class CutOff:
    """A follower that hears nothing more of the control store."""

    def __init__(self, follower):
        self.routes = follower.routes

    async def refresh(self, version, *, within_seconds):
        raise StoreUnavailable("the control store", f"cut off, {version} after {within_seconds}")


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def router(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        yield router


def test_row_2_a_router_that_missed_a_change_is_refused_by_the_shard_and_asks_once(files, router, monkeypatch):
    slot, here, there = ends(router)
    asked, refreshed = [], router.refreshed
    monkeypatch.setattr(router, "refreshed", lambda *words: asked.append(words) or refreshed(*words))
    switch(files, slot, here, there)
    for _ in range(2):
        router.run(FR, lambda session: session.add(Place(country=FR)))
    assert len(asked) <= 1
    assert ([], 2) == (visits(files, here), len(visits(files, there)))


def test_row_3_a_set_without_a_table_is_waited_for_and_nothing_is_routed_by_a_guess(files):
    async def made(puts):
        store = await connect(files.url)
        try:
            items = (await store.scan(TableKeys(SET).head)).items
            if puts is None:
                when = [api.Unchanged(key=item.key, revision=item.revision) for item in items]
                await store.commit(when=when, deletes=[item.key for item in items])
                return {item.key: item.value for item in items}
            when = [api.Absent(key=key) for key in puts]
            return await store.commit(when=when, puts=[api.Put(key=key, value=value) for key, value in puts.items()])
        finally:
            await store.close()

    table = asyncio.run(made(None))
    assert table
    with pytest.raises(StoreUnavailable):
        apportion.sync.open_shards(files.url, SET, base=Base, within_seconds=0.2).__enter__()
    asyncio.run(made(table))
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        assert router.shard(FR) in files.shards


def test_row_4_a_session_reads_one_shard_and_keys_of_two_are_refused(router):
    keys = {router.shard(key): key for key in map(str, range(64))}
    with router.session("0") as session:
        assert [] == session.scalars(select(Place)).all()
    with pytest.raises(CrossShard, match=r"The keys lie on one, two\. Open a session for each"):
        router.session(keys=[*keys.values()])


@pytest.mark.slow
def test_row_6_a_router_that_is_cut_off_from_the_store_writes_nothing_to_a_moved_slot(files, router):
    slot, here, there = ends(router)
    follower = router._follower
    router._follower = CutOff(follower)
    switch(files, slot, here, there)
    with pytest.raises(StaleRoute):
        write(router.session(FR))
    assert ([], []) == (visits(files, here), visits(files, there))
    router._follower = follower
    runs = []
    router.run(FR, lambda session: runs.append(session.add(Place(country=FR))), attempts=2)
    assert len(runs) <= 2
    assert 1 == len(visits(files, there))


def test_row_8_keys_are_hashed_so_neighbours_lie_apart(router):
    owners = [router.shard(f"{number}") for number in range(1000, 1400)]
    assert 150 < owners.count("one") < 250
