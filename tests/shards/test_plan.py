"""Plans of shards: even after other weights, with no move above the bound, and refused where they no longer fit."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Assignment, Topology
from apportion.errors import BadSnapshot, InvalidInput, NoNodes, PlanRefused, StaleEpoch, UnknownOption
from apportion.model import codec
from apportion.model.topology import Node
from apportion.shards.plan import (
    PlannedGroup,
    SetFacts,
    check_plan,
    decode_shard_plan,
    encode_shard_plan,
    groups_to_move,
    plan_sizes,
    plan_slots,
    plan_weights,
)
from apportion.shards.shard import SlotSize
from apportion.shards.slots import SlotTable, partitions
from apportion.tables.layout import Version

VERSION = Version(incarnation=1, number=7)


def facts(owners, weights, pinned=(), moving=(), sizes=()):
    """A set whose hash slots have these owners; `pinned` are the owners of the slots of keys, from 9000 on."""
    topology = Topology([Node(shard, weight=weight) for shard, weight in weights.items()])
    keys = {b"key %d" % number: 9000 + number for number in range(len(pinned))}
    rows = tuple((topology.index(owner),) for owner in (*owners, *pinned))
    assignment = Assignment(topology=topology, rows=rows, names=partitions(len(owners), keys))
    return SetFacts(name="world", version=VERSION, assignment=assignment, sizes=dict(sizes), moving=dict(moving))


def owners_after(found, plan):
    owners = dict(found.table.owners)
    for group in plan.groups:
        for slot in group.slots:
            assert owners[slot] == group.source
            owners[slot] = group.target
    return owners


def sizes_of(owners, bytes_of):
    """Return facts' sizes: each slot has so many bytes on its owner, and a row for each ten."""
    found = {}
    for slot, owner in enumerate(owners):
        found.setdefault(owner, {})[slot] = SlotSize(rows=bytes_of(slot) // 10, bytes=bytes_of(slot))
    return found


@pytest.mark.parametrize("measure", ["rows", "bytes"])
def test_a_plan_by_size_brings_each_shard_near_its_share_and_moves_few_bytes(measure):
    owners = ["one"] * 32 + ["two"] * 32
    found = facts(owners, {"one": 1, "two": 1}, sizes=sizes_of(owners, lambda slot: 3_000 if slot < 32 else 1_000))
    plan = plan_sizes(found, {}, measure, 0.1)
    unit = 10 if measure == "rows" else 1
    assert (measure, 25_600 // unit) == (plan.measure, plan.least)
    assert plan.least <= {"rows": plan.rows, "bytes": plan.bytes}[measure] <= 1.1 * plan.least
    assert {("one", "two")} == {(each.source, each.target) for each in plan.groups}
    assert plan.summary.startswith(f"balancing {measure} within 10% moves 9 of 64 slots")
    assert plan.summary.endswith(f"at least {plan.least} {measure} must move")
    assert plan == decode_shard_plan(encode_shard_plan(plan))
    assert 0.5 == found.skew(measure)
    assert 0 == found.skew("slots")


def test_a_plan_by_size_names_a_slot_that_no_balance_hides():
    owners = ["one", "two", "three", "one"]
    found = facts(
        owners,
        dict.fromkeys(("one", "two", "three"), 1),
        sizes=sizes_of(owners, lambda slot: [700, 100, 100, 100][slot]),
    )
    plan = plan_sizes(found, {}, "bytes", 0.1)
    assert "with 70% of them in slot 0 alone" in plan.summary
    assert 0 not in [slot for each in plan.groups for slot in each.slots]


def test_a_plan_by_size_drains_a_shard_and_fills_one_that_was_added():
    owners = ["one"] * 32 + ["two"] * 32
    weights = {"one": 1, "two": 1, "three": 0}
    found = facts(owners, weights, pinned=["two"], sizes=sizes_of(owners, lambda slot: 100 + slot))
    after = owners_after(found, plan_sizes(found, {"two": 0, "three": 1}, "bytes", 0.1))
    assert {"one", "three"} == set(after.values())
    assert 0 == plan_sizes(facts(owners, weights), {}, "bytes", 0.1).moved


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_plan_moves_more_than_its_bound_and_every_shard_gets_its_share(data):
    ids = ["one", "two", "three", "four"][: data.draw(st.integers(1, 4))]
    hashed = data.draw(st.lists(st.sampled_from(ids), min_size=64, max_size=64))
    pinned = data.draw(st.lists(st.sampled_from(ids), max_size=4))
    found = facts(hashed, dict.fromkeys(ids, 1), pinned)
    weights = {shard: data.draw(st.sampled_from([0, 0.5, 1, 3])) for shard in ids}
    weights[data.draw(st.sampled_from(ids))] = 1
    plan = plan_weights(found, weights)
    after = owners_after(found, plan)
    assert plan.moved == plan.least == sum(after[slot] != owner for slot, owner in found.table.owners.items())
    loads = Counter(after[slot] for slot in range(64))
    for shard, weight in weights.items():
        share = 64 * weight / sum(weights.values())
        assert share - 1 < loads[shard] < share + 1
    assert all(weights[after[slot]] for slot in after)


def test_a_plan_says_rows_and_bytes_of_each_pair_in_groups_that_one_transaction_fences():
    sizes = {"one": {slot: SlotSize(rows=slot % 3, bytes=100) for slot in range(2048)}}
    plan = plan_weights(facts(["one"] * 2048, {"one": 1, "two": 0}, sizes=sizes), {"two": 1})
    assert [256] * 4 == [len(each.slots) for each in plan.groups]
    assert {("one", "two")} == {(each.source, each.target) for each in plan.groups}
    assert [sum(slot % 3 for slot in each.slots) for each in plan.groups] == [each.rows for each in plan.groups]
    assert 102_400 == sum(each.bytes for each in plan.groups)
    assert f"moves 1024 of 2048 slots (50.00%), {plan.rows} rows; the minimum" in plan.summary


def test_a_pinned_slot_stays_until_its_shard_is_drained():
    found = facts(["one"] * 32 + ["two"] * 32, {"one": 1, "two": 1, "three": 0}, ["one", "one"])
    grown = owners_after(found, plan_weights(found, {"three": 1}))
    assert ["one", "one"] == [grown[9000], grown[9001]]
    drained = owners_after(found, plan_weights(found, {"three": 1, "one": 0}))
    assert {"two", "three"} == {drained[9000], drained[9001]}


def test_named_slots_go_to_a_shard_and_those_that_are_there_stay():
    found = facts(["one"] * 4 + ["two"] * 4, {"one": 1, "two": 1}, ["one"])
    plan = plan_slots(found, [3, 4, 9000], "two")
    assert [("one", "two", (3, 9000))] == [(each.source, each.target, each.slots) for each in plan.groups]
    assert 2 == plan.least


def test_an_even_set_has_nothing_to_move():
    plan = plan_weights(facts(["one", "two"] * 4, {"one": 1, "two": 1}), {})
    assert () == plan.groups
    assert "balancing moves no slot" == plan.summary


def test_slots_that_another_move_has_are_refused():
    found = facts(["one"] * 8, {"one": 1, "two": 0}, moving={0: "a1-000"})
    with pytest.raises(PlanRefused, match=r"1 of its slots belong to 1 earlier moves, such as a1-000"):
        plan_slots(found, [0, 1], "two")
    plan, table = plan_slots(found, [1, 2], "two"), found.table
    check_plan(plan, "world", table, {1: plan.moves[0].move, 2: plan.moves[0].move}, set())
    with pytest.raises(PlanRefused, match="such as zz"):
        check_plan(plan, "world", table, {2: "zz"}, set())
    with pytest.raises(InvalidInput, match="a plan for set moon"):
        check_plan(plan, "moon", table, {}, set())


def version(number, incarnation=1):
    return Version(incarnation=incarnation, number=number)


def test_a_plan_is_carried_out_from_its_own_version_and_after_its_own_switches_alone():
    before = facts(["one"] * 512, {"one": 1, "two": 0}, ["one"])
    half = facts(["two"] * 256 + ["one"] * 256, {"one": 1, "two": 0}, ["one"])
    pinned = facts(["two"] * 256 + ["one"] * 256, {"one": 1, "two": 0}, ["one"] * 3)
    unpinned = facts(["two"] * 256 + ["one"] * 256, {"one": 1, "two": 0})
    plan = plan_slots(before, range(512), "two")

    def check(found, number, begun=()):
        check_plan(plan, "world", replace(found.table, version=number), {}, {*begun})

    for found, number in ((before, 7), (half, 8), (pinned, 10), (unpinned, 9)):
        check(found, version(number))
        for other in (version(number - 1), version(number + 1), version(number, incarnation=2)):
            check(found, other, [plan.moves[1].move])
            with pytest.raises(StaleEpoch, match=f"made from epoch 1:7, but the current epoch is {other}") as refused:
                check(found, other, ["zz"])
            assert "apportion shards plan URL SET" in refused.value.hint


def test_a_plan_that_is_applied_again_goes_on_with_the_groups_that_are_left():
    found = facts(["one"] * 512, {"one": 1, "two": 0})
    plan = plan_slots(found, range(512), "two")
    first, second = plan.moves
    assert plan.moves == groups_to_move(plan, found.table)
    half = facts(["two"] * 256 + ["one"] * 256, {"one": 1, "two": 0})
    assert (second,) == groups_to_move(plan, half.table)
    assert first.move != second.move
    torn = facts(["two"] * 10 + ["one"] * 502, {"one": 1, "two": 0})
    with pytest.raises(PlanRefused, match="lie at both"):
        groups_to_move(plan, torn.table)


def test_wrong_aims_are_refused():
    found = facts(["one"] * 8, {"one": 1, "two": 0})
    with pytest.raises(UnknownOption, match="three"):
        plan_weights(found, {"three": 1})
    with pytest.raises(UnknownOption, match="three"):
        plan_slots(found, [1], "three")
    with pytest.raises(NoNodes):
        plan_weights(found, {"one": 0})
    with pytest.raises(InvalidInput, match="slot is 8, expected a slot of the set"):
        plan_slots(found, [8], "two")


def test_a_plan_is_read_as_it_was_written_and_its_id_tells_its_content():
    plan = plan_weights(facts(["one"] * 1024, {"one": 1, "two": 0}, ["one"]), {"two": 2})
    again = decode_shard_plan(encode_shard_plan(plan))
    assert plan == again
    assert plan.id == again.id
    assert plan.id != replace(plan, weights={**plan.weights, "two": 3.0}).id


GROUPS = '[["one","two",[[0,3]],4,5]]'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"set":"world"', '"set":"a/b"'),
        ('"least":4', '"least":"4"'),
        ('"measure":"slots"', '"measure":"keys"'),
        ('"measure":"slots"', '"measure":["slots"]'),
        ("[0,3]", "[3,0]"),
        ("[0,3]", "[-1,3]"),
        ("[0,3]", "[0,99999]"),
        ("[0,3]", "[0,300]"),
        ("[[0,3]]", "[[0,3],[2,5]]"),
        ('"two",[', '"one",['),
        ('"two",[', '"three",['),
        ('"two",[', "7,["),
        ('"two":0.0', '"two":-1'),
        ('"two":0.0', '"two":null'),
        (",4,5]", ",4]"),
        ('"words":"', '"words":"\\u0007'),
        ('"set"', '"sets"'),
    ],
)
def test_a_file_that_another_hand_wrote_is_refused(old, new):
    sizes = {"one": {0: SlotSize(rows=4, bytes=5)}}
    plan = plan_slots(facts(["one"] * 8, {"one": 1, "two": 0}, sizes=sizes), range(4), "two")
    body = codec.body_in(encode_shard_plan(plan), "shardplan").decode()
    assert old in body
    with pytest.raises(BadSnapshot):
        decode_shard_plan(codec.wrapped("shardplan", body.replace(old, new).encode()))
    with pytest.raises(BadSnapshot):
        decode_shard_plan(encode_shard_plan(plan).replace(b"world", b"worle"))


@pytest.mark.parametrize("slots", [(), tuple(range(257)), (2, 1), (1, 1)])
def test_a_group_is_small_and_in_order(slots):
    with pytest.raises(InvalidInput):
        PlannedGroup(source="one", target="two", slots=slots)


def test_a_table_that_names_the_slots_is_the_one_of_the_facts():
    found = facts(["one"] * 8, {"one": 1}, ["one"])
    assert isinstance(found.table, SlotTable)
    assert {b"key 0": 9000} == dict(found.table.pinned)
