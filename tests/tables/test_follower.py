"""Following: each shown version was published, never goes back, and stays while store and publisher are away."""

import asyncio
import gc
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from inspect import signature
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Frozen, Jump, Ring, Slots, Topology, balance
from apportion.errors import (
    BadSnapshot,
    Compacted,
    InvalidInput,
    StaleRoute,
    StoreClosed,
    StoreUnavailable,
    StoreWentBack,
)
from apportion.model.epoch import Epoch
from apportion.placement import get
from apportion.sim.world.loop import VirtualLoop
from apportion.stores import Put, Unchanged, connect
from apportion.stores.memory.store import Memory
from apportion.sync import follow as follow_sync
from apportion.sync import publish as publish_sync
from apportion.sync.tables import SyncFollower
from apportion.tables import follower as following_module
from apportion.tables.facade import AsyncFollower, follow
from apportion.tables.facade import publish as publish_async
from apportion.tables.follower import Follower, following
from apportion.tables.layout import Version, decode_head, encode_head
from apportion.tables.publisher import Publisher, publish
from tests.tables.sample import (
    KEYS,
    NAME,
    SMALL,
    Failing,
    assignments,
    handle,
    many,
    memory,
    numbered_tables,
    read,
    ring,
    same,
)

DEADLINE_SECONDS = 20


async def until(condition):
    """Wait for a condition."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


class Watched(Follower):
    """A follower that remembers each version it has shown."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.shown = []
        self._show, self._copy._show = self._copy._show, self._watched

    def _watched(self, *, at):
        newest = self._show(at=at)
        if not self.shown or self.shown[-1] is not self._copy.routes:
            self.shown.append(self._copy.routes)
        return newest


