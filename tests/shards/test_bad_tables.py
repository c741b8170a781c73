"""Tables of the set that another program changed on a shard: the error is ours, and the doctor tells it."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

import apportion
from apportion.errors import ApportionError, BadSnapshot, Unequal
from apportion.shards import admin
from apportion.shards.admin import carrier
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
    for base in (Base, None):
        found = asyncio.run(admin.doctor(files.url, SET, base=base))
        assert [f"no table {table}"] == [each.found for each in found if "error" == each.verdict]
    asyncio.run(admin.add(files.url, SET, {"one": f"sqlite:///{tmp_path}/one.db"}, base=Base))
    assert asyncio.run(admin.apply(files.url, SET, plan)).is_whole


@pytest.mark.parametrize("table", ["apportion_mover", "apportion_slot"])
def test_a_session_that_needs_a_lost_table_gets_our_error_with_the_next_step(tmp_path, table):
    files = Files(tmp_path)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        key = next(key for key in map(str, range(99)) if router.shard(key) == "one")
        with router.session(key) as session:
            session.add(Place(country=key))
            session.commit()
            files.sql("one", f"DROP TABLE {table}")
            session.add(Place(country=key))
            with pytest.raises(BadSnapshot, match=f"no such table: .*{table}") as refused:
                session.commit()
    assert ("shards add" if table == "apportion_mover" else "from a copy") in refused.value.hint


def stopped(files, monkeypatch, label):
    """Return a plan, carried out up to a label."""
    plan = move_to_one(files)
    [slot] = plan.groups[0].slots
    files.sql("two", "INSERT INTO place (id, country, visits, slot) VALUES (hex(randomblob(16)), 'x', 0, ?)", (slot,))

    class StoppedError(Exception):
        pass

    def reached(passed):
        if passed == label:
            raise StoppedError

    with monkeypatch.context() as patched:
        patched.setattr(carrier, "stop_point", lambda: reached)
        with pytest.raises(StoppedError):
            asyncio.run(admin.apply(files.url, SET, plan))
    return plan


HURT = (
    "INSERT INTO apportion_move VALUES ('{move}', 'copy', 'nowhere', 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, {done})"
)
DAMAGED = {
    "log": ("two", "DROP TABLE apportion_log", "no table apportion_log"),
    "capture": ("two", "DROP TABLE apportion_capture", "no table apportion_capture"),
    "trigger": ("two", "DROP TRIGGER apportion_place_logged_gone", ""),
    "captured slots": ("two", "DELETE FROM apportion_capture", ""),
    "progress": ("one", "UPDATE apportion_move SET rows = 'x'", ""),
    "progress of no table": ("one", HURT.format(move="{move}", done=0), ""),
    "ended progress of no table": ("one", HURT.format(move="{move}", done=1), ""),
    "no progress of a table": ("one", "DELETE FROM apportion_move WHERE name = 'photo' AND step = 'copy'", ""),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("label", ["chunk.after", "verify.after", "intent.after"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_log_or_progress_ends_a_move_with_the_next_step_and_an_abort_leaves_nothing(
    tmp_path, monkeypatch, damage, label
):
    files = Files(tmp_path)
    plan = stopped(files, monkeypatch, label)
    [group] = plan.groups
    shard, statement, said = DAMAGED[damage]
    files.sql(shard, statement.format(move=plan.moves[0].move))
    if said:
        found = asyncio.run(admin.doctor(files.url, SET))
        assert said in [each.found for each in found if each.subject == f"shard {shard}"]
    with pytest.raises((BadSnapshot, Unequal)) as ended:
        asyncio.run(admin.apply(files.url, SET, plan))
    assert ended.value.hint
    assert asyncio.run(admin.abort(files.url, SET)).is_whole
    for each in ("one", "two"):
        left = "SELECT name FROM sqlite_master WHERE name LIKE 'apportion%log%' OR name LIKE '%kept%'"
        assert [] == files.sql(each, left), each
    assert [(1,)] == files.sql("two", "SELECT count(*) FROM place WHERE slot = ?", group.slots)
    files.sql("two", "UPDATE place SET visits = 9 WHERE slot = ?", group.slots)
    assert asyncio.run(admin.apply(files.url, SET, move_to_one(files))).is_whole


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
