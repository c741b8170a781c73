"""Fail-over in the control store: a timeline is noted by one commit that compares all that it was judged by."""

import asyncio
from dataclasses import replace

import pytest

from apportion.errors import Conflict, InvalidInput, StoreUnavailable, StoreWentBack, UnknownOption
from apportion.shards import admin
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.book import KeptMove, KnownMoves
from apportion.shards.mover.failover import admitted, copied_to, record_of
from apportion.shards.mover.records import MoveEntry, encode_moving
from apportion.shards.records import SetKeys
from apportion.shards.reshard import MoveRecord
from apportion.shards.slot_rows import SlotRow
from apportion.shards.timeline.timeline import Timeline
from apportion.stores import api
from apportion.stores.catalog import connect
from tests.shards.sample import SET, Files

KEYS = SetKeys(SET)
FIRST, SECOND = Timeline(cluster="7", number=1), Timeline(cluster="7", number=2)
STANDBY = Timeline(cluster="7", number=0)


class Between:
    """A control store in which other records change just before each of the first commits of the test."""

    def __init__(self, store, *changes):
        self._store, self._changes = store, [*changes]

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def commit(self, **words):
        if self._changes:
            change = self._changes.pop(0)
            if isinstance(change, api.Unknown):
                return change
            await change()
        return await self._store.commit(**words)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("failover"))


@pytest.fixture
def play(files):
    """Return a function that plays in the control store of the set. No move is under way."""

    def played(act, noted=FIRST):
        owned = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot")]

        async def main():
            store = await connect(files.url)
            try:
                for item in (await store.scan(f"{KEYS.prefix}mov")).items:
                    same = api.Unchanged(key=item.key, revision=item.revision)
                    await store.commit(when=[same], deletes=[item.key])
                await put(store, KEYS.shard("one"), replace(files.shards["one"], timeline=noted).encode())
                await act(store, {slot: SlotRow(state="owner") for slot in owned})
            finally:
                await store.close()

        asyncio.run(main())

    return played


async def put(store, key, value):
    found = {item.key: item for item in (await store.scan(key)).items}
    when = api.Unchanged(key=key, revision=found[key].revision) if key in found else api.Absent(key=key)
    assert isinstance(await store.commit(when=[when], puts=[api.Put(key=key, value=value)]), api.Committed)


async def noted(store):
    return (await record_of(store, KEYS, "one")).record.timeline


def moving(*slots, source, target):
    group = MoveGroup(move="a-000", source=source, target=target, slots=slots)
    return MoveEntry(group=group, record=MoveRecord(state="complete"))


@pytest.mark.parametrize(
    ("before", "found", "after"),
    [(FIRST, FIRST, FIRST), (FIRST, SECOND, SECOND), (FIRST, STANDBY, FIRST), (None, SECOND, SECOND)],
)
def test_a_timeline_that_lost_nothing_is_noted(play, before, found, after):
    async def act(store, rows):
        assert after == (await admitted(store, (SET, "one"), found, rows)).timeline
        assert after == await noted(store)

    play(act, noted=before)


def test_a_standby_is_never_noted_and_the_first_timeline_needs_no_rows(play):
    async def act(store, rows):
        assert rows
        for found, after in ((STANDBY, None), (SECOND, SECOND)):
            assert after == (await admitted(store, (SET, "one"), found, {})).timeline
            assert after == await noted(store)

    play(act, noted=None)


def test_rows_that_differ_are_refused_and_nothing_is_noted(play):
    async def act(store, rows):
        foreign = next(slot for slot in range(64) if slot not in rows)
        own = min(rows)
        for changed, words in (
            ({foreign: SlotRow(state="owner")}, f"it accepts slot {foreign}"),
            ({own: SlotRow(state="fenced")}, f"it does not accept slot {own}"),
            ({own: SlotRow(state="moved")}, f"it may lack rows of slot {own}"),
        ):
            with pytest.raises(StoreWentBack, match=words):
                await admitted(store, (SET, "one"), SECOND, {**rows, **changed})
        assert FIRST == await noted(store)

    play(act)


