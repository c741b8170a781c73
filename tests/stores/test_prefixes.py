"""Several stores as one: a name decides its store, a lease is in all stores, and names of other stores go on."""

import asyncio
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Ring, stores
from apportion.errors import InvalidInput, NotPromised, StoreClosed, StoreUnavailable, UnknownOption
from apportion.groups.view.keys import GROUPS, LIVE
from apportion.guards import store as guard
from apportion.shards.records import LOADS, SHARDS
from apportion.shards.replicas.records import REPLICAS
from apportion.sim.conformance import cases, check
from apportion.stores import Absent, Capabilities, Committed, PrefixStore, Put, Refused
from apportion.stores.memory.store import Memory, MemoryStore
from apportion.stores.prefixes.names import ROOMS, NamePrefixes, url_by_prefix
from apportion.stores.sqlite import store as sqlite
from apportion.tables import Publisher
from apportion.tables.follower import following
from apportion.tables.kept import KEPT
from apportion.tables.layout import TABLES
from tests.stores.rigs.memory import MemoryRig

OTHERS, EVENTS, EU = MAP = ("", "events", "events-eu")
CASES = {case.name: case for case in cases()}


class HandClock:
    def __init__(self):
        self.now = 100.0

    def elapsed(self):
        return self.now


class Fragile(MemoryStore):
    """A store that can be away, and counts the calls that reach it."""

    def __init__(self, memory):
        super().__init__(memory, "apportion")
        self.is_away, self.calls = False, 0

    def _open(self):
        self.calls += 1
        if self.is_away:
            raise StoreUnavailable("the fragile store", "it is away")
        return super()._open()


class Three:
    """A prefix store of three memories."""

    def __init__(self, prefixes=MAP):
        self.clock = HandClock()
        self.behind = {prefix: Fragile(Memory(self.clock)) for prefix in prefixes}
        self.store = PrefixStore(self.behind, self.clock)

    def another(self):
        """Return a handle of another process."""
        return PrefixStore({prefix: Fragile(each._memory) for prefix, each in self.behind.items()}, self.clock)


def made(*names, lease=None):
    return {
        "when": [Absent(key=each) for each in names],
        "puts": [Put(key=each, value=b"1", lease=lease) for each in names],
    }


def keys(scan):
    return [each.key for each in scan.items]


def test_each_room_of_names_is_known():
    assert {f"{each}/" for each in ROOMS} == {GROUPS, LIVE, LOADS, SHARDS, TABLES, KEPT, REPLICAS, guard._KEYS}


NAMES = st.text("ab/-", max_size=4).map(lambda name: name.replace("/", "-"))
PREFIXES = st.sets(st.text("ab-", min_size=1, max_size=3) | st.text("ab-", min_size=1, max_size=3).map("{}/".format))


@given(PREFIXES, NAMES)
def test_the_longest_prefix_of_a_name_wins(prefixes, name):
    fitting = [each for each in {*prefixes, ""} if f"{name}/".startswith(each)]
    assert max(fitting, key=len) == NamePrefixes({*prefixes, ""}).of_name(name)


@given(PREFIXES, st.sampled_from([*ROOMS, "jobs"]), NAMES, st.sampled_from(["", "/", "/own/7"]))
def test_a_scan_asks_each_store_that_can_have_such_a_key(prefixes, room, name, rest):
    names = NamePrefixes({*prefixes, ""})
    key = f"{room}/{name}{rest}"
    for end in range(len(key) + 1):
        assert names.of_key(key) in names.of_keys_under(key[:end])
    assert 1 == len(names.of_keys_under(f"{room}/{name}/"))


