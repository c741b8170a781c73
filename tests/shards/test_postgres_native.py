"""Moves by logical replication between two servers, and between two databases of one server."""

import asyncio
import re
import threading
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from itertools import count, product
from uuid import uuid4

import pytest

from apportion.errors import InvalidInput, Unequal
from apportion.shards import admin
from apportion.shards.move_group import ROW_CHANGES
from apportion.shards.mover import fence_time
from apportion.shards.postgres.replication import source, target
from apportion.shards.postgres.replication.channel import NativeChannel
from apportion.shards.postgres.server import ShardServer
from apportion.sim.conformance.shards.stage import GROUP, MoveStage, token_of
from tests.shards.fence_waits import Waits
from tests.shards.postgres_rig import ServerShardRig, drop_slots, drop_subscriptions
from tests.shards.sample import SET
from tests.shards.server import OWNER, Servers, as_role
from tests.shards.test_postgres_ddl import IN_PARTS, run
from tests.shards.test_recover import copied, restored

pytestmark = [pytest.mark.live, pytest.mark.slow]
LEFT = {
    "publications": "SELECT pubname FROM pg_publication",
    "subscriptions": "SELECT subname FROM pg_subscription",
    "slots": "SELECT slot_name FROM pg_replication_slots",
    "origins": "SELECT roname FROM pg_replication_origin",
    "triggers": "SELECT tgname, tgrelid FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
    "tables": "SELECT oid, relname, relkind FROM pg_class WHERE relnamespace = 'apportion'::regnamespace ORDER BY 1",
    "functions": "SELECT oid, proname FROM pg_proc WHERE pronamespace = 'apportion'::regnamespace ORDER BY 1",
    "marks": "SELECT move FROM apportion.marker UNION ALL SELECT move FROM apportion.move",
}


class Pair(Servers):
    """A set whose shards may lie on several servers. Shard `one` is the source."""

    def __init__(self, rigs, folder, shards=("one", "two")):
        self.rigs = dict(zip(shards, rigs, strict=True))
        super().__init__(rigs[0], folder, shards=shards)

    def rig_of(self, shard):
        return self.rigs[shard]

    def catalogs(self):
        return {(shard, name): self.sql(shard, found) for shard in self.rigs for name, found in LEFT.items()}

    def fill(self, slots, rows=5):
        made = "INSERT INTO place (slot, id, country, visits) VALUES (%s, %s, 'FR', 1)"
        for slot in slots * rows:
            self.sql("one", made, (slot, uuid4()))
        some = self.sql("one", "SELECT slot, id FROM place LIMIT 3")
        for slot, place in some:
            self.sql("one", "INSERT INTO photo (slot, id, place_id) VALUES (%s, %s, %s)", (slot, uuid4(), place))

    def rows(self, shard):
        return [self.sql(shard, f"SELECT * FROM {table} ORDER BY id") for table in ("place", "photo")]

    def drop(self):
        for shard, name in self._made.items():
            drop_subscriptions(self.rig_of(shard), name)
        for shard, name in self._made.items():
            drop_slots(self.rig_of(shard), name)
        super().drop()

    def owned(self):
        return [
            slot for (slot,) in self.sql("one", "SELECT slot FROM apportion_slot WHERE state = 'owner' ORDER BY slot")
        ]


@pytest.fixture
def pair(servers, tmp_path, monkeypatch):
    """A set on two servers."""
    as_role(monkeypatch, OWNER)
    made = Pair(servers, tmp_path)
    yield made
    made.drop()


@pytest.fixture
def twins(servers, tmp_path, monkeypatch):
    """A set in two databases of one server."""
    as_role(monkeypatch, OWNER)
    made = Pair(servers[:1] * 2, tmp_path)
    yield made
    made.drop()


@pytest.fixture
def plain(rig, servers, tmp_path, monkeypatch):
    """A set whose source does not replicate."""
    as_role(monkeypatch, OWNER)
    made = Pair([rig, servers[1]], tmp_path)
    yield made
    made.drop()


class KilledError(Exception):
    """The end of a mover in a test."""


