"""A key with rows gets a slot of its own, on another shard or on its own one; other keys of its slot stay."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, select

import apportion
from apportion.errors import ApportionError, Conflict, InvalidInput, StaleRoute, UnknownOption
from apportion.shards import shard as shard_module
from apportion.shards.admin import carrier as carrier_module
from apportion.shards.admin.keys.isolation import key_conditions
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.rescue import sites_of
from apportion.shards.pins.isolated_key import IsolatedKey
from apportion.shards.place import DatabasePlace
from apportion.shards.takeover.sharded_table import sharded_in_order
from apportion.sim.conformance.shards.stage import token_of
from tests.shards.sample import SET, Base, Photo, Place, Visit
from tests.shards.server import OWNER, as_role
from tests.shards.test_own_slots import act, ill, is_sound, moving
from tests.shards.test_recover import Died as HistoryDied
from tests.shards.test_recover import History, copied, restored

KEY, OTHER, YEAR = "acme", "other", 2020
ROWS = 8
TO_THE_SWITCH = [
    "list.after", "prepare.after", "capture.after", "chunk.after", "verify.after", "intent.after", "fence.before",
    "fence.after", "announce.after",
]  # fmt: skip
POINTS = [*TO_THE_SWITCH, "switch.before", "switch.after", "settle.after", "uncapture.after", "clean-batch.before"]
SOAK = ((), pytest.mark.soak, pytest.mark.soak)
"""One point in three is tried in each run, all of them in the long search."""


class Died(Exception):
    pass


@pytest.fixture
def files(make_set, kind, monkeypatch):
    """A set with the rows of a key, of another key of its slot, and of a key of two parts that begins with it."""
    as_role(monkeypatch, OWNER)
    return filled(make_set(kind, slots=1))


def filled(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number in range(2 * ROWS):
            router.run((KEY, OTHER)[number % 2], lambda session, number=number: session.add(_place(number)))
        router.run((KEY, YEAR), lambda session: session.add(Visit(id=UUID(int=1), country=KEY, year=YEAR)))
    return files


def _place(number):
    place = Place(id=UUID(int=number), country=(KEY, OTHER)[number % 2], visits=number)
    place.photos = [Photo(id=UUID(int=number))]
    return place


def isolate(files, key=KEY, **options):
    found = act("isolate", files, key, base=Base, **options)
    return found.slot, found.shard, found.is_new


def rows(files, shard, table="place"):
    """Return the number of rows of each slot."""
    return dict(files.sql(shard, f"SELECT slot, count(*) FROM {table} GROUP BY slot ORDER BY slot"))


def left(files, move="key-1"):
    """Return all that a move has left on the shards."""

    async def main():
        sites = sites_of(SET, files.shards)
        try:
            return [each for shard in ("one", "two") for each in await (await sites.shard(shard)).left_behind(move)]
        finally:
            await sites.close()

    return asyncio.run(main())


def die(files, monkeypatch, label, **options):
    """Isolate the key, and die at a stop point."""

    def reached(at):
        if at == label:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(carrier_module, "stop_point", lambda: reached)
        with pytest.raises(Died):
            isolate(files, **options)


def check_isolated(files, slot=1):
    assert ({0: ROWS}, {slot: ROWS}) == (rows(files, "one"), rows(files, "two"))
    assert ({0: ROWS}, {slot: ROWS}) == (rows(files, "one", "photo"), rows(files, "two", "photo"))
    assert ({0: 1}, {}) == (rows(files, "one", "visit"), rows(files, "two", "visit"))
    assert ([], {}, []) == (left(files), moving(files), ill(files))
    assert is_sound(files)


def test_a_key_moves_to_another_shard_with_the_rows_of_its_children(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        session = router.session(KEY)
        assert ROWS == len([each for each in session.query(Place) if each.country == KEY])
        session.commit()
        assert (1, "two", True) == isolate(files, to="two")
        router.run(KEY, lambda session: session.add(Place(id=UUID(int=90), country=KEY)))
        router.run(OTHER, lambda session: session.add(Place(id=UUID(int=91), country=OTHER)))
        assert ((1, "two"), (0, "one")) == tuple((router.slot(each), router.shard(each)) for each in (KEY, OTHER))
        for number, key in ((90, KEY), (91, OTHER)):
            router.run(key, lambda session, number=number: session.delete(session.get(Place, UUID(int=number))))
    check_isolated(files)


def test_the_same_call_again_changes_nothing(files):
    isolate(files, to="two")
    version = act("status", files).version
    assert [(1, "two", False)] * 2 == [isolate(files, to="two"), isolate(files)]
    with pytest.raises(InvalidInput, match="one without a slot of its own; it has slot 1 on two") as refused:
        isolate(files, to="one")
    assert "shards plan URL SET --move 1 --to one" in refused.value.hint
    assert version == act("status", files).version


def test_the_own_slot_moves_on_as_any_slot(files):
    isolate(files, to="two")
    act("apply", files, act("plan", files, slots=[1], to="one"))
    act("clean", files, soak=timedelta(0))
    assert ({0: ROWS, 1: ROWS}, {}) == (rows(files, "one"), rows(files, "two"))
    assert is_sound(files)


def test_a_few_rows_get_their_slot_where_they_are(files):
    assert (1, "one", True) == isolate(files)
    for table in ("place", "photo"):
        assert ({0: ROWS, 1: ROWS}, {}) == (rows(files, "one", table), rows(files, "two", table))
    assert ([], {}, []) == (left(files, "pin-1"), moving(files), ill(files))
    assert is_sound(files)


def test_a_key_of_two_parts_takes_the_rows_of_its_own_table(files):
    assert (1, "two", True) == isolate(files, (KEY, YEAR), to="two")
    assert ({0: 2 * ROWS}, {}) == (rows(files, "one"), rows(files, "two"))
    assert ({}, {1: 1}) == (rows(files, "one", "visit"), rows(files, "two", "visit"))
    assert is_sound(files)


@pytest.mark.parametrize("to", [None, "two"])
def test_a_key_without_rows_is_refused(files, to):
    with pytest.raises(InvalidInput, match="one with rows; slot 0 of shard one has none of it") as refused:
        isolate(files, "absent", to=to)
    assert "apportion shards pin URL SET KEY" in refused.value.hint
    with pytest.raises(UnknownOption):
        isolate(files, to="twoo")
    assert ({}, []) == (moving(files), ill(files))


def test_too_many_rows_to_stay_are_refused_before_and_in_the_transaction(files, monkeypatch):
    monkeypatch.setattr(shard_module, "MOST_IN_PLACE", 2 * ROWS - 1)
    with pytest.raises(InvalidInput, match=f"rows of the key in slot 0 is {2 * ROWS}, expected at most") as refused:
        isolate(files)
    assert "isolate URL SET KEY --to ID" in refused.value.hint
    monkeypatch.setattr("apportion.shards.admin.keys.isolation.check_few", lambda *_, **__: None)
    with pytest.raises(InvalidInput, match="rows of the key in slot 0 is"):
        isolate(files)
    assert ({0: 2 * ROWS}, {}, []) == (rows(files, "one"), moving(files), ill(files))
    assert (1, "two", True) == isolate(files, to="two")
    check_isolated(files)


@pytest.mark.slow
@pytest.mark.parametrize("label", [pytest.param(each, marks=SOAK[number % 3]) for number, each in enumerate(POINTS)])
def test_the_same_call_goes_on_after_the_death_of_a_mover(files, monkeypatch, label):
    die(files, monkeypatch, label, to="two")
    assert (1, "two", True) == isolate(files, to="two")
    check_isolated(files)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["publish.after", "own.before", "own.after", "unlist.before"])
def test_the_same_call_goes_on_where_the_rows_stay(files, monkeypatch, label):
    die(files, monkeypatch, label)
    assert (1, "one") == isolate(files)[:2]
    assert ({0: ROWS, 1: ROWS}, {}, []) == (rows(files, "one"), moving(files), ill(files))
    assert is_sound(files)


@pytest.mark.slow
@pytest.mark.parametrize(
    "label", [pytest.param(each, marks=SOAK[number % 3]) for number, each in enumerate(TO_THE_SWITCH)]
)
def test_an_abort_leaves_nothing(files, monkeypatch, label):
    die(files, monkeypatch, label, to="two")
    act("abort", files)
    assert ([], {}, []) == (left(files), moving(files), ill(files))
    assert ({0: 2 * ROWS}, {}) == (rows(files, "one"), rows(files, "two"))
    assert [] == files.sql("two", "SELECT slot FROM apportion_slot WHERE slot = 1")
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        router.run(KEY, lambda session: session.add(Place(id=UUID(int=90), country=KEY)))
    assert is_sound(files)


@pytest.mark.slow
@pytest.mark.parametrize(
    "label",
    [pytest.param("fence.after", marks=SOAK[1]), "switch.after", pytest.param("clean-batch.before", marks=SOAK[1])],
)
def test_no_report_counts_old_rows(files, monkeypatch, label):
    """Between the fence and the last old row, the rows of the key may lie on both shards."""
    die(files, monkeypatch, label, to="two")
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        counted = select(func.count()).select_from(Place)
        with pytest.raises(StaleRoute):
            router.scatter(counted)
        with pytest.raises(ApportionError):
            act("query", files, "select count(*) from place where {owned}")
        with pytest.raises(ApportionError):
            act("verify", files, base=Base)
        act("apply", files)
        assert 2 * ROWS == router.scatter(counted).scalar()
        assert 2 * ROWS == sum(len(each.session.query(Place).all()) for each in router.each(read_only=True))
    check_isolated(files)


def test_a_router_that_never_hears_of_the_new_slot_is_refused(files, monkeypatch):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        old = router.table
        isolate(files, to="two")
        monkeypatch.setattr(router, "refreshed", lambda version, within: old)
        monkeypatch.setattr(type(router), "table", property(lambda self: old))
        monkeypatch.setattr("apportion.shards.pin.SWITCH_SECONDS", 0.1)
        monkeypatch.setattr("apportion.shards.pin.Pin._newer", lambda self, table, **_: table)
        with router.session(KEY) as session, pytest.raises(StaleRoute):
            session.query(Place).all()
    check_isolated(files)


def test_the_doctor_asks_for_no_old_row_to_be_written_again(files, monkeypatch):
    die(files, monkeypatch, "clean-batch.before", to="two")
    assert [("rows of one", "warning", "old rows of an isolated key in slot 0")] == ill(files)


def test_a_move_of_its_hash_slot_is_refused_meanwhile(files, monkeypatch):
    die(files, monkeypatch, "verify.after", to="two")
    assert {"key-1": (0, 1)} == moving(files)
    with pytest.raises(Conflict):
        act("pin", files, ["absent"], base=Base)
    act("abort", files)


def test_a_writer_that_waits_ends_the_fence_of_a_dead_mover(files, monkeypatch):
    die(files, monkeypatch, "fence.after", to="two")
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        router.run(OTHER, lambda session: session.add(Place(id=UUID(int=91), country=OTHER)))
        router.run(OTHER, lambda session: session.delete(session.get(Place, UUID(int=91))))
    isolate(files, to="two")
    check_isolated(files)


def play_restored(files, monkeypatch, *, copied_at, dies_at):
    """Isolate the key up to a death, restore the control store from a copy of an earlier moment, and recover."""
    history = History(files, copied_at=copied_at, dies_at=dies_at)
    with monkeypatch.context() as patched:
        patched.setattr(carrier_module, "stop_point", lambda: history)
        with suppress(Died, HistoryDied):
            isolate(files, to="two")
    if history.count < copied_at:
        copied(files)
    restored(files)
    return act("recover", files)


MOMENTS = [(copied_at, later) for copied_at in (1, 9, 19, 25, 29) for later in (0, 5, 12, 40)]


@pytest.mark.parametrize(
    ("copied_at", "later"),
    [pytest.param(*each, marks=() if each in MOMENTS[::19] else pytest.mark.soak) for each in MOMENTS],
)
@pytest.mark.slow
def test_a_restored_store_ends_the_isolation_or_says_that_the_table_lacks_the_slot(
    files, monkeypatch, copied_at, later
):
    found = play_restored(files, monkeypatch, copied_at=copied_at, dies_at=copied_at + later)
    if found.doubts:
        assert all(each.startswith("slot 1: ") for each in found.doubts)
        assert {1: ROWS} == rows(files, "two")
        return
    act("apply", files)
    assert ([], {}) == (left(files), moving(files))
    assert is_sound(files)
    isolate(files, to="two")
    assert ({0: ROWS}, ROWS) == (rows(files, "one"), sum(rows(files, "two").values()))


def test_no_row_is_deleted_from_a_slot_without_the_mark_of_the_isolation(files):
    """The mark tells that the key has left the slot. A mover that comes late or too early finds none."""

    async def main():
        sites = sites_of(SET, files.shards)
        with DatabasePlace(files.shards["one"].address()).reader() as reader:
            conditions = key_conditions(sharded_in_order(Base), KEY, reader.dialect)
        isolated = IsolatedKey(key=KEY.encode(), slot=1, conditions=conditions)
        group = MoveGroup(move="key-1", source="one", target="two", slots=(0,), isolated=isolated)
        try:
            return await (await sites.shard("one")).clean(group, token_of(1))
        finally:
            await sites.close()

    assert (0, {0: 2 * ROWS}) == (asyncio.run(main()), rows(files, "one"))


@pytest.mark.parametrize("to", [None, "two"])
def test_a_key_that_the_database_compares_in_another_way_than_a_router_is_refused(files, to):
    """A router takes the bytes and the text of a key for one key, and the database takes them for two."""
    if files.kind == "sqlite":
        files.sql("one", "INSERT INTO place (id, country, visits, slot) VALUES ('x', CAST('acme' AS BLOB), 0, 0)")
    else:
        files.sql("one", "ALTER TABLE place ALTER country TYPE char(9)")
    with pytest.raises(InvalidInput, match="expected one that the database compares as a router does"):
        isolate(files, to=to)
    assert {0} == {*rows(files, "one")}