def test_all_keys_of_a_name_are_in_the_store_of_its_prefix():
    async def story():
        three = Three()
        for name in ("users", "event", "events", "events-1", "events-eu", "events-europe"):
            group = [f"group/{name}", f"live/{name}/target", f"table/{name}/head", f"shards/{name}/set"]
            await three.store.commit(**made(*group))
        await three.store.commit(**made("events-eu/1"))
        return {
            prefix: keys(await store.scan("group/")) + keys(await store.scan("ev"))
            for prefix, store in three.behind.items()
        }

    assert asyncio.run(story()) == {
        "": ["group/event", "group/users", "events-eu/1"],
        "events": ["group/events", "group/events-1"],
        "events-eu": ["group/events-eu", "group/events-europe"],
    }


def test_a_commit_over_two_stores_is_refused_before_anything_is_written():
    async def story():
        three = Three()
        for other in ("group/users", "live/events-eu/target", "jobs/1"):
            with pytest.raises(InvalidInput, match=r"keys of a commit is .*group/events-1.*keys in one store"):
                await three.store.commit(**made("group/events-1", other))
        before = {"group/users": "", "group/events-1": "events"}
        with pytest.raises(InvalidInput, match="keys in one store"):
            await three.store.commit(
                when=[Absent(key=each) for each in before], puts=[Put(key="group/users", value=b"")]
            )
        assert 0 == sum(each.calls for each in three.behind.values())
        await three.store.commit(**made("group/events-1", "live/events-2/target"))

    asyncio.run(story())


def test_a_scan_or_watch_over_two_stores_is_refused():
    async def story():
        three = Three()
        for prefix in ("", "g", "group/", "live/ev", "table/events", "live/events-e"):
            with pytest.raises(InvalidInput, match="keys in one store"):
                await three.store.scan(prefix)
            with pytest.raises(InvalidInput, match="keys in one store"):
                await anext(three.store.watch(prefix, after=0))
        assert 0 == sum(each.calls for each in three.behind.values())
        for prefix in ("jobs/", "session/", "live/events/", "live/events-1", "table/u", "group/events-eu", "x"):
            await three.store.scan(prefix)

    asyncio.run(story())


def test_two_stores_have_no_revision_in_common():
    async def story():
        three = Three()
        one = await three.store.commit(**made("group/users"))
        two = await three.store.commit(**made("group/events"))
        return one, two, three.store.capabilities().one_revision, three.behind[""].capabilities().one_revision

    one, two, *promised = asyncio.run(story())
    assert (one, [False, True]) == (two, promised)


WIDE = Capabilities(
    linearizable=True,
    durable=True,
    fencing=True,
    gapless_watch=True,
    multi_host=True,
    restore_seen=True,
    watch_delay_seconds=0.1,
    lease_end="store",
    min_ttl_seconds=0.5,
)
NARROW = {
    "linearizable": False,
    "durable": False,
    "fencing": False,
    "gapless_watch": False,
    "multi_host": False,
    "restore_seen": False,
    "watch_delay_seconds": 2.0,
    "lease_end": "reaper",
    "min_ttl_seconds": 3.0,
    "max_ttl_seconds": 60.0,
    "max_operations": 127,
    "max_value_bytes": 1_000,
    "max_commit_bytes": 2_000,
}


@pytest.mark.parametrize("field", [each.name for each in fields(Capabilities) if each.name != "one_revision"])
def test_of_each_promise_and_limit_the_narrowest_is_told(field):
    class Narrow(MemoryStore):
        def capabilities(self):
            return replace(WIDE, **{field: NARROW[field]})

    class Wide(MemoryStore):
        def capabilities(self):
            return WIDE

    behind = [kind(Memory(HandClock()), "apportion") for kind in (Narrow, Wide)]
    for one, two in (behind, reversed(behind)):
        told = PrefixStore({"": one, "events": two}, HandClock()).capabilities()
        assert replace(WIDE, one_revision=False, **{field: NARROW[field]}) == told


def test_a_commit_above_the_narrowest_limit_is_refused_by_each_store():
    class Small(Fragile):
        def capabilities(self):
            return replace(super().capabilities(), max_operations=3)

    async def story():
        three = Three()
        three.behind["events"].__class__ = Small
        with pytest.raises(InvalidInput, match="at most 3"):
            await three.store.commit(**made(*(f"jobs/{number}" for number in range(4))))

    asyncio.run(story())