class Kill:
    """Ends a mover at its n-th write, before or after the commit."""

    def __init__(self, monkeypatch):
        self._left, self._is_after = None, False
        write, make_slot = ShardServer.write, source.make_slot

        async def _write(server, *arguments, **options):
            is_due = self._counted()
            if is_due and not self._is_after:
                raise KilledError
            done = await write(server, *arguments, **options)
            if is_due:
                raise KilledError
            return done

        async def _make_slot(*arguments):
            await make_slot(*arguments)
            if self._counted():
                raise KilledError

        monkeypatch.setattr(ShardServer, "write", _write)
        monkeypatch.setattr(source, "make_slot", _make_slot)

    def at(self, number, *, is_after):
        self._left, self._is_after = number, is_after

    @property
    def is_over(self):
        """Whether the mover ended before its n-th write."""
        return self._left is not None and self._left > 0

    def _counted(self):
        if self._left is None:
            return False
        self._left -= 1
        return self._left == 0


@pytest.mark.parametrize("kind", ["pair", "twins"])
def test_a_plan_empties_a_shard_by_replication_and_the_catalogs_are_as_before(request, kind):
    files = request.getfixturevalue(kind)
    slots, seen = files.owned(), set()
    files.fill(slots[:20])
    before, catalogs = files.rows("one"), files.catalogs()

    def look(event):
        if event.step == "chunk":
            seen.update(files.sql("one", LEFT["publications"]))

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        assert ["native"] == [each.kind for each in await admin.channels(files.url, SET, plan)]
        found = {each.subject: each.found for each in await admin.doctor(files.url, SET)}
        assert "native: logical replication is possible" == found["channel from one to two"]
        assert catalogs == files.catalogs()
        assert (await admin.apply(files.url, SET, plan, channel="native", observer=look)).is_whole
        assert (await admin.clean(files.url, SET, soak=timedelta(0))).is_whole

    asyncio.run(main())
    assert len(seen) == 1
    assert (before, [[], []]) == (files.rows("two"), files.rows("one"))
    assert catalogs == files.catalogs()


def test_writers_wait_for_few_replies_of_the_servers_beside_the_way_of_the_marker(pair, monkeypatch):
    monkeypatch.setattr(fence_time, "FENCE_SECONDS", 60)  # no attempt of a busy machine fails
    slots, waits = pair.owned()[:4], Waits()
    pair.fill(slots)

    async def main():
        plan = await admin.plan(pair.url, SET, slots=slots, to="two")
        with waits.counting():
            assert (await admin.apply(pair.url, SET, plan, channel="native", observer=waits)).is_whole

    asyncio.run(main())
    is_early = "drain" not in waits.steps  # the marker had arrived at the first look
    assert waits.steps["switch"] - waits.steps.get("drain", 0) <= (10 if is_early else 5)


def stopped(files, step, slots, to="two"):
    """Apply a plan until a step has ended, as a mover does that is killed there."""

    def kill(event):
        if event.step == step:
            raise KilledError

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to=to)
        with pytest.raises(KilledError):
            await admin.apply(files.url, SET, plan, channel="native", observer=kill)

    asyncio.run(main())


def test_an_abort_in_any_state_leaves_nothing_behind(pair):
    slots = pair.owned()[:8]
    pair.fill(slots)
    before, catalogs = pair.rows("one"), pair.catalogs()
    for step in ("list", "prepare", "capture", "chunk", "verify", "intent", "fence", "announce"):
        stopped(pair, step, slots)
        if step not in ("list", "prepare"):
            assert pair.catalogs() != catalogs
        assert asyncio.run(admin.abort(pair.url, SET)).is_whole
        assert (step, before, [[], []]) == (step, pair.rows("one"), pair.rows("two"))
        assert (step, catalogs) == (step, pair.catalogs())


def test_status_names_the_replication_slot_of_a_mover_that_was_killed(twins):
    slots = twins.owned()[:2]
    twins.fill(slots)
    stopped(twins, "chunk", slots)
    [move] = asyncio.run(admin.status(twins.url, SET, has_rows=True)).moves
    assert any(
        re.fullmatch(r"one: replication slot apportion_\w+, which keeps .* of WAL", each) for each in move.left_behind
    )
    assert any(each.startswith("two: subscription apportion_") for each in move.left_behind)


