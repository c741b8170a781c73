"""`apportion shards`: moves are planned and made, rows are compared, and each mistake is told."""

import json
import sqlite3
from contextlib import closing

import pytest

from apportion.shards.plan import decode_shard_plan
from tests.console.running import run
from tests.console.test_shards import MODELS, SHARDS, URL, told


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop_models.py").write_text(MODELS)
    return tmp_path


def made(folder):
    """Make a set of two shards, with a row for each of some countries."""
    (folder / "shop_models.py").write_text(MODELS)
    told("init", URL, "world", *SHARDS, "--models", "shop_models:Base", "--slots", "64", folder=folder)
    for each in told("route", URL, "world", *COUNTRIES, folder=folder)["routes"]:
        with closing(sqlite3.connect(folder / f"{each['shard']}.db")) as connection, connection:
            row = (COUNTRIES.index(each["key"]), each["slot"], each["key"])
            connection.execute("INSERT INTO place (id, slot, country) VALUES (?, ?, ?)", row)
    return folder


def count(folder, shard):
    with closing(sqlite3.connect(folder / f"{shard}.db")) as connection:
        return connection.execute("SELECT count(*) FROM place").fetchone()[0]


@pytest.fixture
def world(tmp_path):
    return made(tmp_path)


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    return made(tmp_path_factory.mktemp("set"))


COUNTRIES = ("FR", "DE", "US", "IT", "ES", "PT")


def test_a_plan_says_what_moves_and_is_saved(world):
    words = ("plan", URL, "world", "--weight", "two=3")
    done = run("shards", *words, "-o", "plan.json", "--json", folder=world)
    plan = json.loads(done.stdout)
    assert (2, True, 16, 16) == (done.returncode, plan["pending"], plan["moved"], plan["least_moves"])
    assert [("one", "two", 16)] == [(each["source"], each["target"], each["slots"]) for each in plan["moves"]]
    assert plan["rows"] == sum(each["rows"] for each in plan["moves"]) <= len(COUNTRIES)
    saved = decode_shard_plan((world / "plan.json").read_bytes())
    assert (plan["id"], "world", {"one": 1.0, "two": 3.0}) == (saved.id, saved.name, dict(saved.weights))
    shown = run("shards", *words, folder=world).stdout.decode()
    assert "weighing two to 3 moves 16 of 64 slots (25.00%)" in shown
    assert "one -> two" in shown


def test_a_plan_of_named_slots_counts_their_rows(world):
    done = run("shards", "plan", URL, "world", "--move", "0-63", "--to", "two", "--json", folder=world)
    plan = json.loads(done.stdout)
    assert (2, 32, count(world, "one")) == (done.returncode, plan["moved"], plan["rows"])
    done = run("shards", "plan", URL, "world", "--weight", "two=1", folder=world)
    assert (0, "shards plan: balancing moves no slot") == (done.returncode, done.stdout.decode().strip())


def test_a_plan_by_rows_counts_rows(world):
    done = run("shards", "plan", URL, "world", "--by", "rows", "--tolerance", "0.5", "--json", folder=world)
    plan = json.loads(done.stdout)
    assert plan["least_moves"] <= plan["rows"] <= len(COUNTRIES)
    done = run("shards", "plan", URL, "world", "--by", "rows", "--move", "3", "--to", "two", folder=world)
    assert (1, True) == (done.returncode, b"without --weight, --drain and --by" in done.stderr)
    done = run("shards", "plan", URL, "world", "--by", "rows", "--tolerance", "2", folder=world)
    assert (1, True) == (done.returncode, b"tolerance is 2.0" in done.stderr)


def test_a_set_that_is_even_is_not_rebalanced(world):
    done = run("shards", "rebalance", URL, "world", "--if-skewed", "9", "--json", folder=world)
    assert (0, []) == (done.returncode, json.loads(done.stdout)["moves"])


def test_a_plan_replaces_no_file_of_another_kind(world):
    (world / "plan.json").write_text("my notes")
    done = run("shards", "plan", URL, "world", "--weight", "two=3", "-o", "plan.json", folder=world)
    assert (1, "my notes") == (done.returncode, (world / "plan.json").read_text())


