"""Groups in a world: programs as they run in production, on the shipped group, under faults and in virtual time."""

import asyncio
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from datetime import timedelta

import pytest

import apportion
from apportion import guards, sync
from apportion.errors import Fenced, InvariantBroken, NotOwner, StoreUnavailable, UnknownOption
from apportion.sim import LeavesTheWorld, Mix, Nemesis, Sink, World
from apportion.sim.invariants.store import RevisionsGrow
from apportion.stores import Absent, Put

URL = "sqlite:///work.db"
TTL = timedelta(seconds=2)
PARTITIONS = 6
HARMLESS_BLOWS = ("pause", "partition", "one-way partition", "store away", "store crash", "store restore", "disk full")


class Mailer:
    """A program as users write it: a task for each partition, which writes under a guard while it holds it."""

    def __init__(self, sink):
        self.sink, self.tasks, self.calls = sink, {}, []

    async def run(self, **options):
        given = {"partitions": PARTITIONS, "lease_ttl": TTL} | options
        async with apportion.open_group(URL, "mailers", **given) as self.group:
            await self.group.serve(on_gained=self.start, on_lost=self.stop)

    async def start(self, partition, token):
        self.calls.append(("start", partition, token.epoch))
        self.end(partition)
        self.tasks[partition] = asyncio.create_task(self.send(partition))

    async def stop(self, partition, token):
        self.calls.append(("stop", partition, token.epoch))
        self.end(partition)

    def end(self, partition):
        if partition in self.tasks:
            self.tasks.pop(partition).cancel()

    async def send(self, partition):
        with suppress(NotOwner, Fenced):
            async with self.group.hold(partition) as token:
                while True:
                    await self.write(token)
                    await asyncio.sleep(0.2)

    async def write(self, token):
        with suppress(StoreUnavailable):
            await self.sink.put(token, "mail")


class Office:
    """A world with mailers, one a process."""

    def __init__(self, world, kind=Mailer):
        self.world, self.sink, self.kind, self.of = world, Sink(world), kind, {}

    def start(self, *names, **options):
        for name in names:
            self.of[name] = self.kind(self.sink)
            self.world.spawn(name, self.of[name].run(**{"settle": timedelta(0)} | options))

    def go_on(self, seconds):
        self.world.run(until=self.world.now + seconds)

    def loads(self):
        return {name: len(mailer.group.owned) for name, mailer in self.of.items()}

    def served(self):
        """Return how often each partition is served now."""
        return Counter(partition for mailer in self.of.values() for partition in mailer.group.owned)


@pytest.fixture(params=range(3))
def office(request):
    with World(request.param, story=True) as world:
        yield Office(world)


def test_a_program_of_production_shares_partitions_with_its_like(office):
    office.start("a", "b", "c")
    office.go_on(3.0)
    assert {"a": 2, "b": 2, "c": 2} == office.loads()
    assert dict.fromkeys(range(PARTITIONS), 1) == office.served()
    assert set(office.sink.rows) == {f"mailers/{partition}" for partition in range(PARTITIONS)}
    assert all(mailer.group.is_ready and mailer.group.is_alive for mailer in office.of.values())
    assert all(0.0 < mailer.group.seconds_left < 2.0 for mailer in office.of.values())  # also between two runs
    assert ["a", "b", "c"] == [office.of[name].group.member_id.rpartition("-")[0] for name in "abc"]


def test_what_is_asked_of_a_group_is_answered_as_in_production(office):
    seen = []

    async def look():
        async with apportion.open_group(URL, "other", partitions=2, member_id="ann", lease_ttl=TTL) as group:
            await group.wait_until_settled()
            async with group.hold("1") as token:
                assert token == group.token(1) == group.owned[1].token
            seen.extend([list(await group.members()), group.sight().owned, group.statistics.gained, group.name])
            async for change in group.changes():
                seen.append(change.gained or change.lost)
                group.leave()
            with pytest.raises(NotOwner):
                group.token(1)

    office.world.spawn("a", look())
    office.go_on(5.0)
    assert [["ann"], 2, 2, "other", (0, 1), (0, 1)] == seen


def test_sigterm_hands_all_over_and_calls_on_lost(office):
    office.start("a", "b")
    office.go_on(3.0)
    mine = sorted(office.of["a"].group.owned)
    began = office.world.now
    office.world.terminate("a")
    office.go_on(1.0)
    stopped = [partition for what, partition, _ in office.of["a"].calls if what == "stop"]
    assert (mine, {"a": 0, "b": PARTITIONS}) == (sorted(stopped), office.loads())
    assert not office.of["a"].group.is_alive
    assert [] == [line for line in office.world.trace.lines if "broken" in line and float(line.split()[0]) > began]