class Story:
    """A native move of one group between two bare databases, by movers with newer and newer tokens."""

    def __init__(self, pair):
        self._pair, self._epochs = pair, count(10)

    @asynccontextmanager
    async def mover(self):
        """Give the stage and the token of a new mover."""
        async with AsyncExitStack() as exits:
            yield MoveStage(pair=self._pair, exits=exits), token_of(next(self._epochs))

    async def forth(self):
        """Guard, prepare, capture, copy and compare."""
        async with self.mover() as (stage, token):
            one, two = [await stage.shard(each) for each in ("one", "two")]
            for shard in (one, two):
                await shard.guard(GROUP, token)
            await two.change(GROUP, ROW_CHANGES["prepare"], token)
            channel = await stage.channel()
            await channel.capture(token)
            while not (await channel.state(1)).is_copied:
                await channel.copy(token)
            while not (await channel.state(1)).is_verified:
                await channel.verify(1, token)
            await stage.equal()

    async def back(self):
        """Drop all of the move."""
        async with self.mover() as (stage, token):
            await (await stage.shard("two")).drop(GROUP, token)
            await (await stage.channel()).uncapture(token)

    async def left(self):
        """Return all that is left of the move."""
        async with self.mover() as (stage, _):
            return [*await stage.left_behind(), *self._pair.catalog_names()]


@pytest.mark.parametrize("way", ["forth", "back"])
def test_a_native_move_that_was_killed_at_any_write_goes_on_or_back(monkeypatch, way):
    kill, ends = Kill(monkeypatch), []

    async def main():
        pair = await ServerShardRig(NativeChannel).pair()
        story = Story(pair)
        try:
            async with story.mover() as (stage, _):
                await stage.fill(*GROUP.slots, rows={1: "a", 2: "b"})
            for is_after, number in product((False, True), range(1, 40)):
                if is_after not in ends:
                    if way == "back":
                        await story.forth()
                    kill.at(number, is_after=is_after)
                    with suppress(KilledError):
                        await getattr(story, way)()
                    ends.extend([is_after] if kill.is_over else [])
                    kill.at(None, is_after=False)
                    if way == "forth" and number % 2:
                        await story.forth()
                    await story.back()
                    assert (is_after, number, []) == (is_after, number, await story.left())
        finally:
            kill.at(None, is_after=False)
            await pair.close()

    try:
        asyncio.run(main())
    finally:
        ServerShardRig.stop()
    assert 2 == len(ends)


@pytest.mark.parametrize("shard", ["one", "two"])
def test_a_move_goes_on_by_itself_after_a_crash_of_a_server(pair, shard):
    slots, rig, (here, there) = pair.owned()[:4], pair.rig_of(shard), ("one", "two")
    pair.fill(slots)
    before, catalogs = pair.rows("one"), pair.catalogs()
    for step in ("capture", "chunk", "fence", "switch"):
        crashes = []

        def crash(event, step=step, crashes=crashes):
            if event.step == step and not crashes:
                rig.server.kill()
                rig.server.wait()
                crashes.append(threading.Timer(0.2, rig.launch))
                crashes[0].start()

        async def main(there, crash):
            plan = await admin.plan(pair.url, SET, slots=slots, to=there)
            assert (await admin.apply(pair.url, SET, plan, channel="native", observer=crash)).is_whole
            assert (await admin.clean(pair.url, SET, soak=timedelta(0))).is_whole

        asyncio.run(main(there, crash))
        assert crashes
        here, there = there, here
        assert (step, before, [[], []]) == (step, pair.rows(here), pair.rows(there))
    assert catalogs == pair.catalogs()


def test_a_replication_slot_waits_for_an_open_transaction_and_names_it(twins, monkeypatch):
    monkeypatch.setattr(source, "CREATE_SECONDS", 1)
    slots, said = twins.owned()[:2], []
    with twins.connect("two") as writer:
        writer.execute("CREATE TABLE other ()")

        def hear(event):
            if event.step == "waits" and not said:
                said.append(event.why)
                writer.rollback()

        async def main():
            plan = await admin.plan(twins.url, SET, slots=slots, to="two")
            assert (await admin.apply(twins.url, SET, plan, channel="native", observer=hear)).is_whole

        asyncio.run(main())
        assert f"waits for open transactions: process {writer.info.backend_pid} of {OWNER} has written" in said[0]


