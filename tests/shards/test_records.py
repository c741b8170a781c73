"""Records that another hand wrote: the error names the record, and only its move or its shard waits for a repair."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

import apportion
from apportion.errors import BadSnapshot, InvalidInput, PlanRefused
from apportion.shards import admin
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.records import MoveEntry, decode_moving, encode_moving
from apportion.shards.pins.isolated_key import IsolatedKey, KeyCondition
from apportion.shards.records import ShardRecord
from apportion.shards.reshard import MoveRecord
from tests.shards.sample import SET, Base, Files, Place

MOVE, SHARD, MOVING = "move/a-000", "shard/two", "moving"
HUGE = b'{"format":' + b"9" * 5000 + b"}"


@pytest.fixture
def files(tmp_path):
    """A set with a move that rests, of slots that shard one owns."""
    files = Files(tmp_path)
    plan = asyncio.run(admin.plan(files.url, SET, weights={"two": 3}))
    (group,) = plan.groups
    entry = {
        "format": 1,
        "move": "a-000",
        "source": "one",
        "target": "two",
        "slots": [[group.slots[0], group.slots[0] + 1]],
    }
    entry |= {"state": "planned", "attempt": 1, "way": "one-way", "wish": "pause", "since": 0.0, "pause_seconds": 0.0}
    write(tmp_path, MOVE, json.dumps(entry).encode())
    write(tmp_path, MOVING, json.dumps({"format": 1, "moving": {"a-000": entry["slots"]}}).encode())
    return files


def write(folder, name, value):
    with closing(sqlite3.connect(folder / "control.db")) as connection, connection:
        row = (f"apportion/shards/{SET}/{name}".encode(), value)
        connection.execute("INSERT OR REPLACE INTO item (key, value, revision) VALUES (?, ?, 1)", row)


def read(folder, name):
    with closing(sqlite3.connect(folder / "control.db")) as connection:
        key = f"apportion/shards/{SET}/{name}".encode()
        ((value,),) = connection.execute("SELECT value FROM item WHERE key = ?", (key,)).fetchall()
    return value


def changed(folder, name, **members):
    write(folder, name, json.dumps({**json.loads(read(folder, name)), **members}).encode())


def ill(files):
    found = asyncio.run(admin.doctor(files.url, SET))
    return [each.found for each in found if each.subject == "control store"]


@pytest.mark.slow
@pytest.mark.parametrize("value", [b"", b"null", b"\xff\x00", b"[" * 100_000, HUGE])
@pytest.mark.parametrize("name", ["set", SHARD, MOVING, MOVE])
def test_an_error_names_the_record(files, tmp_path, name, value):
    write(tmp_path, name, value)
    with pytest.raises(BadSnapshot, match=f"record shards/{SET}/{name}: "):
        asyncio.run(admin.apply(files.url, SET))
    if name != "set":
        assert f"record shards/{SET}/{name}: " in ill(files)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "members",
    [
        {"slots": [[0, 2**40]]},
        {"slots": [[20_000, 20_001]]},
        {"attempt": 0},
        {"attempt": 2**63},
        {"since": 10**400},
        {"since": float("nan")},
        {"move": "another"},
    ],
)
def test_a_damaged_move_holds_up_no_other_one(files, tmp_path, members):
    changed(tmp_path, MOVE, **members)
    owners = asyncio.run(admin.status(files.url, SET)).table.owners
    slot = max(slot for slot, shard in owners.items() if shard == "one")
    plan = asyncio.run(admin.plan(files.url, SET, slots=[slot], to="two"))
    assert plan.groups
    for call in (lambda: admin.apply(files.url, SET, plan), lambda: admin.clean(files.url, SET, soak=timedelta(0))):
        with pytest.raises(BadSnapshot, match=f"record shards/{SET}/{MOVE}: "):
            asyncio.run(call())
    assert "two" == asyncio.run(admin.status(files.url, SET)).table.owners[slot]
    assert f"record shards/{SET}/{MOVE}: " in ill(files)[0]


WRONG = {
    "move": [None, 5, ["a-000"], "b-000"],
    "source": [None, 5, {}],
    "target": [None, True, []],
    "slots": [None, "0-1", [[1]], [["0", "1"]], [[5, 3]], [], {}],
    "state": [None, 3, "flying", ["planned"]],
    "attempt": [None, "1", 1.5, True, 0],
    "way": [None, 0, "up"],
    "wish": [None, 0, "stop"],
    "since": [None, "now", [], True],
    "pause_seconds": [None, "long", [], True],
}


@pytest.mark.parametrize("field", WRONG)
def test_every_damage_of_a_field_of_a_move_is_named(files, tmp_path, field):
    entry = json.loads(read(tmp_path, MOVE))
    damaged = [{**entry, field: value} for value in WRONG[field]]
    for each in [*damaged, {name: value for name, value in entry.items() if name != field}]:
        write(tmp_path, MOVE, json.dumps(each).encode())
        (said,) = asyncio.run(admin.status(files.url, SET)).damaged
        assert said.startswith(f"record shards/{SET}/{MOVE}: field {field} is "), (each, said)


@pytest.mark.parametrize(
    ("damage", "field"),
    [
        (lambda entry: b"{", "record of a move"),
        (lambda entry: json.dumps({**entry, "state": 3}).encode(), "field state"),
        (lambda entry: json.dumps({**entry, "slots": "0-1"}).encode(), "field slots"),
        (lambda entry: json.dumps({name: entry[name] for name in entry if name != "since"}).encode(), "field since"),
    ],
    ids=["no JSON", "a wrong state", "wrong slots", "no time"],
)
def test_a_damaged_move_stops_nothing_else_and_the_repair_tells_the_next_step(files, tmp_path, damage, field):
    entry = json.loads(read(tmp_path, MOVE))
    write(tmp_path, MOVE, damage(entry))
    own, owners = entry["slots"][0][0], asyncio.run(admin.status(files.url, SET)).table.owners
    slot = max(slot for slot, shard in owners.items() if shard == "one")
    plan = asyncio.run(admin.plan(files.url, SET, slots=[slot], to="two"))
    said = f"record shards/{SET}/{MOVE}: {field} is "
    for call in (admin.apply(files.url, SET, plan), admin.repair(files.url, SET)):
        with pytest.raises(BadSnapshot, match=re.escape(said)) as refused:
            asyncio.run(call)
        assert (field, "Restore the control store from a copy.") == (refused.value.field, refused.value.hint)
    assert "two" == asyncio.run(admin.status(files.url, SET)).table.owners[slot]
    assert [True] == [each.startswith(said) for each in ill(files)]
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for each in (slot, own):
            key = next(key for key in map(str, range(9_999)) if router.slot(key) == each)
            router.run(key, lambda session, key=key: session.add(Place(country=key)))
    write(tmp_path, MOVE, json.dumps({**entry, "wish": "go"}).encode())
    assert asyncio.run(admin.apply(files.url, SET)).is_whole
    assert "two" == asyncio.run(admin.status(files.url, SET)).table.owners[own]


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [("set", "slots", "64"), ("set", "slots", 63), ("set", "hasher", 7), ("set", "holder", None), ("set", "colour", 1),
     (SHARD, "url", 7), (SHARD, "weight", "1"), (SHARD, "zone", [1]), (MOVING, "moving", [])],
)  # fmt: skip
def test_a_damaged_field_of_another_record_is_named_too(files, tmp_path, name, field, value):
    changed(tmp_path, name, **{field: value})
    with pytest.raises(BadSnapshot, match=f"record shards/{SET}/{name}: field {field} is "):
        asyncio.run(admin.apply(files.url, SET))


@pytest.mark.parametrize(
    "members", [{"weight": float("nan")}, {"weight": -1}, {"weight": 10**400}, {"url": "postgresql://u:p@h/x"}]
)
def test_a_damaged_shard_holds_up_no_other_one(files, tmp_path, members):
    changed(tmp_path, SHARD, **members)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        near, far = (next(key for key in map(str, range(99)) if router.shard(key) == shard) for shard in ("one", "two"))
        router.run(near, lambda session: session.add(Place(country=near)))
        with pytest.raises(BadSnapshot, match=f"record shards/{SET}/{SHARD}: "):
            router.run(far, lambda session: session.add(Place(country=far)))
    assert f"record shards/{SET}/{SHARD}: " in ill(files)[0]


@pytest.mark.parametrize("value", [b"", b"null", HUGE, b'{"format":1,"moving":{"x":[[5,1]]}}'])
def test_a_damaged_list_is_written_anew_from_the_moves_and_the_table(files, tmp_path, value):
    (pinned,) = asyncio.run(admin.pin(files.url, SET, ["far"], base=Base))
    before = decode_moving(read(tmp_path, MOVING))
    write(tmp_path, MOVING, value)
    (damage,) = asyncio.run(admin.repair(files.url, SET))
    assert damage.startswith(f"record shards/{SET}/{MOVING}: ")
    assert {**before, f"pin-{pinned.slot}": (pinned.slot,)} == decode_moving(read(tmp_path, MOVING))
    assert asyncio.run(admin.apply(files.url, SET)).is_whole
    table = asyncio.run(admin.status(files.url, SET)).table
    assert pinned.slot == table.slot("far")
    assert before == decode_moving(read(tmp_path, MOVING))
    assert () == asyncio.run(admin.repair(files.url, SET))


def test_a_list_without_the_record_of_a_move_cannot_be_written_anew(files, tmp_path):
    for name in (MOVING, MOVE):
        write(tmp_path, name, b"{")
    with pytest.raises(BadSnapshot, match=f"record shards/{SET}/{MOVE}: "):
        asyncio.run(admin.repair(files.url, SET))
    assert b"{" == read(tmp_path, MOVING)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pin-zz", "pin-" + "9" * 5000, "pin--1", "gone"])
def test_a_listed_move_without_a_record_holds_up_its_slots_alone(files, tmp_path, name):
    owners = asyncio.run(admin.status(files.url, SET)).table.owners
    *_, held, slot = sorted(slot for slot, shard in owners.items() if shard == "one")
    before = decode_moving(read(tmp_path, MOVING))
    write(tmp_path, MOVING, encode_moving({**before, name: (held,)}))
    plan = asyncio.run(admin.plan(files.url, SET, slots=[slot], to="two"))
    with pytest.raises(BadSnapshot, match=f"move in record shards/{SET}/{MOVING} is .*a move with a record"):
        asyncio.run(admin.apply(files.url, SET, plan))
    assert "two" == asyncio.run(admin.status(files.url, SET)).table.owners[slot]
    with pytest.raises(PlanRefused):
        asyncio.run(admin.plan(files.url, SET, slots=[held], to="two"))
    assert 1 == len(asyncio.run(admin.repair(files.url, SET)))
    assert asyncio.run(admin.plan(files.url, SET, slots=[held], to="two")).groups


def test_the_list_of_moving_slots_names_slots_of_a_set(files, tmp_path):
    changed(tmp_path, MOVING, moving={"x": [[0, 2**40]]})
    (damaged,) = asyncio.run(admin.status(files.url, SET)).damaged
    assert f"record shards/{SET}/{MOVING}: " in f"{damaged}"


@pytest.mark.parametrize("secret", ["a@b", "p@s:e/c?r#t", "@"])
def test_a_password_of_the_environment_that_would_end_the_name_of_the_user_is_refused_and_not_shown(
    monkeypatch, secret
):
    monkeypatch.setenv("SHARD_PASSWORD", secret)
    record = ShardRecord(url="postgresql://u:${SHARD_PASSWORD}@db1/shop")
    with pytest.raises(InvalidInput, match="SHARD_PASSWORD is '\\(not shown\\)'") as refusal:
        record.address()
    assert secret not in f"{refusal.value}".replace("in place of @", "")
    monkeypatch.setenv("SHARD_PASSWORD", "a%40b")
    assert "postgresql://u:a%40b@db1/shop" == record.address()


@pytest.mark.parametrize("url", ["", "two.db", "postgresql://me@host:${PORT}/place"])
@pytest.mark.parametrize("call", ["recover", "drain", "remove"])
def test_a_record_with_a_text_that_is_no_url_is_our_error_and_shows_nothing(files, tmp_path, monkeypatch, url, call):
    monkeypatch.setenv("PORT", "hush")
    write(tmp_path, SHARD, json.dumps({"format": 1, "url": url, "weight": 1.0, "zone": []}).encode())
    with pytest.raises(InvalidInput, match="URL of a shard") as refused:
        asyncio.run(getattr(admin, call)(files.url, SET, *([] if call == "recover" else ["one"])))
    assert "hush" not in f"{refused.value}"
    assert refused.value.__cause__ is None


def isolation(**changed):
    conditions = (
        KeyCondition(table="place", columns=("country", "year"), values=("é'", 2020)),
        KeyCondition(table="photo", columns=("place_id",), parent="place", target="id"),
        KeyCondition(table="visit"),
    )
    isolated = IsolatedKey(**{"key": b"\xff=acme", "slot": 4096, "conditions": conditions} | changed)
    group = MoveGroup(move="key-4096", source="one", target="two", slots=(17,), isolated=isolated)
    return MoveEntry(group=group, record=MoveRecord(state="copying"))


def test_the_record_of_an_isolated_key_comes_back():
    entry = isolation()
    assert entry == MoveEntry.decode(entry.encode())
    assert ((17,), (4096,), (17, 4096)) == (entry.group.slots, entry.group.arriving.slots, entry.group.listed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"slot":4096', b'"slot":16384'),
        (b'"slot":4096', b'"slot":"x"'),
        (b'"conditions":[[', b'"conditions":[[1,'),
        (b'"key":', b'"keys":'),
        (b'"slots":[[17,18]]', b'"slots":[[17,19]]'),
        (b"2020", b"20.2"),
    ],
)
def test_a_damaged_record_of_an_isolated_key_is_refused(before, after):
    damaged = isolation().encode().replace(before, after)
    assert damaged != isolation().encode()
    with pytest.raises(InvalidInput):
        MoveEntry.decode(damaged)


@pytest.mark.parametrize("parent", ["photo", "absent"])
def test_a_table_whose_parents_lead_to_no_key_is_refused(parent):
    isolated = IsolatedKey(
        key=b"a", slot=64, conditions=(KeyCondition(table="photo", columns=("id",), parent=parent, target="id"),)
    )
    with pytest.raises(InvalidInput, match=r"photo|absent"):
        isolated.line_of("photo")