@pytest.mark.parametrize(("source", "target", "is_refused"), [("one", "two", 1), ("two", "one", 1), ("two", "tri", 0)])
def test_a_move_of_the_shard_in_either_direction_is_refused(play, source, target, is_refused):
    async def act(store, rows):
        entry = moving(1, source=source, target=target)
        await put(store, KEYS.move("a-000"), entry.encode())
        await put(store, KEYS.moving, encode_moving({"a-000": (1,)}))
        if not is_refused:
            assert SECOND == (await admitted(store, (SET, "one"), SECOND, rows)).timeline
            return
        with pytest.raises(StoreWentBack, match="move a-000 is under way"):
            await admitted(store, (SET, "one"), SECOND, rows)

    play(act)


def test_a_pin_under_way_is_refused(play):
    async def act(store, rows):
        await put(store, KEYS.moving, encode_moving({"pin-64": (1, 64)}))
        with pytest.raises(StoreWentBack, match="move pin-64 is under way"):
            await admitted(store, (SET, "one"), SECOND, rows)

    play(act)


def test_a_move_that_begins_meanwhile_is_seen(play):
    async def act(store, rows):
        async def begins():
            await put(store, KEYS.move("a-000"), moving(1, source="one", target="two").encode())
            await put(store, KEYS.moving, encode_moving({"a-000": (1,)}))

        with pytest.raises(StoreWentBack, match="move a-000 is under way"):
            await admitted(Between(store, begins), (SET, "one"), SECOND, rows)
        assert FIRST == await noted(store)

    play(act)


def test_of_two_processes_that_see_the_same_fail_over_both_go_on(play):
    async def act(store, rows):
        async def other():
            await admitted(store, (SET, "one"), SECOND, rows)

        assert SECOND == (await admitted(Between(store, other), (SET, "one"), SECOND, rows)).timeline

    play(act)


def test_records_that_change_all_the_time_and_lost_replies_are_told(play):
    async def act(store, rows):
        weights = iter(range(1, 100))

        async def other():
            kept = await record_of(store, KEYS, "one")
            await put(store, kept.key, replace(kept.record, weight=float(next(weights))).encode())

        with pytest.raises(Conflict, match="shard one was examined"):
            await admitted(Between(store, *[other] * 9), (SET, "one"), SECOND, rows)
        with pytest.raises(StoreUnavailable, match="no reply"):
            await admitted(Between(store, api.Unknown(reason="no reply")), (SET, "one"), SECOND, rows)
        with pytest.raises(InvalidInput, match="shard is 'tri'"):
            await admitted(store, (SET, "tri"), SECOND, rows)

    play(act)


@pytest.mark.parametrize(("state", "is_copied"), [("copying", True), ("aborted", True), ("switched", False)])
def test_a_slot_is_left_to_its_move_until_the_move_switches(state, is_copied):
    entry = replace(moving(1, 2, source="two", target="one"), record=MoveRecord(state=state))
    kept = KeptMove(entry=entry, revision=1, is_listed=True)
    moves = KnownMoves(kept={"a-000": kept}, moving={"a-000": (1, 2)})
    rows = {1: SlotRow(state="incoming"), 2: SlotRow(state="moved"), 3: SlotRow(state="incoming")}
    assert ({1} if is_copied else set()) == copied_to("one", rows, moves)
    assert set() == copied_to("two", rows, moves)


def test_a_file_has_no_fail_over(files):
    for is_check in (True, False):
        with pytest.raises(InvalidInput, match="a file has no fail-over"):
            asyncio.run(admin.accept_failover(files.url, SET, "one", is_check=is_check))
        with pytest.raises(UnknownOption, match="one of one, two"):
            asyncio.run(admin.accept_failover(files.url, SET, "tri", is_check=is_check))
