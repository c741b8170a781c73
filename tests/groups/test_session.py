"""One session for all groups of a process: it begins with the first, ends with the last, and no group costs another."""

import asyncio
from functools import wraps

import pytest

from apportion import open_group
from apportion.errors import InvalidInput, StoreUnavailable, StoreWentBack
from apportion.groups.membership import Membership
from apportion.groups.opening import Options
from apportion.groups.session import Sessions, SharedSessions
from apportion.groups.view.intake import LiveMember
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import LEAVES, GroupRecord, MemberRecord, partition_of
from apportion.groups.view.view import View
from apportion.runtime.clock import SystemClock
from apportion.stores import Committed, Item, Refused, Scan, Unknown, connect
from apportion.stores.catalog import parsed_url


def runs(test):
    """Run a test in a loop, for ten seconds at most."""

    @wraps(test)
    def bounded(*arguments, **named):
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 10))

    return bounded


class Store:
    """What a session needs of a store; `alive` and `problem` are what a renewal answers."""

    def __init__(self):
        self.granted, self.revoked, self.renewals = 0, [], 0
        self.alive, self.problem, self.incarnation = True, None, 1
        self.renewed = []

    async def scan(self, prefix):
        await asyncio.sleep(0)
        return Scan(items=(), revision=1, incarnation=self.incarnation)

    async def grant(self, *, ttl_seconds):
        self.granted += 1
        return type("Lease", (), {"id": self.granted, "ttl_seconds": ttl_seconds})

    async def renew(self, leases):
        self.renewals += len(leases)
        self.renewed += leases
        if self.problem is not None:
            raise self.problem
        return frozenset(leases) if self.alive else frozenset()

    async def revoke(self, lease):
        self.revoked.append(lease)


def deadlines():
    seen = []
    return seen, seen.append


async def joined(count, *, store, ttl_seconds=0.2):
    sessions = Sessions(store, SystemClock())
    joins = (sessions.join(ttl_seconds, lambda _: None, incarnation=1) for _ in range(count))
    return await asyncio.gather(*joins), sessions


@runs
async def test_groups_that_begin_at_once_share_one_lease():
    store = Store()
    parts, sessions = await joined(3, store=store)
    other = await sessions.join(0.4, lambda _: None, incarnation=1)
    assert ({1}, 2) == ({part.lease for part in parts}, other.lease)
    for part in (*parts, other):
        await part.end(is_clear=True)
    assert [1, 2] == sorted(store.revoked)


@runs
async def test_the_last_one_gives_the_lease_back_and_the_next_begins_another():
    store = Store()
    (one, two), sessions = await joined(2, store=store)
    await one.end(is_clear=True)
    assert ([], False, True) == (store.revoked, two.ended.is_set(), two.is_alone)
    await two.end(is_clear=True)
    assert [1] == store.revoked
    assert 2 == (await sessions.join(0.2, lambda _: None, incarnation=1)).lease


@runs
async def test_a_late_part_hears_the_deadline_at_once_and_all_hear_the_next():
    store, sessions = Store(), None
    sessions = Sessions(store, SystemClock())
    first, hear_first = deadlines()
    late, hear_late = deadlines()
    parts = [await sessions.join(0.2, hear_first, incarnation=1), await sessions.join(0.2, hear_late, incarnation=1)]
    assert first == late
    await asyncio.sleep(0.12)
    assert first == late
    assert store.renewals == len(first) - 1 >= 1  # one renewal for both
    for part in parts:
        await part.end(is_clear=True)


class Slow(Store):
    """A store whose grants take 3 s and whose renewals take 1 s. The second renewal finds no connection."""

    now = 100.0

    def elapsed(self):
        return self.now

    async def grant(self, *, ttl_seconds):
        self.now += 3.0
        return await super().grant(ttl_seconds=ttl_seconds)

    async def renew(self, leases):
        self.now += 1.0
        self.problem = StoreUnavailable("the store", "no connection") if self.renewals == 1 else None
        return await super().renew(leases)