def test_every_row_is_compared_and_a_fault_is_an_exit_code(world):
    words = ("verify", URL, "world", "--models", "shop_models:Base")
    sound = told(*words, folder=world)
    assert (True, len(COUNTRIES), 0) == (sound["sound"], sound["rows"], sound["faulty"])
    for shard in ("one", "two"):
        with closing(sqlite3.connect(world / f"{shard}.db")) as connection, connection:
            connection.execute("DROP TRIGGER apportion_place_key")
            connection.execute("UPDATE place SET country = 'nowhere' WHERE country = 'FR'")
    done = run("shards", *words, folder=world)
    assert 1 == done.returncode
    assert "6 rows compared, 1 faults" in done.stdout.decode()


def test_the_url_of_the_store_may_come_from_the_environment_beside_urls_of_shards(folder, monkeypatch):
    monkeypatch.setenv("APPORTION_STORE", URL)
    made = told("init", "world", *SHARDS, "--models", "shop_models:Base", "--slots", "64", folder=folder)
    assert ["one", "two"] == [each["id"] for each in made["shards"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "--weight", "two"), "--weight is 'two', expected ID=VALUE"),
        (("plan", "--weight", "six=1"), "shard is 'six'"),
        (("plan", "--weight", "two=-1"), "weight of node 'two' is -1"),
        (("plan", "--weight", "two=1", "--drain", "two"), "--drain is 'two', expected no --weight"),
        (("plan", "--drain", "one,two"), "slots"),
        (("plan", "--move", "0-5"), "--move is '0-5', expected --move and --to together"),
        (("plan", "--to", "two"), "--to is 'two', expected --move and --to together"),
        (("plan", "--move", "9-5", "--to", "two"), "expected the lower number first"),
        (("plan", "--move", "a", "--to", "two"), "--move is 'a', expected a slot"),
        (("plan", "--move", "64", "--to", "two"), "slot is 64, expected a slot of the set"),
    ],
)
def test_a_mistake_in_a_change_of_a_set_is_told(left_alone, arguments, said):
    name, *rest = arguments
    done = run("shards", name, URL, "world", *rest, folder=left_alone)
    assert 1 == done.returncode
    assert said in done.stderr.decode()


def test_mistakes_have_changed_nothing(left_alone):
    found = told("status", URL, "world", folder=left_alone)
    assert [("one", 32), ("two", 32)] == [(each["id"], each["slots"]) for each in found["shards"]]


def test_a_plan_is_carried_out_and_old_rows_are_deleted(world):
    rows = count(world, "one")
    run("shards", "plan", URL, "world", "--drain", "one", "-o", "plan.json", folder=world)
    made = told("apply", URL, "world", "plan.json", folder=world)
    (move,) = made["moves"]
    assert (True, "one", "two", 32, rows) == (
        made["complete"], move["source"], move["target"], move["slots"], move["copied"]
    )  # fmt: skip
    assert move["pause_ms"] > 0
    status = told("status", URL, "world", folder=world)
    assert [(0, 0.0, rows), (64, 1.0, 6)] == [
        (each["slots"], each["weight"], each["rows"]) for each in status["shards"]
    ]
    assert [("complete", 32)] == [(each["state"], each["slots"]) for each in status["moves"]]
    shown = run("shards", "status", URL, "world", folder=world).stdout.decode()
    assert "one -> two   complete      32" in shown
    kept = run("shards", "clean", URL, "world", folder=world)
    assert "shards clean: world: 0 moves; others ended too recently; see --soak" in kept.stdout.decode()
    assert 1 == len(told("clean", URL, "world", "--soak", "0s", folder=world)["moves"])
    status = told("status", URL, "world", folder=world)
    assert ([0, 6], []) == ([each["rows"] for each in status["shards"]], status["moves"])
    again = run("shards", "apply", URL, "world", "plan.json", folder=world)
    assert (0, "shards apply: world: 0 moves") == (again.returncode, again.stdout.decode().strip())


