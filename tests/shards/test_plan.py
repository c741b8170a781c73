"""Plans of shards: even after other weights, with no move above the bound, and refused where they no longer fit."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Assignment, Topology
from apportion.errors import BadSnapshot, InvalidInput, NoNodes, PlanRefused, UnknownOption
from apportion.model import codec
from apportion.model.topology import Node
from apportion.shards.plan import (
    PlannedGroup,
    SetFacts,
    check_plan,
    decode_shard_plan,
    encode_shard_plan,
    groups_to_move,
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
    plan = plan_slots(found, [1, 2], "two")
    check_plan(plan, "world", {1: plan.moves[0].move, 2: plan.moves[0].move})
    with pytest.raises(PlanRefused, match="such as zz"):
        check_plan(plan, "world", {2: "zz"})
    with pytest.raises(InvalidInput, match="a plan for set moon"):
        check_plan(plan, "moon", {})


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