@runs
async def test_a_lease_is_trusted_for_nine_tenths_of_its_time_from_the_moment_it_was_asked_for(monkeypatch):
    async def sleep(seconds):
        pauses.extend([seconds] if seconds else [])
        store.now += seconds
        if len(pauses) == 4:
            await asyncio.Event().wait()

    pauses, store, (seen, hear) = [], Slow(), deadlines()
    monkeypatch.setattr("apportion.groups.session.asyncio.sleep", sleep)
    part = await Sessions(store, store).join(10.0, hear, incarnation=1)
    await asyncio.wait([asyncio.ensure_future(part.keep())], timeout=0.01)
    assert ([109.0, 114.5, 119.5], [2.5, 2.5, 0.5, 2.5]) == (seen, pauses)
    await part.end(is_clear=True)


@runs
async def test_who_gives_up_hears_no_more_and_costs_the_others_nothing():
    sessions = Sessions(Store(), SystemClock())
    stuck, hear_stuck = deadlines()
    well, hear_well = deadlines()
    gives_up, other = (
        await sessions.join(0.2, hear_stuck, incarnation=1),
        await sessions.join(0.2, hear_well, incarnation=1),
    )
    gives_up.forfeit()
    await gives_up.keep()  # returns
    await asyncio.sleep(0.12)
    assert 1 == len(stuck) < len(well)
    await gives_up.end(is_clear=True)
    assert not other.ended.is_set()
    await other.end(is_clear=True)


@runs
async def test_who_leaves_something_behind_ends_it_for_all():
    store = Store()
    (one, two), sessions = await joined(2, store=store)
    await one.end(is_clear=False)
    await two.keep()  # returns
    assert ([1], True) == (store.revoked, two.is_alone)
    new = await sessions.join(0.2, lambda _: None, incarnation=1)
    await two.end(is_clear=False)
    assert ([1], 2, False) == (store.revoked, new.lease, new.ended.is_set())
    await new.end(is_clear=True)


@pytest.mark.parametrize("problem", [StoreWentBack("a store", "life 1", "life 2"), RuntimeError("a defect")])
@runs
async def test_what_ends_the_renewals_is_raised_for_every_group(problem):
    store = Store()
    parts, _ = await joined(2, store=store)
    store.problem = problem
    for part in parts:
        with pytest.raises(type(problem)):
            await part.keep()
        await part.end(is_clear=False)


@runs
async def test_a_store_that_is_away_ends_nothing_and_a_lease_that_is_over_all():
    store = Store()
    parts, _ = await joined(2, store=store)
    store.problem = StoreUnavailable("a store", "it is away", "Try again.")
    await asyncio.sleep(0.12)
    assert [False, False] == [part.ended.is_set() for part in parts]
    store.problem, store.alive = None, False
    for part in parts:
        await part.keep()


@runs
async def test_who_joins_in_a_later_life_of_the_store_ends_the_session_of_an_earlier_one_for_all():
    store = Store()
    [old], sessions = await joined(1, store=store)
    store.incarnation = 2
    new = await sessions.join(0.2, lambda _: None, incarnation=2)
    assert (1, 2) == (old.lease, new.lease)
    with pytest.raises(StoreWentBack, match="it is in incarnation 2, but incarnation 1 was seen before"):
        await old.keep()
    late = await sessions.join(0.2, lambda _: None, incarnation=1)  # of which its own handle will tell
    assert 2 == late.lease
    for part in (old, new, late):
        await part.end(is_clear=True)


@runs
async def test_a_session_of_an_earlier_life_is_renewed_no_more_even_if_nobody_ends_it():
    store = Store()
    [old], sessions = await joined(1, store=store)
    store.incarnation = 2
    new = await sessions.join(0.2, lambda _: None, incarnation=2)
    store.renewed.clear()
    while store.renewed.count(new.lease) < 3:
        await asyncio.sleep(0.005)
    assert [new.lease] == sorted({*store.renewed})
    for part in (old, new):
        await part.end(is_clear=True)


