"""Plans are carried out on SQLite files: rows go with their slots, and a call that was cut off is finished later."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from uuid import UUID

import pytest

import apportion
from apportion.errors import Conflict, InvalidInput, NotOwner, PlanRefused, StaleEpoch
from apportion.groups.leader import AsyncElection
from apportion.shards import admin
from apportion.shards.admin import carrier, ends
from apportion.shards.plan import encode_shard_plan
from apportion.stores.sqlite.store import SqliteStore
from tests.shards.sample import SET, Base, Files, Photo, Place

COUNTRIES = [f"C{number}" for number in range(12)]
NOW = timedelta(0)


@pytest.fixture
def files(tmp_path):
    """A set on two files, with a place and a photo of each country."""
    files = Files(tmp_path)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number, country in enumerate(COUNTRIES):
            with router.session(country) as session:
                place = Place(id=UUID(int=number), country=country)
                session.add_all([place, Photo(id=UUID(int=number), place=place)])
                session.commit()
    return files


def act(name, files, *words, **options):
    return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))


def rows(files, shard):
    return sum(files.sql(shard, f"SELECT count(*) FROM {table}")[0][0] for table in ("place", "photo"))


def shards(files):
    return {each.id: (each.slots, each.weight, each.rows) for each in act("status", files, has_rows=True).shards}


def test_a_plan_is_carried_out_and_cleaned_up_after(files):
    steps = []
    plan = act("plan", files, weights={"two": 3})
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        made = act("apply", files, plan, observer=lambda event: steps.append(event.step))
        for country in COUNTRIES:
            router.run(country, lambda session, country=country: session.add(Place(country=country)))
    assert (tuple(each.move for each in plan.moves), True) == (made.moves, made.is_whole)
    assert steps.index("capture") < steps.index("chunk") < steps.index("fence") < steps.index("switch")
    found = shards(files)
    assert ((16, 1.0), (48, 3.0)) == (found["one"][:2], found["two"][:2])
    assert [("complete", 16)] == [(each.state, each.slots) for each in act("status", files).moves]
    old = plan.rows
    assert (24 + 12 + old, old) == (found["one"][2] + found["two"][2], act("verify", files, base=Base).left)
    assert admin.MovesMade(moves=(), is_whole=False) == act("clean", files)
    assert made.moves == act("clean", files, soak=NOW).moves
    whole = act("verify", files, base=Base)
    assert (36, 0, 0) == (whole.rows, whole.left, whole.faulty)
    assert () == act("status", files).moves
    assert admin.MovesMade(moves=()) == act("apply", files, plan)


def test_a_set_is_rebalanced_by_rows_when_it_is_skewed_and_left_alone_after(files):
    skewed = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot")]
    files.sql("one", "INSERT INTO apportion_mover VALUES ('me')")
    for number in range(400):
        row = "INSERT INTO place (id, country, visits, slot) VALUES (?, 'FR', 0, ?)"
        files.sql("one", row, (UUID(int=1_000 + number).hex, skewed[number % len(skewed)]))
    files.sql("one", "DELETE FROM apportion_mover")
    assert () == act("rebalance", files, by="rows", if_skewed=1.5).moves
    made = act("rebalance", files, by="rows")
    assert made.moves
    assert made.is_whole
    act("clean", files, soak=NOW)
    counted = {shard: each[2] for shard, each in shards(files).items()}
    assert 424 == sum(counted.values())
    assert all(0.88 * 212 <= count <= 1.12 * 212 for count in counted.values())
    assert () == act("rebalance", files, by="rows").moves


@pytest.mark.parametrize(("option", "value"), [("by", "keys"), ("if_skewed", -1), ("tolerance", 1)])
def test_a_wrong_option_of_a_rebalance_is_refused(files, option, value):
    with pytest.raises(InvalidInput, match=f"{option} is {value!r}"):
        act("rebalance", files, **{"if_skewed": 0, option: value})


def test_a_table_that_came_after_init_is_refused_until_it_has_triggers(files):
    for shard in ("one", "two"):
        files.sql(shard, "CREATE TABLE tag (id TEXT PRIMARY KEY, slot INTEGER NOT NULL)")
        files.sql(shard, "CREATE UNIQUE INDEX tag_by_slot ON tag (slot, id)")
    plan, before = act("plan", files, weights={"two": 3}), rows(files, "one")
    with pytest.raises(InvalidInput, match="triggers of table tag in shard one is 'absent'") as refusal:
        act("apply", files, plan)
    assert "apportion shards add" in refusal.value.hint
    assert (32, before) == (shards(files)["one"][0], rows(files, "one"))


@pytest.mark.slow
def test_moves_that_rest_go_on_with_the_next_call_and_no_other_begins(files):
    plan = act("plan", files, slots=range(64), to="two")

    def paused(event):
        if event.step == "capture":
            asyncio.run_coroutine_threadsafe(ends.wish(files.url, SET, "pause"), asyncio.get_running_loop())

    made = act("apply", files, plan, observer=paused)
    if made.is_whole:
        pytest.fail("the mover was faster than the wish")
    assert (32, 32) == (shards(files)["two"][0], shards(files)["one"][0])
    (move,) = act("status", files).moves
    assert move.state not in ("switched", "complete")
    with pytest.raises(PlanRefused, match="earlier moves"):
        act("plan", files, slots=range(64), to="two")
    rests = act("rebalance", files, if_skewed=0)
    assert (False, "pause") == (rests.is_whole, act("status", files).moves[0].wish)
    assert plan.moves[0].move in rests.why
    assert [plan.moves[0].move] == list(act("apply", files).moves)
    assert 64 == shards(files)["two"][0]


@pytest.mark.slow
def test_moves_are_taken_back_and_leave_nothing(files):
    plan = act("plan", files, slots=range(64), to="two")
    one, two = rows(files, "one"), rows(files, "two")

    class Cut(Exception):
        pass

    def cut(event):
        if event.step == "verify":
            raise Cut

    with pytest.raises(Cut):
        act("apply", files, plan, observer=cut)
    (before,) = act("status", files, has_rows=True).moves
    assert before.left_behind
    assert (one, one + two) == (rows(files, "one"), rows(files, "two"))
    made = act("abort", files)
    assert ((plan.moves[0].move,), True) == (made.moves, made.is_whole)
    assert () == act("status", files).moves
    assert (one, two) == (rows(files, "one"), rows(files, "two"))
    assert [] == files.sql("two", "SELECT * FROM apportion_move")
    assert admin.MovesMade(moves=()) == act("abort", files)
    assert act("apply", files, plan).is_whole
    assert 64 == shards(files)["two"][0]


@pytest.mark.parametrize("command", ["clean", "apply"])
def test_a_move_whose_mover_was_killed_before_its_release_is_released_by_one_command(files, monkeypatch, command):
    class Died(Exception):
        pass

    def dies(label):
        if label == "release.before":
            raise Died

    plan = act("plan", files, weights={"two": 3})
    made = act("apply", files, plan).moves
    monkeypatch.setattr(carrier, "stop_point", lambda: dies)
    with pytest.raises(Died):
        act("clean", files, soak=NOW)
    monkeypatch.undo()
    assert ["cleaned"] == [each.state for each in act("status", files).moves]
    assert admin.MovesMade(moves=made) == act(command, files)
    assert () == act("status", files).moves
    assert act("apply", files, act("plan", files, weights={"two": 1})).is_whole


def test_weights_are_written_in_one_commit_that_compares_the_records(files, monkeypatch):
    plan, commit = act("plan", files, weights={"two": 3}), SqliteStore.commit

    async def after_another_hand(self, *, when, puts, **rest):
        if any(put.key.endswith("shard/two") for put in puts):
            await commit(self, when=when, puts=puts, **rest)
        return await commit(self, when=when, puts=puts, **rest)

    monkeypatch.setattr(SqliteStore, "commit", after_another_hand)
    with pytest.raises(Conflict, match="records of the shards changed"):
        act("apply", files, plan)
    assert (32, 32) == (shards(files)["one"][0], shards(files)["two"][0])


@pytest.mark.parametrize("soak", [timedelta(seconds=-1), 5, None])
def test_a_soak_is_a_time(files, soak):
    with pytest.raises(InvalidInput, match="soak"):
        act("clean", files, soak=soak)


def test_a_plan_of_an_old_table_is_refused_and_changes_no_weight(files):
    first, second, *_ = act("plan", files, slots=range(64), to="two").groups[0].slots
    old = act("plan", files, weights={"one": 3})
    act("apply", files, act("plan", files, slots=[first], to="two"))
    before = act("status", files)
    with pytest.raises(StaleEpoch, match=r"made from epoch [0-9]+:1, but the current epoch is [0-9]+:2\.") as refused:
        act("apply", files, old)
    assert "apportion shards plan URL SET" in refused.value.hint
    after = act("status", files)
    assert (before.version, before.moves, before.shards) == (after.version, after.moves, after.shards)
    assert act("apply", files, act("plan", files, slots=[second], to="two")).is_whole


def test_a_plan_that_was_cut_off_goes_on_after_the_moves_of_others_that_it_has_ended_and_after_pins(files, tmp_path):
    asyncio.run(admin.add(files.url, SET, {"three": f"sqlite:///{tmp_path}/three.db"}, base=Base))
    owners = act("status", files).table.owners
    first, second, *_ = (slot for slot, shard in owners.items() if shard == "one")
    third = next(slot for slot, shard in owners.items() if shard == "two")

    class Cut(Exception):
        pass

    def cut(event):
        if event.step == "capture":
            raise Cut

    with pytest.raises(Cut):
        act("apply", files, act("plan", files, slots=[first], to="two"), observer=cut)
    plan = act("plan", files, slots=[second, third], to="three")
    with pytest.raises(Cut):
        act("apply", files, plan, observer=lambda event: cut(event) if event.group in plan.moves else None)
    act("pin", files, ["a new key"], base=Base)
    assert moves(plan) == list(act("apply", files, plan).moves)
    assert ["two", "three", "three"] == [act("status", files).table.owners[slot] for slot in (first, second, third)]
    with pytest.raises(StaleEpoch):
        act("apply", files, plan)


def moves(plan):
    return [each.move for each in plan.moves]


def test_a_carrier_that_is_elected_no_more_begins_no_other_move(tmp_path, monkeypatch):
    files, is_over = Files(tmp_path), []
    asyncio.run(admin.add(files.url, SET, {"three": f"sqlite:///{tmp_path}/three.db"}, base=Base))
    plan = act("plan", files, weights={"three": 1})
    token = AsyncElection.token

    def told(election):
        if is_over:
            raise NotOwner(0, "another process leads")
        return token.fget(election)

    monkeypatch.setattr(AsyncElection, "token", property(told))
    with pytest.raises(Conflict, match=r"^this process no longer moves slots of set world"):
        act("apply", files, plan, observer=lambda event: is_over.append(1) if event.step == "switch" else None)
    is_over.clear()
    assert 1 == len(act("status", files).moves) < len(plan.moves)
    assert act("apply", files, plan).is_whole
    assert len(plan.moves) == len(act("status", files).moves)


@pytest.mark.parametrize("call", ["apply", "abort", "clean"])
def test_a_second_call_says_that_it_waits_for_the_process_that_moves_slots(files, caplog, call):
    async def main():
        async with apportion.leader(files.url, f"{SET}.mover") as first:
            await first.wait_until_elected()
            second = asyncio.create_task(getattr(admin, call)(files.url, SET))
            async with asyncio.timeout(20):
                while "and this call waits, for" not in caplog.text:
                    await asyncio.sleep(0.05)
        return await second

    assert asyncio.run(main()).is_whole
    assert f"set {SET}: another process moves its slots (see apportion group explain URL {SET}.mover 0)" in caplog.text


@pytest.mark.parametrize("call", ["apply", "abort", "clean"])
def test_a_call_that_is_asked_to_end_while_it_waits_for_its_election_says_how_to_go_on(files, monkeypatch, call):
    wait = AsyncElection.wait_until_elected

    async def asked(election):
        election.resign()
        return await wait(election)

    monkeypatch.setattr(AsyncElection, "wait_until_elected", asked)
    with pytest.raises(Conflict, match="this process no longer moves slots of set world: it was asked to end") as ended:
        act(call, files)
    assert "again" in ended.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["SIGTERM", "SIGINT"])
def test_apply_waits_for_a_locked_file_with_its_name_and_ends_at_a_signal(tmp_path, ends):
    files = Files(tmp_path)
    plan, waits = act("plan", files, slots=range(64), to="two"), []
    program = (
        "import asyncio, sys\n"
        "from apportion.shards import admin\n"
        "from apportion.shards.plan import decode_shard_plan\n"
        "from apportion.shards.sqlite import file\n"
        "file.LOCK_WAIT_SECONDS = 0.1\n"
        "told = lambda event: event.step == 'waits' and print(event.why, flush=True)\n"
        "plan = decode_shard_plan(open(sys.argv[2], 'rb').read())\n"
        "asyncio.run(admin.apply(sys.argv[1], 'world', plan, observer=told))\n"
    )
    saved = tmp_path / "plan.json"
    saved.write_bytes(encode_shard_plan(plan))
    with closing(sqlite3.connect(tmp_path / "two.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        words = [sys.executable, "-c", program, files.url, str(saved)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as mover:
            waits = mover.stdout.readline()
            mover.send_signal(getattr(signal, ends))
            _, errors = mover.communicate(timeout=20)
    assert f"{tmp_path}/two.db" in waits
    assert ("this process no longer moves slots" if ends == "SIGTERM" else "KeyboardInterrupt") in errors
    assert act("apply", files).is_whole
