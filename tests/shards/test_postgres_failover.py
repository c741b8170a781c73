"""Fail-over of a shard: a standby that lost nothing serves by itself, and one that lost a fence serves nobody."""

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta
from time import monotonic

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.exc import DBAPIError

import apportion
from apportion.errors import StaleRoute, StoreUnavailable, StoreWentBack
from apportion.shards import admin
from tests.shards.failover_rig import Cluster, FailoverServers
from tests.shards.sample import SET, Base, Place
from tests.shards.server import OWNER, as_role
from tests.shards.test_failures import CutOff
from tests.stores.rigs import absent
from tests.stores.rigs.pgbouncer import Pooler

pytestmark = pytest.mark.live

GO_ON_SECONDS = 5.0
_ROWS = "SELECT id::text FROM place"


@pytest.fixture(scope="module")
def cluster():
    try:
        made = Cluster()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    made.stop()


@pytest.fixture
def files(cluster, rig, tmp_path, monkeypatch):
    """A set with shard one on the cluster; its standby has all of it."""
    as_role(monkeypatch, OWNER)
    made = FailoverServers(cluster, rig, tmp_path)
    cluster.follow()
    yield made
    made.drop()


def opened(files, **options):
    options = {"session": {"expire_on_commit": False}, **options}
    return apportion.sync.open_shards(files.url, SET, base=Base, **options)


def keys_of(router, shard, count):
    """Return keys of different slots that a shard has."""
    slots = {router.slot(key): key for key in map(str, range(2000)) if router.shard(key) == shard}
    return [slots[slot] for slot in sorted(slots)[:count]]


def added(router, key):
    """Write a row of a key; return its id."""

    def work(session):
        row = Place(country=key)
        session.add(row)
        session.flush()
        return str(row.id)

    return router.run(key, work)


class Writer(threading.Thread):
    """Writes rows of keys, one after another, and goes on after each error. `ledger` has the acknowledged rows."""

    def __init__(self, router, keys):
        super().__init__(daemon=True)
        self.ledger, self.times, self.errors = set(), [], []
        self._router, self._keys, self._ends = router, keys, threading.Event()

    def run(self):
        while not self._ends.is_set():
            for key in self._keys:
                try:
                    self.ledger.add(added(self._router, key))
                    self.times.append(monotonic())
                except (DBAPIError, StoreUnavailable) as error:
                    self.errors.append(error)
                    self._ends.wait(0.02)

    def stop(self):
        self._ends.set()
        self.join(20)


def test_writes_go_on_within_5_seconds_after_a_fail_over_that_lost_nothing(files, cluster):
    cluster.rig.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    cluster.rig.sql("SELECT pg_reload_conf()")
    with opened(files) as router:
        writers = [Writer(router, [key]) for key in keys_of(router, "one", 3)]
        for writer in writers:
            writer.start()
        while not all(len(writer.times) > 5 for writer in writers):
            assert all(writer.is_alive() for writer in writers)
        cluster.fail_over()
        promoted = monotonic()
        cluster.rig.sql("ALTER SYSTEM RESET synchronous_standby_names")
        cluster.rig.sql("SELECT pg_reload_conf()")
        until = promoted + GO_ON_SECONDS
        while not all(writer.times[-1] > promoted for writer in writers):
            assert monotonic() < until, [writer.errors[-3:] for writer in writers]
        for writer in writers:
            writer.stop()
    written = {each for (each,) in files.sql("one", _ROWS)}
    assert set() == set().union(*(writer.ledger for writer in writers)) - written
    assert 2 == status_of(files)


def status_of(files):
    """Return the number of the noted timeline, which is that of the server."""
    found = check(files)
    assert found.noted == found.found
    return int(found.found.partition("/")[2])


def check(files):
    return asyncio.run(admin.accept_failover(files.url, SET, "one", is_check=True))


def moved(files, slots, *, is_clean=True):
    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        assert (await admin.apply(files.url, SET, plan)).is_whole
        if is_clean:
            assert (await admin.clean(files.url, SET, soak=timedelta(0))).is_whole

    asyncio.run(main())


@pytest.fixture
def pooled(files, cluster):
    """Return the maker of engines that reach shard one through a pooler. It lends connections by the transaction."""
    try:
        pooler = Pooler(cluster.rig, connections=1, database=files.name("one"))
    except FileNotFoundError as error:
        absent(str(error))

    def engine(url):
        kept = url.set(port=pooler.port) if url.database == files.name("one") else url
        return create_engine(kept, connect_args={"prepare_threshold": None})

    yield engine
    pooler.stop()