def test_a_second_sigterm_ends_a_process_and_so_does_the_first_where_nothing_leaves(office):
    class Stays(Mailer):
        async def stop(self, partition, token):
            await asyncio.Event().wait()

    office.kind = Stays
    office.start("a")
    office.world.spawn("b", asyncio.sleep(100.0))
    office.go_on(3.0)
    office.world.terminate("a")
    office.go_on(1.0)
    assert office.world.processes.names == ["a", "b"]
    office.world.terminate("a")
    office.world.terminate("b")
    assert office.world.processes.names == []
    with pytest.raises(UnknownOption):
        office.world.terminate("z")


def test_the_partitions_of_a_killed_process_are_served_once_its_lease_has_ended(office):
    office.start("a", "b")
    office.go_on(3.0)
    calls = list(office.of["a"].calls)
    office.world.kill("a")
    office.go_on(0.5)
    assert 3 == len(office.of["b"].group.owned)
    office.go_on(5.0)
    assert ({"a": 0, "b": PARTITIONS}, calls) == (office.loads(), office.of["a"].calls)


def test_a_static_member_that_is_started_anew_keeps_its_partitions(office):
    office.start("a", member_id="mail-0", static=True)
    office.start("b")
    office.go_on(3.0)
    before = list(office.of["a"].group.owned)
    office.world.kill("a")
    office.go_on(3.0)
    office.start("a", member_id="mail-0", static=True)
    office.go_on(3.0)
    assert (before, 3) == (list(office.of["a"].group.owned), len(before))


@pytest.mark.slow
def test_a_process_that_sleeps_through_its_lease_loses_all_and_its_late_writes_are_refused():
    refused = 0
    for seed in range(20):
        with World(seed) as world:
            office = Office(world)
            office.start("a", "b")
            office.go_on(3.0)
            world.pause("a", 5.0)
            office.go_on(4.9)
            assert {"a": 0, "b": PARTITIONS} == office.loads()
            office.go_on(4.0)
            assert {"a": 3, "b": 3} == office.loads()
            refused += len(office.sink.refused)
    assert refused > 0


def test_a_handler_that_raises_is_called_again_and_told(office):
    class Fails(Mailer):
        async def start(self, partition, token):
            await super().start(partition, token)
            if len(self.calls) <= 3:
                raise OSError("no inbox")

    office.kind = Fails
    office.start("a", partitions=1)
    office.go_on(0.4)
    assert {0: "OSError: no inbox"} == office.of["a"].group.failing
    office.go_on(2.0)
    assert ({}, [("start", 0, 1)] * 4) == (office.of["a"].group.failing, office.of["a"].calls)


def test_a_handler_that_hangs_costs_the_session_and_others_go_on(office):
    class Hangs(Mailer):
        async def start(self, partition, token):
            await super().start(partition, token)
            if self is office.of["a"] and partition == min(self.group.owned):
                await asyncio.Event().wait()

    office.kind = Hangs
    office.start("a", "b", progress_deadline=timedelta(seconds=3))
    office.go_on(2.0)
    assert {"a": 3, "b": 3} == office.loads()
    office.go_on(4.0)
    assert office.of["a"].group.statistics.given_up > 0
    assert office.of["a"].group.statistics.stuck.endswith("makes no progress")


def test_work_that_outlives_its_drain_is_cancelled(office):
    class Slow(Mailer):
        ended = ()

        async def stop(self, partition, token):
            try:
                await asyncio.sleep(100.0)
            finally:
                self.ended += (round(self.sink._world.now),)

    office.kind = Slow
    office.start("a", drain_timeout=timedelta(seconds=1))
    office.go_on(5.0)
    office.start("b")
    office.go_on(4.0)
    assert ((6, 6, 6), {"a": 3, "b": 3}) == (office.of["a"].ended, office.loads())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_handlers_that_hold_what_they_work_on_stand_a_nemesis_and_come_to_rest(seed):
    async def anew(mailer):
        while True:
            try:
                await mailer.run()
            except apportion.ApportionError:
                await asyncio.sleep(0.5)

    with World(seed) as world:
        office = Office(world)

        def start(name):
            office.of[name] = Mailer(office.sink)
            world.spawn(name, anew(office.of[name]))

        for name in ("a", "b", "c"):
            start(name)
        nemesis = Nemesis(world, Mix.drawn(seed, blows=HARMLESS_BLOWS), start=start)
        world.run(nemesis.rage(until=15.0))
        nemesis.rest()
        world.run(until=60.0)
        served, quarantined = office.served(), office.of["a"].group.sight().quarantined
        assert (PARTITIONS, {1}) == (len(served) + quarantined, {*served.values()})
        assert all(office.sink.accepted[f"mailers/{each}"][2] > 55.0 for each in served)


