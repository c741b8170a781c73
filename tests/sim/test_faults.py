"""Each fault does to a caller what its name says, and no more than a store's promises leave open."""

import asyncio

import pytest

from apportion.errors import Compacted, StoreDenied, StoreUnavailable
from apportion.sim import Mix, World
from apportion.sim.world.losses import Way
from apportion.sim.world.nemesis import _ASKED_FOR, BLOWS
from apportion.sim.world.network import Weather
from apportion.sim.world.troubles import Odds
from apportion.stores import Absent, Committed, Put, Refused, Unchanged, Unknown


@pytest.fixture
def world():
    with World(1) as made:
        yield made


def put(store, key="k", value=b"v", **options):
    return store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=value, **options)])


def keys(world):
    return set(world.checker.history.items)


def test_a_lost_request_changes_nothing_and_the_caller_cannot_know(world):
    world.network.weather = Weather(lost=1.0)
    assert isinstance(world.run(put(world.store("a"))), Unknown)
    assert set() == keys(world)
    assert {"request lost": 1} == world.trace.injected


def test_a_lost_reply_comes_after_the_change(world):
    store = world.store("a")

    async def main():
        asyncio.get_running_loop().call_later(0.0002, setattr, world.network, "weather", Weather(lost=1.0))
        return await put(store)

    assert isinstance(world.run(main()), Unknown)
    assert {"k"} == keys(world)
    assert {"reply lost": 1} == world.trace.injected


def test_a_doubled_request_happens_once_and_is_answered_as_the_first(world):
    world.network.weather = Weather(duplicated=1.0)
    assert isinstance(world.run(put(world.store("a"))), Committed)
    assert 1 == world.checker.history.revision


def test_a_late_request_arrives_after_its_caller_gave_up(world):
    world.network.weather = Weather(late=1.0, most_seconds=3.0, late_seconds=4.0)
    assert isinstance(world.run(put(world.store("a"))), Unknown)
    assert set() == keys(world)
    world.run(until=5.0)
    assert {"k"} == keys(world)


def _stale_scans(world):
    one, other = world.store("a"), world.store("b")

    async def main():
        for _ in range(5):
            await one.scan("")
        await put(other)
        await other.scan("")
        world.troubles.odds = Odds(stale_scan=1.0)
        return [(await one.scan("")).revision for _ in range(10)], [(await other.scan("")).revision for _ in range(10)]

    by_one, by_other = world.run(main())
    assert not one.capabilities().linearizable
    assert sorted(by_one) == by_one
    assert {1} == set(by_other)
    return set(by_one)


def test_a_stale_scan_is_older_but_not_older_than_what_the_handle_saw():
    seen = set()
    for seed in range(10):
        with World(seed) as world:
            seen |= _stale_scans(world)
    assert {0, 1} == seen


@pytest.mark.parametrize(
    ("way", "outcome", "there"), [(Way.REQUEST, Unknown, {"a", "c"}), (Way.REPLY, Unknown, {"a", "b", "c"})]
)
def test_exactly_the_commit_of_a_number_is_lost(world, way, outcome, there):
    store = world.store("a")
    world.troubles.losses.lose(2, way)
    outcomes = [type(world.run(put(store, key))) for key in "abc"]
    assert ([Committed, outcome, Committed], there) == (outcomes, keys(world))
    assert {f"commit lost: {way.value}": 1} == world.trace.injected


def test_a_commit_whose_connection_broke_before_was_not_sent(world):
    store = world.store("a")
    world.troubles.losses.lose(1, Way.ERROR)
    with pytest.raises(StoreUnavailable, match="before it was sent"):
        world.run(put(store))
    assert (set(), 0.0) == (keys(world), world.now)


def test_of_one_process_the_commits_of_others_are_not_counted(world):
    world.troubles.losses.lose(1, Way.REQUEST, process="b")
    assert isinstance(world.run(put(world.store("a"), "a")), Committed)
    assert isinstance(world.run(put(world.store("b"), "b")), Unknown)


def test_a_store_denies_one_process_or_all_for_a_while(world):
    one, other = world.store("a"), world.store("b")
    world.troubles.deny("a", 5.0)
    for attempt in (lambda: one.scan(""), lambda: put(one), lambda: one.grant(ttl_seconds=2.0)):
        with pytest.raises(StoreDenied, match="rights were revoked"):
            world.run(attempt())
    with pytest.raises(StoreDenied):
        world.run(anext(one.watch("", after=0)))
    assert isinstance(world.run(put(other)), Committed)
    world.troubles.deny(None, 5.0)
    with pytest.raises(StoreDenied):
        world.run(other.scan(""))
    world.run(until=5.0)
    assert 1 == len(world.run(one.scan("")).items)


