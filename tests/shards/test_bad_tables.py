"""Tables of the set that another program changed on a shard: the error is ours, and the doctor tells it."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

import apportion
from apportion.errors import ApportionError, BadSnapshot
from apportion.shards import admin
from tests.shards.sample import SET, Base, Files, Place

NOW = timedelta(0)


def move_to_one(files):
    """Return the plan that moves a slot of shard two to shard one."""
    owners = asyncio.run(admin.status(files.url, SET)).table.owners
    slot = next(slot for slot, shard in owners.items() if shard == "two")
    return asyncio.run(admin.plan(files.url, SET, slots=[slot], to="one"))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE apportion_slot SET state = 'nope'",
        "UPDATE apportion_slot SET state = x'ff00'",
        "UPDATE apportion_slot SET life = 'x', number = 'y'",
        "UPDATE apportion_slot SET life = NULL, number = 5",
        "ALTER TABLE apportion_slot DROP COLUMN number",
        "DROP TABLE apportion_slot",
    ],
)
def test_slots_that_nobody_can_read_are_told_by_the_session_and_by_the_doctor(tmp_path, statement):
    files = Files(tmp_path)
    with closing(sqlite3.connect(tmp_path / "one.db")) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        key = next(key for key in map(str, range(99)) if router.shard(key) == "one")
        with pytest.raises(BadSnapshot, match="slot"):
            router.run(key, lambda session: session.add(Place(country=key)))
    found = asyncio.run(admin.doctor(files.url, SET))
    assert any("error" == each.verdict and "shard one" == each.subject for each in found)


@pytest.mark.parametrize("table", ["apportion_mover", "apportion_fences", "apportion_move"])
def test_a_lost_table_ends_a_move_by_our_error_and_is_made_again(tmp_path, table):
    files = Files(tmp_path)
    plan = move_to_one(files)
    files.sql("one", f"DROP TABLE {table}")
    with pytest.raises(ApportionError, match=table):
        asyncio.run(admin.apply(files.url, SET, plan))
    faults = [
        each for each in asyncio.run(admin.doctor(files.url, SET, base=Base)) if "triggers of one" == each.subject
    ]
    assert table in faults[0].found
    asyncio.run(admin.add(files.url, SET, {"one": f"sqlite:///{tmp_path}/one.db"}, base=Base))
    assert asyncio.run(admin.apply(files.url, SET, plan)).is_whole


@pytest.mark.parametrize("position", ["garbage", b"\x00\xff", "9.9"])
def test_a_token_that_nobody_can_read_ends_a_move_by_our_error(tmp_path, position):
    files = Files(tmp_path)
    plan = move_to_one(files)
    asyncio.run(admin.apply(files.url, SET, plan))
    files.sql("one", "UPDATE apportion_fences SET position = ?", (position,))
    with pytest.raises(BadSnapshot, match="in the table of tokens"):
        asyncio.run(admin.clean(files.url, SET, soak=NOW))


@pytest.mark.parametrize("clears", ["add", "apply"])
def test_a_mark_that_a_mover_left_is_cleared_by_add_and_by_the_next_mover(tmp_path, clears):
    files = Files(tmp_path)
    plan = move_to_one(files)
    files.sql("one", "INSERT INTO apportion_mover VALUES ('left')")
    if clears == "add":
        asyncio.run(admin.add(files.url, SET, {"one": f"sqlite:///{tmp_path}/one.db"}, base=Base))
    else:
        asyncio.run(admin.apply(files.url, SET, plan))
    assert [] == files.sql("one", "SELECT * FROM apportion_mover")


@pytest.mark.parametrize("call", ["recover", "verify", "doctor", "remove"])
def test_a_call_that_failed_holds_no_lock_while_its_error_lives(tmp_path, call):
    files = Files(tmp_path)
    asyncio.run(admin.apply(files.url, SET, asyncio.run(admin.plan(files.url, SET, weights={"two": 0}))))
    asyncio.run(admin.clean(files.url, SET, soak=NOW))
    statement = "UPDATE apportion_slot SET state = " + ("'owner'" if call == "remove" else "'nope'")
    with closing(sqlite3.connect(tmp_path / "two.db")) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement)
    options = {"base": Base} if call == "verify" else {}
    errors = []
    try:
        asyncio.run(getattr(admin, call)(files.url, SET, *(["two"] if call == "remove" else []), **options))
    except ApportionError as error:
        errors.append(error)
    assert bool(errors) == (call != "doctor")
    with closing(sqlite3.connect(tmp_path / "two.db", timeout=0)) as writer, writer:
        writer.execute("UPDATE apportion_slot SET state = 'moved'")