class Careless(Mailer):
    """Goes on writing after `on_lost` has returned."""

    async def stop(self, partition, token):
        asyncio.get_running_loop().call_later(0.5, self.end, partition)

    async def send(self, partition):
        token = self.group.token(partition)
        while True:
            await self.write(token)
            await asyncio.sleep(0.2)


def test_a_handler_that_writes_after_on_lost_has_returned_is_found(office):
    office.kind = Careless
    office.start("a")
    office.go_on(3.0)
    office.start("b")
    with pytest.raises(
        InvariantBroken, match=r"WritesAreHeld at .* a writes mailers/\d under 1:1 after its work"
    ) as bad:
        office.go_on(3.0)
    assert f"World({office.world.seed}, story=True)" in bad.value.hint


class Trusting(Careless):
    """Ends its work in `on_lost` alone."""

    stop = Mailer.stop


def test_what_on_lost_ends_has_ended_with_the_session_too(office):
    office.kind = Trusting
    office.start("a", "b")
    office.go_on(3.0)
    office.world.terminate("b")
    office.go_on(3.0)
    mailer = office.of["a"]
    office.world.partition("a", "store", 4.0)
    office.go_on(3.0)
    assert ({}, PARTITIONS) == (mailer.tasks, [what for what, *_ in mailer.calls].count("stop"))
    office.go_on(7.0)
    assert sorted(mailer.tasks) == list(range(PARTITIONS))


def test_who_holds_nothing_and_listens_to_changes_is_not_judged(office):
    wrote = []

    async def listen():
        async with apportion.open_group(URL, "mailers", partitions=2, lease_ttl=TTL) as group:
            async for change in group.changes():
                for partition in change.gained:
                    await office.sink.put(group.token(partition), "mail")
                    wrote.append(partition)

    office.world.spawn("a", listen())
    office.go_on(3.0)
    assert [0, 1] == wrote


def test_a_write_under_an_older_token_is_refused_and_says_by_which(office):
    class Keeps(Mailer):
        async def start(self, partition, token):
            self.tasks[partition] = token
            await self.sink.put(token, self.group.member_id)

    office.kind = Keeps
    office.start("a", partitions=1, member_id="ann")
    office.go_on(2.0)
    old = office.of["a"].tasks[0]
    office.world.kill("a")
    office.start("b", partitions=1, member_id="bob")
    office.go_on(5.0)
    with pytest.raises(Fenced, match=r"mailers/0 belongs to another holder: token 1:1 came after 1:2"):
        office.world.run(office.sink.put(old, "late"))
    assert {"mailers/0": ["ann", "bob"]} == office.sink.rows


def test_a_guarded_database_in_memory_is_one_of_the_world(office):
    guard, seen = guards.SqlGuard(), []
    database = sqlite3.connect(":memory:")
    guard.create(database)
    database.execute("CREATE TABLE sent (address TEXT)")

    class Keeps(Mailer):
        async def start(self, partition, token):
            self.tasks[partition] = token
            with database:
                guard.check(database, token)
                database.execute("INSERT INTO sent VALUES (?)", (self.group.member_id,))

        def late(self):
            with database:
                guard.check(database, self.tasks[0])

    office.kind = Keeps
    office.start("a", partitions=1, member_id="ann")
    office.go_on(2.0)
    office.world.kill("a")
    ann = office.of["a"]
    office.start("b", partitions=1, member_id="bob")
    office.go_on(5.0)
    seen.extend(name for (name,) in database.execute("SELECT address FROM sent"))
    with closing(database), pytest.raises(Fenced):
        ann.late()
    assert ["ann", "bob"] == seen


def test_a_write_without_a_reply_may_have_happened(office):
    async def story():
        async with apportion.open_group(URL, "mailers", partitions=1, lease_ttl=TTL) as group:
            await group.wait_until_settled()
            office.world.partition("sink", "a", 5.0, one_way=True)
            with pytest.raises(StoreUnavailable, match="may have been written"):
                await office.sink.put(group.token(0), "mail")

    office.world.run(office.world.spawn("a", story()))
    assert {"mailers/0": ["mail"]} == office.sink.rows


def told(seed):
    with World(seed, story=True) as world:
        office = Office(world)
        office.start("a", "b", "c")
        office.go_on(3.0)
        world.pause("a", 4.0)
        world.kill("b")
        office.go_on(8.0)
        return world.trace.lines, world.trace.digest(world.loop.steps)


def test_the_same_seed_gives_the_same_run():
    assert told(5) == told(5)
    assert told(5)[1] != told(6)[1]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_in_another_process():
    code = "from tests.sim.test_world_groups import told; print(told(5)[1])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert told(5)[1] == ran.stdout.strip()