def test_a_switch_is_undone_and_what_can_be_undone_is_said(world):
    run("shards", "plan", URL, "world", "--drain", "one", "-o", "plan.json", folder=world)
    (move,) = told("apply", URL, "world", "plan.json", "--reversible", folder=world)["moves"]
    shown = run("shards", "status", URL, "world", folder=world).stdout.decode()
    assert f"{move['id']}   one -> two   complete, reversible      32" in shown
    assert "- 1 move can be reversed until shards clean runs: apportion shards reverse URL world MOVE" in shown
    with closing(sqlite3.connect(world / "two.db")) as connection, connection:
        connection.execute("UPDATE place SET id = id + 100")
    (back,) = told("reverse", URL, "world", move["id"], folder=world)["moves"]
    assert ("two", "one", 32, 0) == (back["source"], back["target"], back["slots"], back["copied"])
    assert back["pause_ms"] > 0
    with closing(sqlite3.connect(world / "one.db")) as connection:
        assert min(connection.execute("SELECT min(id) FROM place").fetchone()) >= 100
    status = told("status", URL, "world", folder=world)
    assert ([32, 32], ["back"]) == ([each["slots"] for each in status["shards"]], [m["way"] for m in status["moves"]])
    assert (
        "two -> one   complete, on its way back" in run("shards", "status", URL, "world", folder=world).stdout.decode()
    )
    again = run("shards", "reverse", URL, "world", move["id"], folder=world)
    assert (1, True) == (again.returncode, b"is reversed already: its slots are on one" in again.stderr)
    assert (
        1,
        True,
    ) == (
        (again := run("shards", "apply", URL, "world", "plan.json", folder=world)).returncode,
        b"the move was reversed; run apportion shards clean" in again.stderr,
    )


def test_a_clean_up_says_that_it_ends_the_way_back(world):
    run("shards", "plan", URL, "world", "--drain", "one", "-o", "plan.json", folder=world)
    (move,) = told("apply", URL, "world", "plan.json", "--reversible", folder=world)["moves"]
    cleaned = run("shards", "clean", URL, "world", "--soak", "0s", folder=world).stdout.decode()
    assert "shards clean: world: 1 moves, 1 of them can no longer be reversed" in cleaned
    late = run("shards", "reverse", URL, "world", move["id"], folder=world)
    assert 1 == late.returncode
    assert f"move is '{move['id']}', expected a move that is not cleaned; the set has none" in late.stderr.decode()


@pytest.mark.live
def test_a_mover_that_is_killed_at_a_label_is_followed_by_the_same_command(world, monkeypatch):
    run("shards", "plan", URL, "world", "--weight", "two=3", "-o", "plan.json", folder=world)
    with monkeypatch.context() as drill:
        drill.setenv("APPORTION_SHARDS_STOP_AT", "fence.after")
        killed = run("shards", "apply", URL, "world", "plan.json", folder=world, stdin=b"")
    assert -9 == killed.returncode
    assert ["fenced"] == [each["state"] for each in told("status", URL, "world", folder=world)["moves"]]
    assert told("apply", URL, "world", "plan.json", folder=world)["complete"]


def test_moves_rest_are_taken_back_and_have_labels(left_alone):
    assert 0 == told("pause", URL, "world", folder=left_alone)["moves"]
    assert (True, []) == (
        told("abort", URL, "world", folder=left_alone)["complete"],
        told("abort", URL, "world", folder=left_alone)["moves"],
    )
    labels = json.loads(run("shards", "labels", "--json", folder=left_alone).stdout)["labels"]
    assert {"fence.after", "switch.before", "clean-batch.after"} <= set(labels)
    assert labels == run("shards", "labels", folder=left_alone).stdout.decode().split()


def test_a_file_that_is_no_plan_of_shards_is_refused(left_alone):
    (left_alone / "other.json").write_text('{"apportion":"groupplan",')
    done = run("shards", "apply", URL, "world", "other.json", folder=left_alone)
    assert 1 == done.returncode
    assert "other.json" in done.stderr.decode()
