"""The router: a session follows its slot to another shard unseen, or is told; the shard decides, whatever the table."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest
from sqlalchemy import create_engine, event, insert, select, text

import apportion
from apportion.errors import CrossShard, InvalidInput, StaleRoute, StoreClosed, StoreUnavailable
from apportion.shards import pin
from apportion.shards.pin import SWITCH_SECONDS, NotAccepted
from tests.shards.moved_slots import FR, ends, switch, visits, write
from tests.shards.sample import SET, Base, Files, Place


@pytest.fixture
def files(make_set, kind):
    return make_set(kind)


@pytest.fixture
def router(files):
    with apportion.sync.open_shards(files.url, SET, base=Base, session={"expire_on_commit": False}) as router:
        yield router


def test_a_session_that_has_read_nothing_goes_to_the_new_shard_unseen(files, router):
    slot, here, there = ends(router)
    session = router.session(FR)
    switch(files, slot, here, there)
    write(session)
    assert ([], [1]) == (visits(files, here), visits(files, there))
    assert there == router.shard(FR)
    session.close()


def test_the_first_write_makes_an_incoming_slot_owned_and_a_read_does_not(files, router):
    slot, here, there = ends(router)
    switch(files, slot, here, there)
    states = []
    for is_reader in (True, False):
        with router.session(FR, read_only=is_reader) as session:
            session.scalars(select(Place)).all()
            session.commit()
        states += files.sql(there, "SELECT state FROM apportion_slot WHERE slot = ?", (slot,))[0]
    assert ["incoming", "owner"] == states


def test_a_session_that_has_read_is_told_and_refuses_all_that_follows(files, router):
    slot, here, there = ends(router)
    with router.session(FR) as session:
        assert [] == session.scalars(select(Place)).all()
        session.commit()
        switch(files, slot, here, there)
        with pytest.raises(StaleRoute, match="FR"):
            session.scalars(select(Place)).all()
        for _ in range(2):
            session.rollback()
            with pytest.raises(InvalidInput, match="one that got StaleRoute"):
                session.scalars(select(Place)).all()


def test_work_is_run_again_in_a_fresh_session_after_a_stale_route(files, router):
    slot, here, there = ends(router)
    runs = []

    def work(session):
        runs.append(session.scalars(select(Place)).all())
        session.commit()
        if len(runs) == 1:
            switch(files, slot, here, there)
        session.add(Place(country=FR, visits=len(runs)))
        return len(runs)

    assert 2 == router.run(FR, work)
    assert ([], [2]) == (visits(files, here), visits(files, there))


def test_work_that_is_always_stale_ends_with_the_last_stale_route(router):
    runs = []

    def work(session):
        runs.append(session)
        raise StaleRoute(FR, "one", router.version)

    with pytest.raises(StaleRoute):
        router.run(FR, work, attempts=3)
    assert 3 == len(runs)
    for wrong in (0, 1.5, True):
        with pytest.raises(InvalidInput, match="attempts"):
            router.run(FR, work, attempts=wrong)


def test_a_switch_under_way_is_waited_for(files, router):
    slot, here, there = ends(router)
    files.state(here, slot, "fenced")
    done = []
    writer = threading.Thread(target=lambda: done.append(router.run(FR, write)))
    writer.start()
    switch(files, slot, here, there)
    writer.join(10)
    assert ([None], [], [1]) == (done, visits(files, here), visits(files, there))


def test_a_fence_that_is_taken_back_lets_the_writer_go_on_where_it_was(files, router):
    slot, here, _ = ends(router)
    files.state(here, slot, "fenced")
    writer = threading.Thread(target=router.run, args=(FR, write))
    writer.start()
    files.state(here, slot, "owner")
    writer.join(10)
    assert [1] == visits(files, here)


def test_a_switch_that_does_not_end_is_a_stale_route_in_bounded_time(files, router):
    slot, here, _ = ends(router)
    files.state(here, slot, "fenced")
    began = monotonic()
    with router.session(FR) as session, pytest.raises(StaleRoute):
        write(session)
    assert SWITCH_SECONDS <= monotonic() - began < SWITCH_SECONDS + 5


@pytest.mark.parametrize(
    ("state", "number"), [("moved", None), ("incoming", None), ("incoming", 9), ("owner", 9), (None, None)]
)
def test_a_shard_accepts_no_slot_that_is_not_its_own_under_the_version_of_the_caller(
    files, router, monkeypatch, state, number
):
    slot, here, _ = ends(router)
    monkeypatch.setattr(pin, "SWITCH_SECONDS", 0.1)
    files.sql(here, "DELETE FROM apportion_slot WHERE slot = ?", (slot,))
    if state is not None:
        files.state(here, slot, state, number, 2**62 if number else None)
    with router.session(FR) as session:
        session.pin.roads.refreshed = lambda version, within_seconds: router.table
        with pytest.raises(StaleRoute):
            write(session)
    assert [] == visits(files, here)


def test_a_slot_that_comes_back_is_refused_to_a_router_that_still_knows_its_first_stay(files, router):
    slot, here, there = ends(router)
    with apportion.sync.open_shards(files.url, SET, base=Base) as late:
        old = late.table
        switch(files, slot, here, there)
        back = switch(files, slot, there, here)
        old_pin = late.session(FR).pin
        assert here == old.shard(slot)
        with pytest.raises(NotAccepted):
            old_pin._entered(here, old.version)
        old_pin._entered(here, back).close()


def test_keys_that_lie_on_several_shards_share_no_session(router):
    far = next(key for key in map(str, range(100)) if router.shard(key) != router.shard(FR))
    with pytest.raises(CrossShard, match="one, two"):
        router.session(keys=[FR, far])


def test_pins_of_threads_and_tasks_are_their_own(files):
    async def main():
        async with apportion.open_shards(files.url, SET, base=Base) as router:

            async def pinned(key):
                with router.pin(key):
                    await asyncio.sleep(0.01)
                    here = router.session().sync_session.pin.key
                    there = await asyncio.to_thread(lambda: router.session().sync_session.pin.key)
                    return here, there

            found = await asyncio.gather(*(pinned(key) for key in ("FR", "DE", "IT")))
            assert [("FR", "FR"), ("DE", "DE"), ("IT", "IT")] == found
            with pytest.raises(InvalidInput, match="key of a session"):
                router.session()

    asyncio.run(main())


def test_sessions_of_an_event_loop_follow_their_slot_too(files):
    async def main():
        async with apportion.open_shards(files.url, SET, base=Base, session={"expire_on_commit": False}) as router:
            slot, here, there = ends(router)
            async with router.session(FR) as session:
                session.add(Place(country=FR, visits=1))
                await session.commit()
            files.sql(here, "DELETE FROM place")
            await asyncio.to_thread(switch, files, slot, here, there)

            async def work(session):
                await session.execute(insert(Place), [{"id": Place.id.default.arg(None), "country": FR, "visits": 2}])

            await router.run(FR, work)
            async with router.session(FR, read_only=True) as session:
                assert [2] == list(await session.scalars(select(Place.visits)))
            return here, there

    here, there = asyncio.run(main())
    assert ([], [2]) == (visits(files, here), visits(files, there))


def test_the_engines_of_the_application_are_used_and_closed_with_the_router(files):
    made = []

    def engine(url):
        made.append(create_engine(url))
        return made[-1]

    with apportion.sync.open_shards(files.url, SET, base=Base, create_engine=engine) as router:
        with router.session(FR) as session:
            session.execute(text("SELECT 1"))
        assert 1 == len(made)
        closed = []
        event.listen(made[0], "close", lambda *_: closed.append(1))
    assert [1] == closed


def test_an_engine_that_is_connected_already_and_used_by_two_routers_is_prepared_once(files):
    engines = {}

    def engine(url):
        if url not in engines:
            engines[url] = create_engine(url)
            engines[url].connect().close()
        return engines[url]

    options = {"base": Base, "create_engine": engine}
    with (
        apportion.sync.open_shards(files.url, SET, **options) as first,
        apportion.sync.open_shards(files.url, SET, **options) as second,
    ):
        for router in (first, second):
            router.run(FR, lambda session: session.add(Place(country=FR)))
    assert 2 == sum(len(visits(files, shard)) for shard in files.shards)


def test_threads_that_make_an_engine_at_once_keep_one_and_close_the_others(files):
    opened, closed, barrier = [], [], threading.Barrier(4)

    def engine(url):
        made = create_engine(url)
        event.listen(made, "connect", lambda *_: opened.append(1))
        event.listen(made, "close", lambda *_: closed.append(1))
        barrier.wait(10)
        return made

    with apportion.sync.open_shards(files.url, SET, base=Base, create_engine=engine) as router:
        shard = router.shard(FR)
        with ThreadPoolExecutor(4) as pool:
            kept = list(pool.map(lambda _: router.engine(shard)[0], range(4)))
        assert 1 == len(set(kept))
        assert 3 == len(closed)
    assert len(opened) == len(closed)


def test_a_database_that_is_another_shard_is_refused_when_it_is_first_used(files, router):
    _, here, there = ends(router)
    files.sql(here, "UPDATE apportion_meta SET shard = ?", (there,))
    with router.session(FR) as session, pytest.raises(InvalidInput, match=f"shard of shard {here}"):
        write(session)
    files.sql(here, "DROP TABLE apportion_meta")
    with router.session(FR) as session, pytest.raises(InvalidInput, match="no shard of a set"):
        write(session)


def test_a_set_that_nobody_made_is_refused(files):
    opening = apportion.sync.open_shards(files.url, "moon", base=Base)
    with pytest.raises(InvalidInput, match="set is 'moon'"):
        opening.__enter__()


def test_the_end_of_a_router_takes_the_connections_of_its_sessions_and_undoes_their_work(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        here, writer, reader = router.shard(FR), router.session(FR), router.session(FR, read_only=True)
        writer.add(Place(country=FR, visits=5))
        writer.flush()
        reader.scalars(select(Place)).all()
    for act in (writer.commit, lambda: reader.scalars(select(Place)).all(), lambda: writer.execute(select(Place))):
        with pytest.raises(StoreClosed, match="a set of shards"):
            act()
    assert [] == visits(files, here)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router, router.session(FR) as session:
        write(session)  # no lock is left
    writer.close()
    reader.close()
    assert [1] == visits(files, here)


def test_the_end_of_a_router_takes_the_connections_of_async_sessions(files):
    async def main():
        async with apportion.open_shards(files.url, SET, base=Base) as router:
            session = router.session(FR)
            session.add(Place(country=FR))
            await session.flush()
        with pytest.raises(StoreClosed, match="a set of shards"):
            await session.commit()
        await session.close()
        async with apportion.open_shards(files.url, SET, base=Base) as router, router.session(FR) as other:
            other.add(Place(country=FR))
            await other.commit()
            return router.shard(FR)

    assert [0] == visits(files, asyncio.run(main()))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_was_replaced_or_moved_away_takes_no_write(tmp_path, is_there):
    files = Files(tmp_path)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        here = tmp_path / f"{router.shard(FR)}.db"
        router.run(FR, write)
        saved = here.read_bytes()
        here.rename(tmp_path / "old.db")
        if is_there:
            here.write_bytes(saved)
        with pytest.raises(StoreUnavailable, match="the file was replaced or removed"):
            router.run(FR, write)
        if not is_there:
            (tmp_path / "old.db").rename(here)
        router.run(FR, write)
    assert 2 == len(files.sql(here.stem, "SELECT * FROM place"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no process")
def test_a_forked_child_is_told_to_open_the_set_itself(router):
    begun = router.session(FR)
    write(begun)
    read, wrote = os.pipe()
    child = os.fork()
    if child == 0:
        told = []
        for act in (lambda: write(begun), lambda: write(router.session(FR)), lambda: router.run(FR, write)):
            try:
                act()
            except StoreClosed as error:
                told.append(error.reason)
        os.write(wrote, "\n".join(told).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert ["it belongs to the parent of this forked process"] * 3 == os.read(read, 4096).decode().splitlines()
    for end in (read, wrote):
        os.close(end)
    begun.close()
    with router.session(FR) as session:
        assert 1 == len(session.scalars(select(Place)).all())