def test_the_story_tells_what_groups_log(office, caplog):
    office.start("a")
    office.go_on(2.0)
    assert any("gained 0: epoch 1, nobody owned it" in line for line in office.world.trace.lines)
    assert [] == caplog.records


def test_elections_tables_and_stores_are_those_of_the_world_too(office):
    seen = []

    async def lead():
        async with apportion.leader(URL, "nightly", lease_ttl=TTL) as election:
            seen.append(("led", (await election.wait_until_elected()).epoch))
        async with apportion.open_store(URL) as store:
            await store.commit(when=[Absent(key="k")], puts=[Put(key="k", value=b"here")])
        await apportion.publish(URL, "orders", apportion.Ring(["x"]).table())

    async def follow():
        async with apportion.follow(URL, "orders", within_seconds=60.0) as table, apportion.open_store(URL) as store:
            seen.append((table.route("key"), [item.value for item in (await store.scan("k")).items]))

    office.world.spawn("b", follow())
    office.world.run(office.world.spawn("a", lead()))
    office.go_on(10.0)
    assert [("led", 1), ("x", [b"here"])] == seen


def test_groups_of_one_process_share_a_session_and_those_of_two_do_not(office):
    async def both():
        async with (
            apportion.open_group(URL, "one", partitions=1, lease_ttl=TTL),
            apportion.open_group(URL, "two", partitions=1, lease_ttl=TTL),
        ):
            await asyncio.sleep(3.0)

    for name in ("a", "b"):
        office.world.spawn(name, both())
    office.go_on(2.0)
    assert 2 == len([line for line in office.world.trace.lines if "is granted" in line])
    records = [key for key in office.world.checker.history.items if "/member/" in key]
    assert 4 == len(records)


def test_what_cannot_be_in_a_world_is_refused_with_what_to_do(office):
    async def waits():
        with sync.open_group(URL, "mailers", partitions=2):
            raise AssertionError("opened")

    async def second():
        async with apportion.open_store(URL), apportion.open_store("sqlite:///other.db"):
            raise AssertionError("opened")

    async def misspelt():
        async with apportion.open_store("sqlight:///work.db"):
            raise AssertionError("opened")

    async def outside():
        async with apportion.open_group(URL, "mailers", partitions=2):
            raise AssertionError("opened")

    for program, error, expected in (
        (waits, LeavesTheWorld, r"(?s)apportion\.sync .*Use the same call of apportion, awaited"),
        (second, LeavesTheWorld, r"(?s)a second store, sqlite:///other.db, .*Use one URL for all"),
        (misspelt, UnknownOption, "sqlite"),
    ):
        with World(1) as world:
            world.spawn("a", program())
            with pytest.raises(error, match=expected):
                world.run(until=1.0)
    with pytest.raises(LeavesTheWorld, match=r"(?s)outside of every process .*Use World\.spawn"):
        office.world.run(outside())


@pytest.mark.parametrize("leave", ["apportion.sync", "a second store"])
def test_a_refusal_that_a_supervisor_swallows_ends_the_run(leave):
    async def supervised():
        while True:
            try:
                if leave == "a second store":
                    async with apportion.open_store(URL), apportion.open_store("sqlite:///other.db"):
                        raise AssertionError("opened")
                with sync.open_group(URL, "mailers", partitions=2):
                    raise AssertionError("opened")
            except apportion.ApportionError:
                await asyncio.sleep(1.0)

    with World(1) as world:
        world.spawn("a", supervised())
        with pytest.raises(LeavesTheWorld, match=leave):
            world.run(until=10.0)


def test_the_invariants_of_groups_are_held_once_one_is_opened_and_not_before(office):
    store = office.world.store("z")
    put = Put(key="live/mine/own/1", value=b"whatever this means")
    office.world.run(store.commit(when=[Absent(key=put.key)], puts=[put]))
    assert "HoldsAreOwned" not in {type(check).__name__ for check in office.world.checker._checks}
    office.start("a")
    office.go_on(1.0)
    assert {"HoldsAreOwned", "WritesAreHeld"} < {type(check).__name__ for check in office.world.checker._checks}


def test_a_world_of_named_invariants_holds_no_others():
    with World(1, invariants=[RevisionsGrow]) as world:
        office = Office(world, Careless)
        office.start("a")
        office.go_on(3.0)
        office.start("b")
        office.go_on(3.0)
        assert ["RevisionsGrow"] == [type(check).__name__ for check in world.checker._checks]


def test_what_a_finally_opens_when_the_world_has_ended_is_refused():
    refused = []

    async def ends():
        try:
            await asyncio.sleep(100.0)
        finally:
            try:
                await apportion.open_store(URL).__aenter__()
            except LeavesTheWorld as error:
                refused.append(error)
                raise

    with World(1) as world:
        world.spawn("a", ends())
        world.run(until=1.0)
    assert 1 == len(refused)