def test_the_suite_finds_a_prefix_store_that_promises_one_order_of_revisions():
    class Lying(PrefixStore):
        def capabilities(self):
            return replace(super().capabilities(), one_revision=True)

    class LyingRig(MemoryRig):
        async def connect(self, namespace, *, address=None, clock=None):
            return Lying({"": MemoryStore(self.memory, namespace), "b": MemoryStore(self.memory, f"{namespace}.b")})

    with pytest.raises(InvalidInput, match="keys in one store"):
        check(CASES["keys of all names have one order of revisions"], LyingRig())


def test_a_lease_is_one_lease_in_all_stores():
    async def story():
        three = Three()
        lease = await three.store.grant(ttl_seconds=5)
        await three.store.commit(**made("live/users/member/a", lease=lease.id))
        await three.store.commit(**made("live/events/member/a", lease=lease.id))
        other = three.another()
        found = [*(await other.scan("live/users/")).items, *(await other.scan("live/events/")).items]
        assert [lease.id, lease.id] == [each.lease for each in found]
        assert {lease.id} == await other.renew([lease.id])
        assert [{lease.id}] * 3 == [await each.renew([lease.id]) for each in three.behind.values()]
        await other.revoke(lease.id)
        assert frozenset() == await three.store.renew([lease.id])
        return [keys(await each.scan("live/")) for each in three.behind.values()]

    assert [[], [], []] == asyncio.run(story())


def test_a_lease_that_one_store_has_ended_is_ended_in_all():
    async def story():
        three = Three()
        one, two = [await three.store.grant(ttl_seconds=5) for _ in range(2)]
        await three.store.commit(**made("live/users/member/a", lease=one.id))
        await three.behind["events"].revoke(one.id)
        assert {two.id} == await three.store.renew([one.id, two.id])
        return [await each.renew([one.id]) for each in three.behind.values()], keys(
            await three.store.scan("live/users/")
        )

    assert ([frozenset()] * 3, []) == asyncio.run(story())


def test_names_of_other_stores_go_on_while_a_store_is_away():
    async def story():
        three = Three()
        after = (await three.store.scan("live/users/")).revision
        three.behind["events"].is_away = True
        for call in (three.store.scan("live/events/"), three.store.commit(**made("group/events"))):
            with pytest.raises(StoreUnavailable):
                await call
        await three.store.commit(**made("live/users/target"))
        await three.store.commit(**made("live/events-eu/target"))
        change = await anext(three.store.watch("live/users/", after=after))
        return [each.key for each in change.events], keys(await three.store.scan("live/events-eu/"))

    assert (["live/users/target"], ["live/events-eu/target"]) == asyncio.run(story())


def test_no_lease_is_granted_while_a_store_is_away():
    async def story():
        three = Three()
        three.behind["events-eu"].is_away = True
        with pytest.raises(StoreUnavailable):
            await three.store.grant(ttl_seconds=5)
        return [dict(each._memory.ledger.leases) for each in three.behind.values()]

    assert [{}, {}, {}] == asyncio.run(story())


def test_a_lease_lives_in_no_store_alone_for_longer_than_its_time():
    async def story():
        three = Three()
        lease = await three.store.grant(ttl_seconds=5)
        await three.store.commit(**made("live/users/member/a", lease=lease.id))
        three.behind["events"].is_away = True
        for _ in range(2):
            three.clock.now += 2
            with pytest.raises(StoreUnavailable):
                await three.store.renew([lease.id])
        three.clock.now += 2
        assert frozenset() == await three.store.renew([lease.id])
        assert [] == keys(await three.store.scan("live/users/"))
        three.behind["events"].is_away = False
        assert frozenset() == await three.store.renew([lease.id])
        return (await three.store.grant(ttl_seconds=5)).id != lease.id

    assert asyncio.run(story())