def test_a_source_that_does_not_replicate_is_told_and_auto_logs_keys(plain):
    slots, channels = plain.owned()[:2], set()
    plain.fill(slots)
    before, catalogs = plain.rows("one"), plain.catalogs()

    def look(event):
        if event.step == "chunk":
            logs = (
                "SELECT relname FROM pg_class WHERE relnamespace = 'apportion'::regnamespace AND relname LIKE 'log_%%'"
            )
            channels.update(plain.sql("one", f"{logs} AND relkind = 'r'", ()))

    async def main():
        plan = await admin.plan(plain.url, SET, slots=slots, to="two")
        reason = "wal_level of shard one is replica, not logical"
        pair = admin.PairChannel(source="one", target="two", kind="keys", reason=reason)
        assert (pair,) == await admin.channels(plain.url, SET, plan)
        with pytest.raises(InvalidInput, match=reason):
            await admin.apply(plain.url, SET, plan, channel="native")
        assert (catalogs, ()) == (plain.catalogs(), (await admin.status(plain.url, SET)).moves)
        assert (await admin.apply(plain.url, SET, plan, channel="auto", observer=look)).is_whole

    asyncio.run(main())
    assert (1, before) == (len(channels), plain.rows("two"))


def test_a_source_that_the_other_server_does_not_reach_is_told(pair, monkeypatch):
    monkeypatch.setattr(target, "conninfo", lambda _: "host=127.0.0.1 port=1 connect_timeout=2")
    slots, catalogs = pair.owned()[:2], pair.catalogs()

    async def main():
        plan = await admin.plan(pair.url, SET, slots=slots, to="two")
        with pytest.raises(InvalidInput, match="the server of shard two does not reach shard one"):
            await admin.apply(pair.url, SET, plan, channel="native")

    asyncio.run(main())
    assert catalogs == pair.catalogs()


def test_a_key_of_another_slot_on_the_target_stops_the_move_and_an_abort_mends_it(twins):
    slots = twins.owned()[:2]
    twins.fill(slots, rows=1)
    before, catalogs = twins.rows("one"), twins.catalogs()
    [(key,)] = twins.sql("one", "SELECT id FROM place WHERE slot = %s", slots[:1])
    twins.sql("two", f"SET session_replication_role = replica; INSERT INTO place VALUES ('{key}', 'FR', 1, 60)")

    async def main():
        plan = await admin.plan(twins.url, SET, slots=slots, to="two")
        with pytest.raises(Unequal, match=f"has rows of other slots with the same keys .*{key}"):
            await admin.apply(twins.url, SET, plan, channel="native")
        assert (await admin.abort(twins.url, SET)).is_whole

    asyncio.run(main())
    assert (before, catalogs) == (twins.rows("one"), twins.catalogs())


def test_a_native_move_goes_back_by_a_log_of_keys(twins):
    slots = twins.owned()[:4]
    twins.fill(slots)
    catalogs = twins.catalogs()

    async def main():
        plan = await admin.plan(twins.url, SET, slots=slots, to="two")
        made = await admin.apply(twins.url, SET, plan, channel="native", is_reversible=True)
        twins.sql("two", "UPDATE place SET visits = 7")
        assert (await admin.reverse(twins.url, SET, made.moves)).is_whole
        assert (await admin.clean(twins.url, SET, soak=timedelta(0))).is_whole

    asyncio.run(main())
    assert ([(7,)] * 20, [[], []]) == (twins.sql("one", "SELECT visits FROM place"), twins.rows("two"))
    assert catalogs == twins.catalogs()


