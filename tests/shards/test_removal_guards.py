"""A removal looks again at each step: a slot that came meanwhile, another database, another commit, a lost reply."""

import asyncio
import shutil

import pytest

from apportion.errors import Conflict, InvalidInput, StoreDenied, StoreUnavailable
from apportion.shards import router
from apportion.shards.admin import departure, ends
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.records import MoveEntry, encode_moving
from apportion.shards.reshard import MoveRecord
from apportion.stores import api
from apportion.stores.catalog import connect
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role
from tests.shards.test_recover_races import cut
from tests.shards.test_removal import act, catalogs, emptied, gone, ids
from tests.stores.rigs.postgres import USER

GROUP = MoveGroup(move="late-000", source="two", target="one", slots=(3,))
KEYS = f"shards/{SET}/"


@pytest.fixture
def files(make_set):
    made = make_set("sqlite")
    emptied(made, "one")
    return made


def committed(files, when, puts):
    """Write records of the set, as another process does."""

    async def main():
        store = await connect(files.url)
        try:
            outcome = await store.commit(when=when, puts=puts)
        finally:
            await store.close()
        assert isinstance(outcome, api.Committed)

    asyncio.run(main())


def put(key, value):
    return [api.Absent(key=key)], [api.Put(key=key, value=value)]


def test_a_slot_that_the_database_owns_is_found_though_the_table_has_none(files):
    files.state("one", 5, "owner")
    before = catalogs(files, "one")
    with pytest.raises(InvalidInput, match="one, with slot 5 in its database as owner', expected one without slots"):
        act("remove", files, "one")
    assert (before, ["one", "two"]) == (catalogs(files, "one"), ids(files))


def test_a_database_that_is_another_shard_keeps_its_tables(files):
    shutil.copyfile(files.folder / "two.db", files.folder / "one.db")
    with pytest.raises(InvalidInput, match="shard of shard one is 'two', expected one"):
        act("remove", files, "one")
    assert catalogs(files, "two") == catalogs(files, "one")


def after_leaving(monkeypatch, act_of_another):
    """Let another process act between the two steps of a removal."""
    leave = departure._Leaving.leave

    def left(leaving):
        leave(leaving)
        act_of_another()

    monkeypatch.setattr(departure._Leaving, "leave", left)


def before_the_commit(monkeypatch, act_of_another):
    """Let another process act between the last reading of a removal and its commit."""
    read, calls = MoveBook.read, []

    async def late(book, **options):
        found = await read(book, **options)
        calls.append(book)
        if len(calls) == 3:  # after that of pins, and that of moves
            await asyncio.to_thread(act_of_another)
        return found

    monkeypatch.setattr(MoveBook, "read", late)


@pytest.mark.parametrize(
    ("moment", "event"),
    [(after_leaving, "table"), (after_leaving, "move"), (before_the_commit, "table"), (before_the_commit, "list")],
)
def test_a_set_that_changed_meanwhile_keeps_the_record(files, monkeypatch, moment, event):
    listed = put(f"{KEYS}moving", encode_moving({GROUP.move: GROUP.slots}))
    move = put(f"{KEYS}move/{GROUP.move}", MoveEntry(group=GROUP, record=MoveRecord(state="planned")).encode())
    acts = {
        "table": lambda: files.publish(3, "one"),
        "move": lambda: committed(files, *([*one, *other] for one, other in zip(listed, move, strict=True))),
        "list": lambda: committed(files, *listed),
    }
    with monkeypatch.context() as race:
        moment(race, acts[event])
        with pytest.raises(Conflict, match="the records of the set changed while shard one was removed"):
            act("remove", files, "one")
    assert ["one", "two"] == ids(files)


@pytest.mark.parametrize("is_done", [True, False])
def test_a_lost_reply_of_the_last_commit_is_looked_after(files, monkeypatch, is_done):
    async def lossy(url):
        store = await connect(url)
        commit = store.commit

        async def lost(*, when, puts=(), deletes=()):
            if f"{KEYS}shard/one" not in deletes:
                return await commit(when=when, puts=puts, deletes=deletes)
            if is_done:
                await commit(when=when, puts=puts, deletes=deletes)
            return api.Unknown(reason="no reply")

        store.commit = lost
        return store

    with monkeypatch.context() as losses:
        losses.setattr(router, "connect", lossy)
        if is_done:
            act("remove", files, "one")
        else:
            with pytest.raises(StoreUnavailable, match="no reply"):
                act("remove", files, "one")
            assert ["one", "two"] == ids(files)
    if not is_done:
        act("remove", files, "one")
    assert ["two"] == ids(files)


def test_a_move_that_has_switched_is_not_over_when_its_source_is_gone(make_set, monkeypatch):
    files = make_set("sqlite")
    owned = [slot for slot, owner in act("status", files).table.owners.items() if owner == "one"]
    cut(monkeypatch, "switch.after", files, "apply", act("plan", files, slots=owned, to="two"))
    gone(files, "one")
    with pytest.raises(InvalidInput, match="which is switched', expected one without moves"):
        act("remove", files, "one", force=True)
    assert ["one", "two"] == ids(files)


def test_tokens_of_other_resources_stay_with_their_table(make_set, kind, monkeypatch):
    as_role(monkeypatch, OWNER)
    world = make_set(kind)
    fences = {"sqlite": "apportion_fences", "postgresql": "apportion.fences"}[kind]
    columns = "resource, position, holder"
    emptied(world, "one")
    world.sql("one", f"INSERT INTO {fences} ({columns}) VALUES ('reports', '1.1', 'me')")
    act("remove", world, "one")
    assert [("reports", "1.1", "me")] == [*map(tuple, world.sql("one", f"SELECT {columns} FROM {fences}"))]


@pytest.mark.live
def test_a_role_that_owns_no_table_is_denied_and_nothing_changes(make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    world = make_set("postgresql")
    emptied(world, "one")
    before = catalogs(world, "one")
    as_role(monkeypatch, USER)
    with pytest.raises(StoreDenied) as refusal:
        act("remove", world, "one")
    assert "Run the command as the role that owns the tables of the set." in refusal.value.hint
    assert (before, ["one", "two"]) == (catalogs(world, "one"), ids(world))


def test_a_drain_beside_an_abort_begins_no_move(make_set, monkeypatch):
    files = make_set("sqlite", shards=("one", "three", "two"))
    cut(monkeypatch, "verify.before", files, "drain", "one")
    owned = {each.id: each.slots for each in act("status", files).shards}
    assert 1 == asyncio.run(ends.wish(files.url, SET, "abort"))
    made = act("drain", files, "one")
    assert ((), False) == (made.moves, made.is_whole)
    assert owned == {each.id: each.slots for each in act("status", files).shards}
    assert act("drain", files, "one").is_whole