def test_a_short_absence_of_a_store_ends_no_lease():
    async def story():
        three = Three()
        lease = await three.store.grant(ttl_seconds=5)
        three.behind["events"].is_away = True
        three.clock.now += 3
        with pytest.raises(StoreUnavailable):
            await three.store.renew([lease.id])
        three.behind["events"].is_away = False
        three.clock.now += 1
        return {lease.id} == await three.store.renew([lease.id])

    assert asyncio.run(story())


def test_the_time_without_a_store_counts_from_the_last_renewal_in_all_stores():
    async def story():
        three = Three()
        lease = await three.store.grant(ttl_seconds=5)
        three.clock.now += 4
        assert {lease.id} == await three.store.renew([lease.id])
        three.behind["events"].is_away = True
        three.clock.now += 4
        with pytest.raises(StoreUnavailable):
            await three.store.renew([lease.id])
        three.clock.now += 1
        return await three.store.renew([lease.id])

    assert frozenset() == asyncio.run(story())


def test_while_all_stores_are_away_nothing_is_said_of_a_lease():
    async def story():
        three = Three()
        lease = await three.store.grant(ttl_seconds=5)
        for each in three.behind.values():
            each.is_away = True
        three.clock.now += 20
        with pytest.raises(StoreUnavailable):
            await three.store.renew([lease.id])
        with pytest.raises(StoreUnavailable):
            await three.store.renew([])

    asyncio.run(story())


def test_to_revoke_while_a_store_is_away_ends_the_lease_in_the_others():
    async def story():
        three = Three()
        lease = await three.store.grant(ttl_seconds=5)
        three.behind[""].is_away = True
        with pytest.raises(StoreUnavailable):
            await three.store.revoke(lease.id)
        three.behind[""].is_away = False
        return [len(each._memory.ledger.leases) for each in three.behind.values()]

    assert [1, 0, 0] == asyncio.run(story())


def test_leases_that_nobody_renews_are_forgotten():
    async def story():
        three = Three()
        for _ in range(50):
            await three.store.grant(ttl_seconds=5)
            three.clock.now += 1
        return len(three.store._granted)

    assert 5 == asyncio.run(story())


def test_tables_of_both_stores_are_published_and_followed_through_one_handle():
    async def story():
        three, ring = Three(), Ring(["a", "b"])
        for name in ("users", "events-1"):
            await Publisher(three.store, name).publish(ring.table())
        async with following(three.store, "users") as users, following(three.store, "events-1") as events:
            assert ring.route("k") == users.routes.route("k") == events.routes.route("k")
        return [len((await each.scan("table/")).items) > 0 for each in three.behind.values()]

    assert [True, True, False] == asyncio.run(story())


def test_closing_closes_all_stores_though_one_raises():
    async def story():
        three = Three()

        async def _close():
            raise StoreUnavailable("the fragile store", "it does not close")

        three.behind["events"].close = _close
        with pytest.raises(StoreUnavailable, match="does not close"):
            await three.store.close()
        for call in (three.store.grant(ttl_seconds=5), three.store.renew([]), three.store.revoke(7)):
            with pytest.raises(StoreClosed):
                await call
        return [each._closed for each in three.behind.values()]

    assert [True, False, True] == asyncio.run(story())


def test_stores_of_urls_are_opened_and_closed(tmp_path):
    urls = {"": f"sqlite:///{tmp_path}/all.db", "events/": f"sqlite:///{tmp_path}/events.db"}

    async def story():
        store = await stores.by_prefix(urls, needs=["fencing"])
        await store.commit(**made("group/events"))
        await store.commit(**made("group/events-1"))
        await store.close()
        one = await stores.connect(url_by_prefix(urls, "events"))
        two = await stores.connect(url_by_prefix(urls, "events-1"))
        found = keys(await one.scan("group/")), keys(await two.scan("group/"))
        await one.close()
        await two.close()
        return found

    assert (["group/events"], ["group/events-1"]) == asyncio.run(story())