@runs
async def test_two_groups_have_one_lease_in_the_store_and_one_leaves_the_other_alone(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"
    store = await connect(url)

    async def leases():
        return {item.key: item.lease for item in (await store.scan("live/")).items if item.lease is not None}

    async with open_group(url, "mailers", partitions=4, member_id="a") as mailers:
        await mailers.wait_until_settled()
        before = dict(mailers.owned)
        async with open_group(url, "crawl", partitions=2, member_id="a") as crawl:
            await crawl.wait_until_settled()
            found = await leases()
            assert ["live/crawl/controller", "live/crawl/member/a"] == sorted(each for each in found if "crawl" in each)
            assert 1 == len(set(found.values()))
        assert {key: lease for key, lease in found.items() if "mailers" in key} == await leases()
        assert before == dict(mailers.owned)
        assert all(before[each] is mailers.owned[each] for each in before)
    assert {} == await leases()
    await store.close()


class Silent:
    """A store that shows nothing, as of some revision, and of whose commits the outcomes are told."""

    def __init__(self, *outcomes, revision):
        self.outcomes, self.asked = list(outcomes), 0
        self._revision = revision

    async def scan(self, prefix):
        return Scan(items=(), revision=self._revision, incarnation=1)

    async def commit(self, *, when, puts=(), deletes=()):
        self.asked += 1
        return self.outcomes.pop(0)


@pytest.mark.parametrize(
    ("outcomes", "shown", "is_cleared"),
    [
        ([Committed(revision=2)], 2, True),
        ([Committed(revision=2)], 1, False),  # a scan from before it was written
        ([Refused(revision=1), Committed(revision=2)], 3, True),
        ([Unknown(reason="no reply")], 2, False),
        ([Unknown(reason="no reply"), Committed(revision=2)], 2, False),
    ],
)
@runs
async def test_who_may_still_be_written_down_has_not_cleared_its_records(outcomes, shown, is_cleared):
    store = Silent(*outcomes, revision=shown)
    options = Options(group="g", record=GroupRecord(partitions=2), member_id="a", member=MemberRecord(nonce=""))
    membership = Membership(store, View(GroupKeys(group="g"), GroupRecord(partitions=2)), options, agreed=1, lease=7)
    for _ in list(outcomes):
        await membership.try_to_join(is_patient=True)
    assert is_cleared is await membership.is_cleared()


@pytest.mark.parametrize(("lease", "is_patient", "asked"), [(7, True, 1), (None, True, 1), (8, True, 0), (8, False, 1)])
@runs
async def test_a_damaged_record_on_the_lease_of_another_process_is_waited_for(lease, is_patient, asked):
    store, keys = Silent(Committed(revision=9), revision=9), GroupKeys(group="g")
    options = Options(group="g", record=GroupRecord(partitions=2), member_id="a", member=MemberRecord(nonce=""))
    view = View(keys, GroupRecord(partitions=2))
    item = Item(key=keys.member("a"), value=b"?", revision=8, lease=lease)
    view.load(Scan(items=(item,), revision=8, incarnation=1), 0.0)
    await Membership(store, view, options, agreed=1, lease=7).try_to_join(is_patient=is_patient)
    assert asked == store.asked


class Refusing(Silent):
    """A store that commits nothing about one partition, and tells how large each commit was."""

    def __init__(self, key):
        super().__init__(revision=1)
        self.key, self.freed = key, []

    async def commit(self, *, when, puts=(), deletes=()):
        self.freed.append([partition_of(put.key.rpartition("/")[2], 99) for put in puts])
        is_refused = self.key in [put.key for put in puts]
        return Refused(revision=1) if is_refused else Committed(revision=2)


@pytest.mark.parametrize(("stale", "width"), [(0, 4), (1, 2), (3, 3), (4, 1)])
@runs
async def test_of_what_a_leaver_frees_together_all_is_freed_but_what_is_refused(stale, width):
    keys = GroupKeys(group="g")
    store, view = Refusing(keys.own(stale)), View(keys, GroupRecord(partitions=5))
    options = Options(group="g", record=GroupRecord(partitions=5), member_id="a", member=MemberRecord(nonce=""))
    membership = Membership(store, view, options, agreed=1, lease=7)
    view.members["a"] = LiveMember(session=1, record=MemberRecord(nonce=membership._nonce), lease=7, since=0.0)
    async with asyncio.timeout(5):
        await membership.free(range(5), width=width)
    alone = [freed for freed in store.freed if freed == [stale]]
    done = [partition for freed in store.freed if stale not in freed for partition in freed]
    assert (1, {*range(5)} - {stale}) == (len(alone), set(done))
    assert len(done) == len(set(done))


@pytest.mark.parametrize("is_asked", [True, False])
@runs
async def test_who_leaves_takes_the_request_to_leave_away_in_the_same_commit(is_asked):
    class Noting(Silent):
        async def commit(self, *, when, puts=(), deletes=()):
            self.outcomes.append(([each.key for each in when], list(puts), deletes))
            return Committed(revision=4)

    keys = GroupKeys(group="g")
    store, view = Noting(revision=3), View(keys, GroupRecord(partitions=2))
    options = Options(group="g", record=GroupRecord(partitions=2), member_id="a", member=MemberRecord(nonce=""))
    membership = Membership(store, view, options, agreed=1, lease=7)
    view.members["a"] = LiveMember(session=1, record=MemberRecord(nonce=membership._nonce), lease=7, since=0.0)
    if is_asked:
        view.drains["a"] = Item(key=keys.drain("a"), value=LEAVES, revision=2, lease=7)
    await membership.leave()
    expected = [keys.member("a"), *([keys.drain("a")] if is_asked else [])]
    assert [(expected, [], expected)] == store.outcomes


@runs
async def test_a_handle_is_open_while_a_group_uses_it(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"
    one, two = await asyncio.gather(SharedSessions.taken(url), SharedSessions.taken(url))
    assert one is two
    await one.let_go()
    await (await two.sessions.join(1.0, lambda _: None, incarnation=1)).end(is_clear=True)
    await two.let_go()
    three = await SharedSessions.taken(url)
    assert three is not two
    await (await three.sessions.join(1.0, lambda _: None, incarnation=1)).end(is_clear=True)
    await three.let_go()


@runs
async def test_a_store_is_known_however_its_url_is_written_and_files_of_two_folders_are_two(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    urls = ["sqlite:///work.db", f"sqlite:///{tmp_path}/there/../here/work.db", "sqlite:///work.db?namespace=apportion"]
    one, two, named = [await SharedSessions.taken(url) for url in urls]
    monkeypatch.chdir(tmp_path / "there")
    three = await SharedSessions.taken("sqlite:///work.db")
    assert one is two is named
    assert three is not one
    for each in (one, two, three, named):
        await each.let_go()


def test_options_of_a_url_may_stand_in_any_order():
    urls = ["postgresql://u:p@h/d?namespace=a&schema=s", "postgresql://u:p@h/d?schema=s&namespace=a"]
    assert 1 == len({parsed_url(url).canonical() for url in urls})
    assert 2 == len({parsed_url(url).canonical() for url in ("redis://h/0", "redis://h/1")})


@runs
async def test_a_store_that_cannot_be_opened_is_asked_again(tmp_path):
    folder = tmp_path / "not there yet"
    url = f"sqlite:///{folder}/work.db"
    for _ in range(2):
        with pytest.raises(InvalidInput):
            await SharedSessions.taken(url)
    folder.mkdir()
    await (await SharedSessions.taken(url)).let_go()


@runs
async def test_who_slept_past_the_deadline_reaches_the_store_before_the_renewal_that_is_trusted(monkeypatch):
    class Asleep(Slow):
        async def renew(self, leases):
            self.now += 4.0 * (not seen[1:])  # the first request finds the connection cut, and connects again
            return await Store.renew(self, leases)

    async def sleep(seconds):
        pauses.extend([seconds] if seconds else [])
        store.now += 20.0 * (len(pauses) == 1)
        if len(pauses) == 2:
            await asyncio.Event().wait()

    pauses, store, (seen, hear) = [], Asleep(), deadlines()
    monkeypatch.setattr("apportion.groups.session.asyncio.sleep", sleep)
    part = await Sessions(store, store).join(10.0, hear, incarnation=1)
    await asyncio.wait([asyncio.ensure_future(part.keep())], timeout=0.01)
    assert [109.0, 136.0] == seen
    await part.end(is_clear=True)