class Unsteady:
    """A store that is away while `away`, with a watch that breaks off with `error` once, and that passes values
    through.
    """

    def __init__(self, inner, through=lambda _key, value: value, through_scan=lambda _key, value: value):
        self._inner, self.through, self.through_scan = inner, through, through_scan
        self.away, self.error, self.scans, self.reads = False, None, 0, 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def scan(self, prefix):
        self.scans += 1
        self.reads += prefix == KEYS.prefix
        if self.away:
            raise StoreUnavailable("the store", "no connection")
        scan = await self._inner.scan(prefix)
        return replace(
            scan, items=tuple(replace(item, value=self.through_scan(item.key, item.value)) for item in scan.items)
        )

    async def watch(self, prefix, *, after):
        async for change in self._inner.watch(prefix, after=after):
            while self.away:
                await asyncio.sleep(0.001)
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            events = (
                replace(event, value=event.value and self.through(event.key, event.value)) for event in change.events
            )
            yield replace(change, events=tuple(events))


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Confirm every few milliseconds."""
    monkeypatch.setattr(following_module, "CONFIRM_SECONDS", 0.005)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    values=st.one_of(
        st.lists(assignments(), min_size=1, max_size=8), st.lists(numbered_tables(), min_size=1, max_size=8)
    ),
    waits=st.lists(st.booleans(), min_size=8, max_size=8),
    late=st.integers(0, 7),
)
def test_a_follower_shows_what_was_published_in_order_and_at_the_end_the_last(values, waits, late):
    """The dumb twin reads the whole table after each publish."""

    async def main():
        shared = memory()
        publisher = Publisher(Failing(handle(shared), limits=SMALL), NAME)
        twin, follower = {}, Watched(handle(shared), NAME)
        await publisher.publish(values[0])
        for place, (value, waits_for_it) in enumerate(zip(values, waits, strict=False)):
            if place == min(late, len(values) - 1):
                await follower.start()
            published = await publisher.publish(value)
            twin[published.version.number] = (await read(handle(shared)))[1]
            if waits_for_it and follower._copy.routes is not None:
                await until(lambda published=published: follower.routes.version == published.version)
        await until(lambda: follower.routes.version == published.version)
        assert same(values[-1], follower.routes.value)
        assert follower.routes.epoch == values[-1].epoch
        numbers = [routes.version.number for routes in follower.shown]
        assert numbers == sorted(set(numbers))
        pairs = zip(numbers, follower.shown, strict=True)
        assert [] == [number for number, routes in pairs if not same(twin[number], routes.value)]
        assert (None, 0, published.version) == (follower.trouble, follower.drift_versions, follower.heard)
        await follower.close()

    asyncio.run(main())


@asynccontextmanager
async def followed(*values, unsteady=None):
    """Publish values and follow them: yield memory, publisher, store of the follower, and follower."""
    shared = memory()
    publisher = Publisher(handle(shared), NAME)
    for value in values:
        await publisher.publish(value)
    store = Unsteady(handle(shared)) if unsteady is None else unsteady(handle(shared))
    follower = Watched(store, NAME)
    await follower.start()
    yield shared, publisher, store, follower
    await follower.close()


def test_lookups_go_on_while_store_and_publisher_are_away_and_the_age_says_so():
    async def main():
        table = ring("a", "b", "c")
        async with followed(table) as (_, publisher, store, follower):
            await until(lambda: follower.age_seconds < 0.05)
            store.away = True
            assert 2 == (await publisher.publish(ring("a", "b"))).version.number
            with pytest.raises(StoreUnavailable, match="no connection"):
                await follower.refresh(follower.routes.version, within_seconds=0.05)
            expected = Ring(["a", "b", "c"], vnodes=20)
            wrong = [key for key in range(5_000) if follower.routes.route(key) != expected.route(key)]
            assert [] == wrong
            await until(lambda: follower.age_seconds > 0.1)
            assert isinstance(follower.trouble, StoreUnavailable)
            store.away = False
            await until(lambda: follower.routes.version.number == 2)
            assert same(ring("a", "b"), follower.routes.value)
            await until(lambda: follower.age_seconds < 0.05 and follower.trouble is None)

    asyncio.run(main())


def test_a_follower_whose_history_is_gone_reads_again():
    async def main():
        async with followed(many(1)) as (_, publisher, store, follower):
            store.error = Compacted(1, 2)
            await publisher.publish(many(2))
            await publisher.publish(many(3))
            await until(lambda: follower.routes.version.number == 3)
            assert same(many(3), follower.routes.value)

    asyncio.run(main())


def test_a_watch_that_breaks_off_is_begun_again_after_pauses_that_grow_until_it_showed_a_change():
    loop, begun = VirtualLoop(Random(1)), []

    class Broken(Unsteady):
        shows = False

        async def watch(self, prefix, *, after):
            begun.append(loop.time())
            if self.shows:
                yield await anext(self._inner.watch(prefix, after=after))
                begun[-1] = loop.time()
            raise StoreUnavailable("the store", "no connection")

    async def pauses(count):
        del begun[:-1]
        while len(begun) <= count:
            await asyncio.sleep(0.01)
        return [round(after - before, 2) for before, after in pairwise(begun)]

    async def main():
        clock = type("Clock", (), {"elapsed": lambda _: loop.time()})()
        shared = Memory(clock)
        store = Broken(handle(shared))
        await publish(handle(shared), NAME, ring("a"))
        follower = Follower(store, NAME, clock=clock)
        await follower.start()
        assert [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0] == await pauses(7)
        store.shows = True
        await pauses(1)
        await publish(handle(shared), NAME, ring("a", "b"))
        assert [0.05] == (await pauses(1))
        await follower.close()

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_a_watch_that_falls_silent_is_found_by_the_confirmation():
    async def main():
        class Silent(Unsteady):
            async def watch(self, prefix, *, after):
                await asyncio.Event().wait()
                yield

        async with followed(many(1), unsteady=Silent) as (_, publisher, _, follower):
            await publisher.publish(many(2))
            await until(lambda: follower.routes.version.number == 2)

    asyncio.run(main())


def flipped(key, value):
    """Turn a bit of each chunk, and leave heads alone."""
    return value if key == KEYS.head else value[:-9] + bytes([value[-9] ^ 4]) + value[-8:]


def mistaken(key, value):
    """Announce another epoch than that of the value."""
    if key != KEYS.head:
        return value
    head = decode_head(value)
    return encode_head(replace(head, epoch=Epoch(number=head.epoch.number, digest="0" * 32)))


@pytest.mark.parametrize("damage", [flipped, mistaken])
@pytest.mark.parametrize("also_scans", [False, True])
def test_what_does_not_come_out_as_announced_is_never_shown_and_read_again(damage, also_scans):
    async def main():
        async with followed(ring("a", "b")) as (_, publisher, store, follower):
            store.through = damage
            if also_scans:
                store.through_scan = damage
            await publisher.publish(ring("a", "b", "c"))
            if also_scans:
                await until(lambda: isinstance(follower.trouble, BadSnapshot))
                with pytest.raises(BadSnapshot):
                    await follower.refresh(follower.routes.version, within_seconds=0.05)
                assert same(ring("a", "b"), follower.routes.value)
                assert 1 == follower.drift_versions
                store.through_scan = store.through = lambda _, value: value
            await until(lambda: follower.routes.version.number == 2)
            assert [1, 2] == [routes.version.number for routes in follower.shown]
            assert same(ring("a", "b", "c"), follower.routes.value)

    asyncio.run(main())


def test_the_head_of_a_later_release_is_not_followed_and_routing_goes_on():
    async def main():
        async with followed(ring("a", "b")) as (shared, _, _, follower):
            store = handle(shared)
            (head,) = (await store.scan(KEYS.head)).items
            later = head.value.replace(b'"format_version":1', b'"format_version":2')
            await store.commit(
                when=[Unchanged(key=KEYS.head, revision=head.revision)], puts=[Put(key=KEYS.head, value=later)]
            )
            await until(lambda: isinstance(follower.trouble, BadSnapshot))
            assert "Upgrade" in str(follower.trouble)
            assert follower.routes.route("k") in ("a", "b")

    asyncio.run(main())


def copied(ledger, incarnation):
    """Return the data as it is now, in another life."""
    copy = memory(incarnation).ledger
    copy.records, copy.revision, copy.history = dict(ledger.records), ledger.revision, list(ledger.history)
    return copy


def test_a_restored_store_is_followed_as_a_later_version():
    async def main():
        async with followed(many(1)) as (shared, publisher, _, follower):
            copy = copied(shared.ledger, 2)
            await publisher.publish(many(2))
            await until(lambda: follower.routes.version.number == 2)
            shared.ledger = copy
            shared.changed()
            await until(lambda: str(follower.routes.version) == "2:1")
            assert same(many(1), follower.routes.value)
            await publish(handle(shared), NAME, many(3))
            await until(lambda: str(follower.routes.version) == "2:2")
            versions = [routes.version for routes in follower.shown]
            assert versions == sorted(versions)

    asyncio.run(main())


def test_a_watch_that_begins_in_the_next_life_is_not_taken_for_one_of_the_life_before(monkeypatch):
    """Another user of the handle may scan, and so accept the next life, before the watch has begun."""
    monkeypatch.setattr(following_module, "CONFIRM_SECONDS", 60)

    class Late(Unsteady):
        async def watch(self, prefix, *, after):
            await began.wait()
            async for change in super().watch(prefix, after=after):
                yield change

    async def main():
        async with followed(many(1), unsteady=Late) as (shared, _, store, follower):
            shared.ledger = copied(shared.ledger, 2)
            await publish(handle(shared), NAME, many(2))
            await store.scan("other/")
            began.set()
            await until(lambda: follower.routes.version.number == 2)
            assert ["1:1", "2:2"] == [str(routes.version) for routes in follower.shown]

    began = asyncio.Event()
    asyncio.run(main())


def test_what_a_watch_still_gives_of_the_life_before_is_not_taken(monkeypatch):
    """The store is restored between the two scans of a confirmation, while a change is on its way."""
    monkeypatch.setattr(following_module, "CONFIRM_SECONDS", 60)

    class Held(Unsteady):
        async def scan(self, prefix):
            if copies and prefix == KEYS.prefix:
                self._inner._memory.ledger = copies.pop()
            return await super().scan(prefix)

        async def watch(self, prefix, *, after):
            async for change in super().watch(prefix, after=after):
                pulled.append(change)
                await arrives.wait()
                yield change

    async def main():
        async with followed(many(1), unsteady=Held) as (shared, publisher, _, follower):
            restored = copied(shared.ledger, 2)
            await publisher.publish(many(2))
            await until(lambda: pulled)
            copies.append(restored)
            assert "2:1" == str((await follower.refresh(follower.routes.version)).version)
            arrives.set()
            await publish(handle(shared), NAME, many(3))
            await until(lambda: str(follower.routes.version) == "2:2")
            assert same(many(3), follower.routes.value)
            assert ["1:1", "2:1", "2:2"] == [str(routes.version) for routes in follower.shown]

    copies, pulled, arrives = [], [], asyncio.Event()
    asyncio.run(main())


def test_a_store_that_went_back_in_one_life_is_not_believed():
    async def main():
        async with followed(many(1)) as (shared, publisher, store, follower):
            copy = copied(shared.ledger, 1)
            for value in (many(2), many(3)):
                await publisher.publish(value)
            await until(lambda: follower.routes.version.number == 3)
            shared.ledger = copy
            shared.changed()
            await until(lambda: isinstance(follower.trouble, StoreWentBack))
            reads = store.reads
            await until(lambda: store.reads > reads)  # and the old head is there
            assert 3 == follower.routes.version.number
            for number, value in ((2, many(4)), (3, many(5)), (4, many(6))):
                assert number == (await publish(handle(shared), NAME, value)).version.number
            await until(lambda: follower.routes.version.number == 4)
            assert same(many(6), follower.routes.value)
            assert [routes.version.number for routes in follower.shown] in ([1, 3, 4], [1, 2, 3, 4])
            assert follower.shown[-2].epoch == many(3).epoch

    asyncio.run(main())


def test_a_misrouted_key_is_routed_anew_after_a_refresh():
    async def main():
        async with followed(ring("a", "b")) as (_, publisher, _, follower):
            routes = follower.routes
            key = next(key for key in range(1_000) if routes.route(key) == "b")
            await publisher.publish(ring("a"))
            stale = StaleRoute(key, "b", routes.version)
            newer = await follower.refresh(routes.version)
            assert "a" == newer.route(key) == follower.routes.route(key)
            assert newer is await follower.refresh(routes.version)
            assert str(stale.version) == "1:1"
            with pytest.raises(StoreUnavailable, match="nothing newer than version 1:2 was published"):
                await follower.refresh(newer.version, within_seconds=0.02)

    asyncio.run(main())


def test_many_that_refresh_at_once_ask_the_store_once(monkeypatch):
    monkeypatch.setattr(following_module, "CONFIRM_SECONDS", 60)

    async def main():
        async with followed(ring("a", "b")) as (_, publisher, store, follower):
            await publisher.publish(ring("a"))
            before, version = store.scans, follower.routes.version
            await asyncio.gather(*(follower.refresh(version) for _ in range(200)))
            assert store.scans - before <= 2

    asyncio.run(main())


def test_a_name_that_nobody_published_is_waited_for_until_the_deadline():
    async def main():
        shared = memory()
        tasks = asyncio.all_tasks()
        with pytest.raises(StoreUnavailable, match="table orders is unavailable: nothing was published"):
            async with following(handle(shared), NAME, within_seconds=0.05):
                pass
        assert tasks == asyncio.all_tasks()
        waiting = asyncio.ensure_future(Follower(handle(shared), NAME).start())
        await asyncio.sleep(0)
        await publish(handle(shared), NAME, many(1))
        await asyncio.wait_for(waiting, DEADLINE_SECONDS)
        with pytest.raises(StoreUnavailable, match="no version was read yet"):
            Follower(handle(shared), NAME).routes  # noqa: B018 - it raises

    asyncio.run(main())


@pytest.mark.parametrize(("heard", "drift"), [((1, 3), 0), ((1, 5), 2), ((2, 1), 1), (None, 0)])
def test_a_follower_is_behind_by_the_versions_that_it_heard_of_and_by_one_after_a_restore(heard, drift):
    def version(pair):
        return pair and Version(incarnation=pair[0], number=pair[1])

    follower = Follower(handle(memory()), NAME)
    follower._copy.routes, follower._copy.heard = SimpleNamespace(version=version((1, 3))), version(heard)
    assert drift == follower.drift_versions


def test_each_way_to_follow_waits_as_long_when_nobody_says_how_long():
    def defaults(*calls):
        return {signature(call).parameters["within_seconds"].default for call in calls}

    assert {10.0} == defaults(follow, follow_sync, following, Follower.start)
    assert {5.0} == defaults(AsyncFollower.refresh, SyncFollower.refresh, Follower.refresh)


def test_a_follower_ends_with_its_store_and_still_routes():
    async def main():
        async with followed(ring("a", "b")) as (_, _, store, follower):
            await store.close()
            await until(lambda: isinstance(follower.trouble, StoreClosed))
            with pytest.raises(StoreClosed):  # at once, not after that hour
                await asyncio.wait_for(follower.refresh(follower.routes.version, within_seconds=3600), DEADLINE_SECONDS)
            assert follower.routes.route("k") in ("a", "b")

    asyncio.run(main())


def test_of_a_table_keys_are_routed_and_of_an_assignment_partitions():
    async def main():
        shared = memory()
        named = balance.optimal(["orders", "users"], 2, Topology(["a", "b", "c"]))
        slots = Slots(balance.slots(Topology(["a", "b"])))
        texts = get("ranges")(["a", "b"], bounds=["m"], owners=["a", "b"])
        ints = get("ranges")(["a", "b"], bounds=[0], owners=[("a", "b"), "b"])
        single = get("ranges")(["a"], bounds=[0], owners=["a", "a"])
        tables = {"slots": slots.table(), "texts": texts.table(), "ints": ints._table, "single": single.table()}
        for name, value in {"named": named, **tables}.items():
            await publish(handle(shared), name, value)
        async with following(handle(shared), "named") as follower:
            routes = follower.routes
            assert (named["users"], named["users"][0]) == (routes.owners("users"), routes.owner("users"))
            with pytest.raises(InvalidInput, match="one of 2 ids"):
                routes.owner("user")
            with pytest.raises(InvalidInput, match="owner\\(partition\\)"):
                routes.route("users")
        async with following(handle(shared), "slots") as follower:
            assert [slots.route(key) for key in range(200)] == [follower.routes.route(key) for key in range(200)]
            assert slots.route_many(["x", "y"]) == follower.routes.placement.route_many(["x", "y"])
            with pytest.raises(InvalidInput, match="route\\(key\\)"):
                follower.routes.owner(7)
        for name, keys, placement in (("texts", ["a", "z"], texts), ("ints", [-1, 1], ints), ("single", [5], single)):
            async with following(handle(shared), name) as follower:
                assert [placement.route(key) for key in keys] == [follower.routes.route(key) for key in keys]
        async with following(handle(shared), "ints") as follower:
            assert ("a", "b") == follower.routes.preference(-1, 2)

    asyncio.run(main())


def test_a_table_of_a_secret_hash_needs_the_hasher():
    async def main():
        secret = get("ring").build(["a", "b"], hasher=get_hasher(b"0123456789abcdef"))
        shared = memory()
        await publish(handle(shared), NAME, secret.table())
        with pytest.raises(InvalidInput):
            await Follower(handle(shared), NAME).start()
        async with following(handle(shared), NAME, hasher=get_hasher(b"0123456789abcdef")) as follower:
            assert secret.route("k") == follower.routes.route("k")

    def get_hasher(key):
        from apportion import hashers

        return hashers.get("siphash-2-4", key=key)

    asyncio.run(main())


def test_what_has_no_table_cannot_be_published():
    with pytest.raises(InvalidInput, match=r"Publish the table\(\) of a placement"):
        publish_sync("memory://none", NAME, Jump(["a", "b"]))


def test_both_facades_publish_and_follow_one_name(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"

    async def both():
        async with follow(url, NAME) as table:
            version = table.version
            await publish_async(url, NAME, ring("a", "b", "c"))
            routes = await table.refresh(version)
            assert routes is table.routes
            return table

    assert 1 == publish_sync(url, NAME, ring("a", "b")).version.number
    with follow_sync(url, NAME) as table:
        began = table.version
        other = asyncio.run(both())
        routes = table.refresh(began)
        assert (2, 2) == (routes.version.number, other.version.number)
        expected = Frozen(ring("a", "b", "c"))
        assert expected.route("k") == table.route("k") == other.route("k")
        assert expected.preference("k", 1) == table.preference("k", 1) == other.preference("k", 1)
        assert expected.table(1).epoch == table.epoch
        assert (None, 0, table.version) == (table.trouble, table.drift_versions, table.heard)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while table.age_seconds > 0.2:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        with pytest.raises(InvalidInput, match="an assignment"):
            table.owner(0)
    assert expected.route("k") == table.route("k")  # also after the end of the block


def test_a_bad_name_or_value_is_refused_before_a_store_is_opened():
    with pytest.raises(InvalidInput, match="table name"), follow_sync("sqlite:////nowhere/at/all.db", "a/b"):
        pass
    with pytest.raises(InvalidInput, match="table name"):
        publish_sync("sqlite:////nowhere/at/all.db", "a\nb", ring("a"))
    with pytest.raises(InvalidInput, match="value to publish"):
        publish_sync("sqlite:////nowhere/at/all.db", "a", None)


def test_following_a_name_that_nobody_published_leaves_no_store_open():
    async def names():
        store = await connect("memory://unpublished")
        await store.close()

    with pytest.raises(StoreUnavailable), follow_sync("memory://unpublished", NAME, within_seconds=0.02):
        pass
    asyncio.run(names())
    from apportion.stores.memory.store import SHARED

    assert "unpublished" not in SHARED


def test_a_loop_that_ends_while_a_follower_still_follows_logs_nothing(caplog):
    async def main():
        store = handle(memory())
        await publish(store, NAME, ring("a"))
        follower = Follower(store, NAME)
        await follower.start()
        return follower

    asyncio.run(main())
    gc.collect()
    assert [] == caplog.records
