"""A key without rows gets a slot of its own; a pin that was cut off is ended, and no row of the key is left behind."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

import apportion
from apportion.errors import Conflict, Fenced, InvalidInput, StaleRoute
from apportion.model.epoch import FencingToken
from apportion.runtime.clock import SystemClock
from apportion.shards import admin, slots
from apportion.shards.mover import own_slots as own_slots_module
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.own_slots import OwnSlots
from apportion.shards.mover.rescue import sites_of
from apportion.shards.postgres.shard import PostgresShard
from apportion.shards.sqlite.shard import SqliteShard
from apportion.stores.catalog import connect
from apportion.tables.publisher import Publisher
from tests.shards.sample import SET, SLOTS, Base, Place
from tests.shards.server import OWNER, as_role

NOW = timedelta(0)


class Died(Exception):
    pass


@pytest.fixture
def files(make_set, kind, monkeypatch):
    as_role(monkeypatch, OWNER)
    return make_set(kind)


def act(name, files, *words, **options):
    return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))


def pin(files, *keys):
    return [(each.slot, each.shard, each.is_new) for each in act("pin", files, keys, base=Base)]


def write(router, key, number=0):
    router.run(key, lambda session: session.add(Place(id=UUID(int=number), country=key)))


def ill(files):
    found = act("doctor", files, base=Base, is_whole=True)
    return [(each.subject, each.verdict, each.found) for each in found if each.verdict != "ok"]


def is_sound(files):
    return act("verify", files, base=Base).is_sound and not ill(files)


def moving(files):
    async def main():
        store = await connect(files.url)
        try:
            return dict((await MoveBook(store, SET, SystemClock()).read()).moving)
        finally:
            await store.close()

    return asyncio.run(main())


def test_a_key_gets_a_slot_and_routers_that_are_open_go_there(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        hashed, shard = router.slot("acme"), router.shard("acme")
        with router.session("acme") as session:
            session.connection()
        [(slot, *_)] = pin(files, "acme")
        assert (SLOTS, [(SLOTS, shard, False)]) == (slot, pin(files, "acme"))
        write(router, "acme")
        assert SLOTS == router.slot("acme") != hashed
    assert [(SLOTS,)] == files.sql(shard, "SELECT slot FROM place")
    assert {} == moving(files)
    assert is_sound(files)


def test_two_keys_of_one_slot_part(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        acme, other = _pair(router)
        write(router, other, 1)
        pin(files, acme)
        write(router, acme, 2)
        write(router, other, 3)
        with router.session(other) as session:
            assert {other} == {place.country for place in session.query(Place)}
    assert is_sound(files)


def _pair(router):
    """Return two keys of one hash slot."""
    first = "acme"
    return first, next(key for key in map(str, range(10_000)) if router.slot(key) == router.slot(first))


def test_the_slot_of_a_key_moves_alone(files):
    [(slot, shard, _)] = pin(files, "acme")
    to = "two" if shard == "one" else "one"
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        write(router, "acme")
        act("apply", files, act("plan", files, slots=[slot], to=to))
        write(router, "acme", 1)
    act("clean", files, soak=NOW)
    assert [(2,)] == files.sql(to, "SELECT count(*) FROM place WHERE slot = ?", (slot,))
    assert is_sound(files)


def test_a_key_with_rows_is_refused_and_told_what_to_do(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        write(router, "acme")
        slot, version = router.slot("acme"), act("status", files).version
    with pytest.raises(InvalidInput, match=f"one without rows; slot {slot} of shard ") as refused:
        pin(files, "acme")
    assert f"apportion shards plan URL SET --move {slot} --to ID" in refused.value.hint
    assert (version, {}) == (act("status", files).version, moving(files))


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ("acme", "keys"),
        ([], "keys"),
        ([1.5], "key"),
        ([None], "key"),
        (["x" * 260], "key to pin"),
        (["é" * 90], "key to pin"),
    ],
)
def test_a_key_that_no_table_can_name_is_refused_before_anything_is_opened(keys, field):
    with pytest.raises(InvalidInput, match=f"^{field}.* is"):
        asyncio.run(admin.pin("sqlite:///absent.db", SET, keys, base=Base))


def test_the_longest_key_can_be_pinned(files):
    pin(files, "x" * 249)
    with pytest.raises(InvalidInput, match="at most 249 bytes"):
        pin(files, "x" * 250)


def test_a_set_has_so_many_slots(files, monkeypatch):
    monkeypatch.setattr(slots, "MOST_SLOTS", SLOTS + 2)
    pin(files, "a", "b")
    with pytest.raises(InvalidInput, match=r"^pinned keys is 2, expected fewer than 2\."):
        pin(files, "c")
    assert [] == ill(files)


def test_a_key_of_a_slot_that_moves_waits_for_the_end_of_the_move(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        slot, shard = router.slot("acme"), router.shard("acme")
    act("apply", files, act("plan", files, slots=[slot], to="two" if shard == "one" else "one"))
    with pytest.raises(Conflict, match=f"^slot {slot} of key 'acme' moves, in move "):
        pin(files, "acme")
    act("clean", files, soak=NOW)
    assert [(SLOTS, "two" if shard == "one" else "one", True)] == pin(files, "acme")


def test_a_session_that_was_made_before_the_pin_is_stale(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        session = router.session("acme")
        with router.pin("acme"):
            pin(files, "acme")
            if router.slot("acme") < SLOTS:
                router.refreshed(router.version, 5.0)
            with pytest.raises(StaleRoute):
                router.session("acme")
        session.add(Place(country="acme"))
        with pytest.raises(StaleRoute):
            session.commit()
    assert 0 == act("status", files, has_rows=True).shards[0].rows


class ThePublisher(Publisher):
    """The publisher of pins; groups have another one."""


SHARDS = {"sqlite": SqliteShard, "postgresql": PostgresShard}
EFFECTS = [(ThePublisher, "publish"), *((shard, "change") for shard in SHARDS.values()), (MoveBook, "unlist")]


def cut_off(files, monkeypatch, place, *, after):
    """Pin a key, and die before or after the effect at a place."""
    count = 0

    def dying(effect):
        async def died(*words, **options):
            nonlocal count
            count += 1
            is_here = count == place + 1
            if is_here and not after:
                raise Died
            result = await effect(*words, **options)
            if is_here:
                raise Died
            return result

        return died

    with monkeypatch.context() as patched:
        patched.setattr(own_slots_module, "Publisher", ThePublisher)
        for kind, name in EFFECTS:
            patched.setattr(kind, name, dying(getattr(kind, name)))
        with pytest.raises(Died):
            pin(files, "acme")


PLACES = [(place, after) for place in range(4) for after in (False, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "after"), PLACES)
def test_a_pin_that_was_cut_off_is_ended_by_the_same_call(files, monkeypatch, place, after):
    cut_off(files, monkeypatch, place, after=after)
    assert SLOTS == pin(files, "acme")[0][0]
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        write(router, "acme")
    assert {} == moving(files)
    assert is_sound(files)


@pytest.mark.slow
@pytest.mark.parametrize(("place", "after"), PLACES)
def test_a_pin_that_was_cut_off_is_ended_by_the_next_mover(files, monkeypatch, place, after):
    cut_off(files, monkeypatch, place, after=after)
    act("apply", files)
    assert {} == moving(files)
    assert [] == ill(files)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        write(router, "acme")
        assert (router.slot("acme") == SLOTS) == ((place, after) >= (2, True))
    assert is_sound(files)


def test_a_pin_that_was_cut_off_is_told_by_the_doctor(files, monkeypatch):
    cut_off(files, monkeypatch, 1, after=False)
    [(subject, verdict, found)] = ill(files)
    assert ("pins", "warning", True) == (subject, verdict, f"{SLOTS}" in found)


@pytest.mark.slow
def test_a_writer_that_waits_ends_a_pin_that_was_cut_off(files, monkeypatch):
    cut_off(files, monkeypatch, 1, after=True)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        write(router, "acme")
    assert {} == moving(files)
    assert is_sound(files)


def test_a_row_that_slips_in_takes_the_pin_back(files, monkeypatch):
    raised = OwnSlots._raised

    async def slipped(self, group, number):
        files.sql(
            group.source,
            "INSERT INTO place (id, country, visits, slot) VALUES (?, 'acme', 0, ?)",
            (UUID(int=0).hex, *group.slots),
        )
        return await raised(self, group, number)

    monkeypatch.setattr(OwnSlots, "_raised", slipped)
    with pytest.raises(InvalidInput, match="one without rows"):
        pin(files, "acme")
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        assert router.slot("acme") < SLOTS
    assert {} == moving(files)
    assert [] == ill(files)


def test_after_the_number_is_raised_no_older_router_writes_the_key(files, monkeypatch):
    """The router here never hears of the pin: its shard refuses it, and the row of the key stays out."""
    refused = []

    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        old = router.table
        monkeypatch.setattr(router, "refreshed", lambda version, within: old)
        monkeypatch.setattr(type(router), "table", property(lambda self: old))
        shard = SHARDS[files.kind]
        change = shard.change

        async def changed(self, group, change_of, token):
            await change(self, group, change_of, token)
            if not refused:
                refused.append(await asyncio.to_thread(tried, router))

        def tried(router):
            try:
                with router.session("acme") as session:
                    session.add(Place(country="acme"))
                    session.commit()
            except StaleRoute:
                return True
            return False

        monkeypatch.setattr(shard, "change", changed)
        monkeypatch.setattr("apportion.shards.pin.SWITCH_SECONDS", 0.1)
        monkeypatch.setattr("apportion.shards.pin.Pin._newer", lambda self, table, **_: table)
        pin(files, "acme")
    assert [True] == refused


def test_a_mover_that_wakes_up_late_owns_no_slot(files, monkeypatch):
    """Another mover has taken the pin back. The first one has sent nothing since."""

    async def main():
        store, sites = await connect(files.url), sites_of(SET, files.shards)
        book = MoveBook(store, SET, SystemClock())
        first, second = (
            OwnSlots(store, SET, sites, book, FencingToken(resource="m", holder=f"m{n}", incarnation=1, epoch=n))
            for n in (1, 2)
        )
        looks = 0

        async def has_rows(*_):
            nonlocal looks
            looks += 1
            if looks == 2:
                await second.settle()
            return False

        try:
            with pytest.raises(Fenced):
                await first.pin("acme", has_rows)
        finally:
            await sites.close()
            await store.close()

    asyncio.run(main())
    assert {} == moving(files)
    assert [] == ill(files)


def test_a_mover_that_takes_a_pin_back_late_unlists_no_newer_pin_of_the_slot(files, monkeypatch):
    """While the first mover waits for its reply, a second one pins another key by the same slot, and dies."""
    cut_off(files, monkeypatch, 1, after=False)

    async def main():
        store, sites = await connect(files.url), sites_of(SET, files.shards)
        book = MoveBook(store, SET, SystemClock())

        def own_slots(epoch):
            token = FencingToken(resource="m", holder=f"m{epoch}", incarnation=1, epoch=epoch)
            return OwnSlots(store, SET, sites, book, token)

        class SlowPublisher(ThePublisher):
            async def publish(self, *words, **options):
                published = await super().publish(*words, **options)
                monkeypatch.setattr(own_slots_module, "Publisher", DyingPublisher)
                await own_slots(2).settle()
                with pytest.raises(Died):
                    await own_slots(2).pin("other", has_none)
                return published

        class DyingPublisher(ThePublisher):
            async def publish(self, *words, **options):
                await super().publish(*words, **options)
                raise Died

        async def has_none(*_):
            return False

        monkeypatch.setattr(own_slots_module, "Publisher", SlowPublisher)
        try:
            await own_slots(1).settle()
        finally:
            await sites.close()
            await store.close()

    asyncio.run(main())
    assert [f"pin-{SLOTS}"] == list(moving(files))
    monkeypatch.undo()
    as_role(monkeypatch, OWNER)
    assert SLOTS == pin(files, "other")[0][0]
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        write(router, "other")
    assert is_sound(files)