def test_a_store_that_lacks_a_need_leaves_no_store_open(tmp_path, monkeypatch):
    closed, urls = [], {"": f"sqlite:///{tmp_path}/all.db", "events": "memory://events"}
    close = sqlite.SqliteStore.close

    async def _noted(self):
        closed.append(self)
        await close(self)

    monkeypatch.setattr(sqlite.SqliteStore, "close", _noted)
    with pytest.raises(NotPromised):
        asyncio.run(stores.by_prefix(urls, needs=["durable"]))
    assert 1 == len(closed)


@pytest.mark.parametrize(
    ("urls", "error", "said"),
    [
        ({}, InvalidInput, 'prefixes is .* one of them ""'),
        ({"events": "memory://a"}, InvalidInput, 'prefixes is .*events.* one of them ""'),
        ("memory://", InvalidInput, "urls is 'str', expected a mapping"),
        ([("", "memory://")], InvalidInput, "urls is 'list', expected a mapping"),
        ({"": "memory://a", 7: "memory://b"}, InvalidInput, "prefix is 7, expected a str"),
        ({"": "memory://a", b"x": "memory://b"}, InvalidInput, "prefix is b'x', expected a str"),
        ({"": "memory://a", "a/b": "memory://b"}, InvalidInput, "with a slash at most at its end"),
        ({"": "memory://a", "/": "memory://b"}, InvalidInput, "with a slash at most at its end"),
        ({"": "memory://a", "a//": "memory://b"}, InvalidInput, "with a slash at most at its end"),
        ({"": "memory://a", "a\n": "memory://b"}, InvalidInput, "printable"),
        ({"": "memory://a", "a" * 300: "memory://b"}, InvalidInput, "bytes of UTF-8"),
        ({"": "memory://a", "x": "etdc://b"}, UnknownOption, "etcd"),
        ({"": "memory://a", "x": "b"}, InvalidInput, "store URL"),
        ({"": "memory://a", "x": None}, InvalidInput, "store URL"),
        ({"": "memory://a", "x": "memory://b?paged=1"}, UnknownOption, "option of a memory"),
        ({"": "memory://a", "x": "memory://a"}, InvalidInput, "store of prefix 'x' is .*memory://a.* prefix ''"),
        ({"": "sqlite:///a.db", "x": "sqlite:///./a.db"}, InvalidInput, "that of prefix ''"),
        ({"": "postgresql://h/d", "x": "postgresql://u:secret@h/d"}, InvalidInput, "that of prefix ''"),
    ],
)
def test_a_wrong_mapping_is_refused(urls, error, said):
    with pytest.raises(error, match=said) as caught:
        asyncio.run(stores.by_prefix(urls))
    assert "secret" not in str(caught.value)
    with pytest.raises(error, match=said):
        url_by_prefix(urls, "name")


def test_two_namespaces_of_a_store_are_two_stores():
    assert "memory://a?namespace=x" == url_by_prefix({"": "memory://a", "x": "memory://a?namespace=x"}, "x-1")


@pytest.mark.parametrize("name", ["a/b", "", None, 7])
def test_a_name_that_no_group_can_have_is_refused(name):
    with pytest.raises(InvalidInput, match=r"^name is"):
        url_by_prefix({"": "memory://"}, name)


def test_a_wrong_commit_is_refused_as_by_every_store():
    async def story():
        three = Three()
        for wrong in ({"when": "ab"}, {"when": [7], "puts": []}, {"when": [Absent(key="a\0b")], "puts": []}):
            with pytest.raises(InvalidInput):
                await three.store.commit(**wrong)
        assert isinstance(await three.store.commit(**made("group/users")), Committed)
        return await three.store.commit(**made("group/users"))

    assert isinstance(asyncio.run(story()), Refused)