def test_recover_ends_a_native_move_that_a_restored_control_store_does_not_know(twins):
    slots = twins.owned()[:2]
    twins.fill(slots)
    before, catalogs = twins.rows("one"), twins.catalogs()
    copied(twins)
    stopped(twins, "verify", slots)
    restored(twins)
    found = asyncio.run(admin.recover(twins.url, SET))
    assert () == found.doubts
    assert (before, [[], []], catalogs) == (twins.rows("one"), twins.rows("two"), twins.catalogs())


def test_a_table_whose_trigger_runs_for_replicated_rows_moves_by_a_log_of_keys(twins):
    twins.sql("two", "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    twins.sql("two", "CREATE TRIGGER mine BEFORE INSERT ON photo FOR EACH ROW EXECUTE FUNCTION f()")
    twins.sql("two", "ALTER TABLE photo ENABLE ALWAYS TRIGGER mine")
    plan = asyncio.run(admin.plan(twins.url, SET, slots=twins.owned()[:2], to="two"))
    [found] = asyncio.run(admin.channels(twins.url, SET, plan))
    reason = "table public.photo has the trigger mine, which runs for replicated rows in shard two"
    assert ("keys", reason) == (found.kind, found.reason)


@pytest.mark.parametrize("shards", [("one",), ("two",), ("one", "two")])
def test_partitioned_tables_are_refused_for_replication_in_the_words_of_the_doctor_and_move_by_a_log(pair, shards):
    run(pair, shards, *IN_PARTS)
    slots = pair.owned()[:2]
    some = "INSERT INTO place (slot, id, country, visits) SELECT slot, gen_random_uuid(), 'FR', 1"
    pair.sql("one", f"{some} FROM unnest(%s::smallint[]) slot, generate_series(1, 20)", (slots,))
    before, catalogs = pair.sql("one", "SELECT id, country, slot FROM place ORDER BY id"), pair.catalogs()
    plan = asyncio.run(admin.plan(pair.url, SET, slots=slots, to="two"))
    reason = f"table public.place is partitioned in shard {shards[0]}"
    [found] = asyncio.run(admin.channels(pair.url, SET, plan))
    assert ("keys", reason) == (found.kind, found.reason)
    told = {each.subject: each.found for each in asyncio.run(admin.doctor(pair.url, SET))}
    assert f"log of keys alone: {reason}" == told["channel from one to two"]
    with pytest.raises(InvalidInput, match="native channel from shard one to two is 'impossible'") as refused:
        asyncio.run(admin.apply(pair.url, SET, plan, channel="native"))
    assert f"The reason: {reason}." in refused.value.hint
    assert (catalogs, ()) == (pair.catalogs(), asyncio.run(admin.status(pair.url, SET)).moves)
    if len(shards) == 2:
        assert asyncio.run(admin.apply(pair.url, SET, plan, channel="auto")).is_whole
        assert before == pair.sql("two", "SELECT id, country, slot FROM place ORDER BY id")


def test_the_doctor_names_a_replication_slot_that_no_move_lists(twins):
    make = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
    twins.sql("one", make, ("apportion_m1_0_1",))
    twins.sql("one", make, ("apportion_m2_0_1",))
    twins.sql("one", "INSERT INTO apportion.move VALUES ('m2', 'publication', 'apportion_m2_0')")
    found = asyncio.run(admin.doctor(twins.url, SET))
    [stray] = [each for each in found if each.subject == "replication slots of one"]
    assert ("warning", "apportion_m1_0_1 belongs to no move") == (stray.verdict, stray.found)


def test_values_that_both_shards_write_anew_under_the_fence_are_found_and_copied_again(twins):
    slots, changes = twins.owned()[:2], []
    twins.fill(slots)
    anew = "ALTER TABLE place ALTER visits TYPE bigint USING (1e9 * random())::bigint"

    def change(event):
        if event.step == "fence" and not changes:
            changes.extend(twins.sql(shard, anew) for shard in ("one", "two"))

    async def main():
        plan = await admin.plan(twins.url, SET, slots=slots, to="two")
        with pytest.raises(Unequal, match="rows that differ"):
            await admin.apply(twins.url, SET, plan, channel="native", observer=change)
        assert (await admin.apply(twins.url, SET)).is_whole

    asyncio.run(main())
    assert twins.rows("one") == twins.rows("two")
