"""The verifier of the demonstration of shards: each check passes on good traces, and fails on those of its fault."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

pytest.importorskip("sqlalchemy")

from apportion.console.demo.shards.ledger import ShardLedger, ledger_lines
from apportion.console.demo.shards.verify import FoundShard, checks, shard_in
from apportion.console.demo.shards.world import DemoWorld
from apportion.shards.plan import PlannedGroup, ShardPlan
from apportion.tables.layout import Version

PLAN = ShardPlan(
    name="world",
    version=Version(incarnation=1, number=1),
    words="",
    weights={"one": 1, "two": 1, "three": 1},
    groups=(
        PlannedGroup(source="one", target="two", slots=(1,)),
        PlannedGroup(source="one", target="three", slots=(2,)),
    ),
    least=2,
    total=3,
)


def files():
    """Return the files after good moves: slot 0 stayed, 1 and 2 went."""
    return {
        "one": FoundShard(states={0: "owner", 1: "moved", 2: "moved"}, places={10: (0, 5)}),
        "two": FoundShard(states={1: "owner"}, places={11: (1, 2_000)}),
        "three": FoundShard(states={2: "owner"}, places={}),
    }


def write(word, place, slot, value, *, at, shard="one"):
    line = {"word": word, "at": at, "id": place, "slot": slot, "value": value}
    return line | ({"shard": shard} if word == "done" else {})


def good():
    """Return ledgers: place 11 moves after its thousandth write, 12 is deleted, 10 stays."""
    lines = [{"word": "refused", "at": 9.0, "reason": "stale"}] * 2
    lines += [write("done", 10, 0, 5, at=1.0), write("done", 12, 2, 1, at=1.0), write("done", 12, 2, None, at=2.0)]
    for value in range(1, 2_001):
        is_after = value > 1_000
        at, shard = value / 1_000 + 0.1 * is_after, "two" if is_after else "one"
        lines += [write("tries", 11, 1, value, at=at), write("done", 11, 1, value, at=at, shard=shard)]
    return lines


def failed(lines, found=None):
    return {name for name, check in checks(lines, found or files(), PLAN).items() if not check["passed"]}


def test_good_traces_pass():
    assert set() == failed(good())
    values = {name: check["value"] for name, check in checks(good(), files(), PLAN).items()}
    assert (2_003, 2, 101) == (values["acknowledged"], values["refused"], values["pause_ms"])


def test_a_write_without_a_reply_may_show_or_not():
    tried = [*good(), write("tries", 11, 1, 2_001, at=3.0), write("tries", 10, 0, None, at=3.0)]
    assert set() == failed(tried)
    shown = changed("two", places={11: (1, 2_001)}) | {"one": replace(files()["one"], places={})}
    assert set() == failed(tried, shown)


def changed(shard, **fields):
    found = files()
    return found | {shard: replace(found[shard], **fields)}


RETURNED = range(20, 80)


def returned():
    """Return a ledger of places that were written last on shard two, before a way back ended."""
    lines = [write("done", place, 1, 7, at=2.0, shard="two") for place in RETURNED]
    return [*lines, {"word": "reversed", "at": 3.0}]


def cataloged(*gone):
    return [*good(), {"word": "catalogs", "names": {"one": (), "two": (*gone,), "three": ()}}]


def without(word):
    return [line for line in good() if line["word"] != word]


@pytest.mark.parametrize(
    ("check", "lines", "found"),
    [
        ("acknowledged", good()[:2_000], changed("two", places={11: (1, 998)})),
        ("lost", good(), changed("one", places={})),
        ("resurrected", good(), changed("three", places={12: (2, 1)})),
        ("stale", good(), changed("two", places={11: (1, 1_999)})),
        ("stale", good(), changed("two", places={11: (1, 2_001)})),
        ("owned_twice", good(), changed("one", states={0: "owner", 1: "owner", 2: "moved"})),
        ("owned_twice", good(), changed("three", places={10: (2, 5)})),
        ("owned_twice", good(), changed("three", states={2: "moved"})),
        ("refused", without("refused"), files()),
        ("unplanned_moves", good(), changed("one", states={0: "moved", 1: "moved", 2: "moved"})),
        ("left_behind", good(), changed("two", left=["apportion_log"])),
        ("left_behind", good(), changed("one", places={10: (0, 5), 11: (1, 3)})),
        ("pause_ms", [line | {"at": line["at"] + 2 * (line["at"] > 1.05)} for line in good()], files()),
        ("pause_ms", [line for line in good() if line.get("shard") != "two"], files()),
        ("reversed_lost", returned(), changed("two", places={})),
        ("reversed_lost", returned(), changed("two", places=dict.fromkeys(RETURNED, (1, 3)))),
        ("reversed_lost", [*good(), {"word": "reversed", "at": 9.0}], files()),
        ("catalogs_clean", cataloged(), changed("two", catalog=["table forgotten"])),
        ("catalogs_clean", cataloged("trigger gone"), files()),
    ],
)
def test_a_fault_is_found(check, lines, found):
    assert check in failed(lines, found)


def test_good_traces_of_a_way_back_pass():
    names = {"pause_ms", "acknowledged", "refused"}
    assert names == failed(returned(), changed("two", places=dict.fromkeys(RETURNED, (1, 7))))
    assert set() == failed(cataloged())


def test_a_place_that_was_written_after_the_way_back_is_not_lost_by_it():
    lines = [*returned(), write("done", 99, 1, 7, at=4.0, shard="two")]
    found = failed(lines, changed("two", places=dict.fromkeys(RETURNED, (1, 7))))
    assert {"pause_ms", "acknowledged", "refused", "lost"} == found


def test_the_longest_pause_of_several_moves_counts():
    moves = [("one", 1.0), ("two", 1.1), ("two", 2.0), ("one", 3.5), ("one", 4.0), ("two", 4.2)]
    lines = [write("done", 11, 1, 1_000, at=at, shard=shard) for shard, at in moves]
    assert 1_500 == checks(lines, files(), PLAN)["pause_ms"]["value"]


def test_a_ledger_keeps_whole_lines(tmp_path):
    file = tmp_path / "a.ledger"
    ledger = ShardLedger(file)
    ledger.tries({"id": 1})
    ledger.done({"id": 1})
    ledger.refused("refused", ValueError("stale\nand more"))
    with file.open("a") as rest:
        rest.write('{"word": "do')
    assert ["tries", "done", "refused"] == [line["word"] for line in ledger_lines(file)]
    assert "stale" == ledger_lines(file)[-1]["reason"]
    assert json.loads(file.read_text().splitlines()[0])["at"] > 0


@pytest.mark.slow
def test_a_file_is_read_with_all_that_a_move_could_leave(tmp_path):
    world = DemoWorld(tmp_path)
    world.found()
    found = shard_in(world.databases, "one")
    assert (1_024, 69_472, []) == (len(found.states), len(found.places), list(found.left))
    with closing(world.databases.connect("one")) as connection:
        connection.execute("CREATE TABLE apportion_log (id)")
    assert ["apportion_log"] == list(shard_in(world.databases, "one").left)