def test_a_watch_that_is_open_hears_that_it_is_denied(world):
    store = world.store("a")

    async def main():
        changes = store.watch("", after=0)
        await put(store)
        assert 1 == (await anext(changes)).revision
        world.troubles.deny("a", world.now + 60.0)
        await put(world.store("b"), "other")
        await anext(changes)

    with pytest.raises(StoreDenied):
        world.run(main())


@pytest.mark.parametrize(("way", "there"), [(Way.REQUEST, {"b"}), (Way.REPLY, {"a", "b"})])
def test_a_silent_connection_is_given_up_after_a_quarter_of_the_lease_and_the_next_one_works(world, way, there):
    store, other = world.store("a"), world.store("c")

    async def main():
        await store.grant(ttl_seconds=2.0)
        world.troubles.silence("a", world.now, way)
        began = world.now
        outcomes = [type(await put(store, "a")), round(world.now - began, 2), type(await put(store, "b"))]
        return [*outcomes, type(await put(world.store("a"), "new")), type(await put(other, "other"))]

    assert [Unknown, 0.5, Committed, Committed, Committed] == world.run(main())
    assert there | {"new", "other"} == keys(world)


def test_a_watch_on_a_silent_connection_goes_on_where_it_was(world):
    store = world.store("a")

    async def main():
        await store.grant(ttl_seconds=2.0)
        changes = store.watch("", after=0)
        await put(store, "a")
        await anext(changes)
        world.troubles.silence("a", world.now, Way.REPLY)
        await put(world.store("b"), "b")
        began = world.now
        return (await anext(changes)).revision, world.now - began

    revision, seconds = world.run(main())
    assert 2 == revision
    assert 0.4 < seconds < 0.6


def test_a_watch_gap_is_told(world):
    store = world.store("a")

    async def main():
        world.troubles.odds = Odds(watch_gap=1.0)
        await put(store)
        async for _ in store.watch("", after=0):
            pass

    with pytest.raises(Compacted):
        world.run(main())


def test_a_silent_watch_goes_on_where_it_was(world):
    store = world.store("a")

    async def main():
        world.troubles.odds = Odds(watch_silent=1.0)
        for key in "abc":
            await put(store, key)
        seen = []
        async for change in store.watch("", after=0):
            seen.append((change.revision, world.now))
            if change.revision == 3:
                break
        return seen

    seen = world.run(main())
    assert [1, 2, 3] == [revision for revision, _ in seen]
    assert seen[-1][1] > 1.5


def test_a_store_that_is_away_refuses_at_once_and_comes_back(world):
    store = world.store("a")
    world.troubles.away_until = 5.0
    with pytest.raises(StoreUnavailable, match="connection refused"):
        world.run(put(store))
    world.run(until=5.0)
    assert isinstance(world.run(put(store)), Committed)


def test_on_a_full_disk_scans_go_on_and_nothing_else(world):
    store = world.store("a")
    world.troubles.full_until = 5.0
    for attempt in (lambda: put(store), lambda: store.grant(ttl_seconds=2.0), lambda: store.renew([1])):
        with pytest.raises(StoreUnavailable, match="disk full"):
            world.run(attempt())
    assert () == world.run(store.scan("")).items


def test_after_a_sync_error_it_may_have_happened_or_not():
    there = set()
    for seed in range(20):
        with World(seed) as world:
            world.troubles.odds = Odds(sync_error=1.0)
            assert isinstance(world.run(put(world.store("a"))), Unknown)
            there.add(bool(keys(world)))
    assert {True, False} == there


def test_a_compaction_ends_a_watch_that_is_behind(world):
    store = world.store("a")
    world.run(put(store))
    world.backing.compact()

    async def main():
        async for _ in store.watch("", after=0):
            pass

    with pytest.raises(Compacted):
        world.run(main())


def test_a_restart_of_the_store_arms_leases_again(world):
    store = world.store("a")

    async def main():
        lease = await store.grant(ttl_seconds=2.0)
        await asyncio.sleep(1.5)
        world.backing.rearm()
        await asyncio.sleep(1.5)
        return lease.id, await store.renew([lease.id])

    lease, alive = world.run(main())
    assert {lease} == alive


def test_refusals_and_errors_of_the_store_come_through(world):
    store = world.store("a")
    world.run(put(store))
    assert isinstance(world.run(put(store)), Refused)
    outcome = world.run(store.commit(when=[Unchanged(key="k", revision=1)], deletes=["k"]))
    assert Committed(revision=2) == outcome


def test_seeds_draw_different_mixes_and_all_kinds_come():
    mixes = [Mix.drawn(seed) for seed in range(200)]
    assert len(set(mixes)) == 200
    assert BLOWS.keys() - _ASKED_FOR == {blow for mix in mixes for blow in mix.blows}
    assert any(not mix.weather.lost for mix in mixes)
    assert any(mix.odds.stale_scan for mix in mixes)