@pytest.mark.parametrize("is_clean", [True, False], ids=["cleaned", "soaking"])
def test_a_standby_that_lost_a_fence_serves_nobody_until_an_operator_accepts_it(files, cluster, pooled, is_clean):
    """One router has the newest table. The other one is cut off, and its connections outlive the fail-over."""
    with opened(files) as router, opened(files, create_engine=pooled) as stale:
        lost, kept = keys_of(router, "one", 2)
        row = added(router, lost)
        added(stale, kept)
        stale._follower = CutOff(stale._follower)
        cluster.replayed()
        cluster.cut_off()
        moved(files, [router.slot(lost)], is_clean=is_clean)
        newer = added(router, lost)
        cluster.fail_over()
        assert (row,) in files.sql("one", _ROWS), "the standby has no fence"
        for each, key in ((router, kept), (stale, lost)):
            refused(each, key, "accepts slot")
        added(router, lost)  # on shard two
        found = check(files)
        assert (router.slot(lost),) == found.refused
        assert is_clean == (found.moves == ())
        assert found == asyncio.run(admin.accept_failover(files.url, SET, "one"))
        assert (found.found, ()) == (check(files).noted, check(files).refused)
        wait_for(lambda: added(router, kept))
        with pytest.raises(StaleRoute):
            wait_for(lambda: added(stale, lost))
        with router.session(lost) as session:
            assert {row, newer} < {str(each) for each in session.scalars(select(Place.id))}
    asyncio.run(admin.clean(files.url, SET, soak=timedelta(0)))
    assert (row,) not in files.sql("one", _ROWS)
    sound(files)


@pytest.mark.parametrize(("source", "step"), [("one", "fence"), ("two", "announce")])
def test_a_fail_over_of_either_shard_in_a_move_takes_the_move_back(files, cluster, source, step):
    """The standby lost the fence of the source, or the rows that the target had got."""
    target = "two" if source == "one" else "one"
    over = threading.Thread(target=cluster.fail_over)

    def failing(event):
        if event.step == step and not over.ident:
            over.start()
            over.join()  # else the mover might switch before the fail-over

    with opened(files) as router:
        moving, own = keys_of(router, source, 1) + keys_of(router, "one", 2)[1:]
        ledger = {added(router, moving)}
        cluster.replayed()
        cluster.cut_off()
        plan = asyncio.run(admin.plan(files.url, SET, slots=[router.slot(moving)], to=target))
        with pytest.raises(StoreWentBack):
            asyncio.run(admin.apply(files.url, SET, plan, observer=failing))
        refused(router, own, "is under way")
        if target == "one":
            ledger.add(added(router, moving))  # its source is open again
        with pytest.raises(StoreWentBack):
            asyncio.run(admin.apply(files.url, SET))
        found = asyncio.run(admin.accept_failover(files.url, SET, "one"))
        assert ((plan.moves[0].move,), ()) == (found.moves, found.unended)
        wait_for(lambda: added(router, own))
        ledger.add(added(router, moving))
        assert () == asyncio.run(admin.status(files.url, SET)).moves
        assert asyncio.run(admin.apply(files.url, SET, plan)).is_whole
    asyncio.run(admin.clean(files.url, SET, soak=timedelta(0)))
    assert ledger <= {each for (each,) in files.sql(target, _ROWS)}
    sound(files)


def refused(router, key, words):
    """Expect the refusal of a write. The first attempts may meet the end of their old connection."""
    with pytest.raises(StoreWentBack, match=words) as caught:
        tried(router, key)
    assert "accept-failover" in caught.value.hint


def tried(router, key):
    """Write a row of a key, again while the driver tells of a lost connection."""
    ends = monotonic() + GO_ON_SECONDS
    while monotonic() < ends:
        with suppress(DBAPIError):
            return added(router, key)
    raise AssertionError("no answer")


def wait_for(act):
    ends = monotonic() + GO_ON_SECONDS
    while True:
        try:
            return act()
        except StoreWentBack:
            assert monotonic() < ends


def sound(files):
    found = asyncio.run(admin.verify(files.url, SET, base=Base))
    assert found.is_sound, found.faults
    ill = [each for each in asyncio.run(admin.doctor(files.url, SET, base=Base)) if each.verdict == "error"]
    assert [] == ill
