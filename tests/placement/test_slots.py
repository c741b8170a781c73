"""A key's slot never changes; owners change only where the assignment does."""

from subprocess import run
from sys import executable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Assignment, Node, Ring, Slots, Table, Topology, balance, decode, encode, plan
from apportion.errors import CannotPlace, InvalidInput, NotEnoughNodes
from apportion.placement.hashers import get
from apportion.placement.slots import default_slots
from tests import invariants, worlds

KEYS = [f"tenant-{number}" for number in range(1000)]
ABC = Topology(["a", "b", "c"])


@given(st.integers(1, 3000), worlds.keys)
def test_a_slot_is_the_leading_part_of_the_hash(count, key):
    slots = Slots(Assignment(topology=ABC, rows=tuple((number % 3,) for number in range(count))))
    hashed = slots.explain(key).hash
    assert hashed * count >> 64 == slots.slot(key)
    assert "abc"[slots.slot(key) % 3] == slots.route(key)


def test_the_slot_of_a_key_does_not_depend_on_the_nodes():
    before = Slots(balance.slots(ABC))
    after = Slots(balance.slots(ABC.add("d").without("a"), previous=before.assignment))
    assert [before.slot(key) for key in KEYS] == [after.slot(key) for key in KEYS]


def test_a_narrow_hash_fills_all_slots():
    slots = Slots(Assignment(topology=ABC, rows=((0,), (1,), (2,), (0,))), hasher="crc16")
    assert {0, 1, 2, 3} == {slots.slot(key) for key in KEYS}
    assert [get("crc16")(key.encode()) * 4 >> 16 for key in KEYS] == [slots.slot(key) for key in KEYS]


@given(worlds.owning_topologies, worlds.owning_topologies, st.integers(1, 50))
def test_a_plan_from_slots_to_slots_moves_as_little_as_shares_allow(old, new, count):
    before = Slots(balance.slots(old, count=count))
    after = Slots(balance.slots(new, previous=before.assignment))
    change = plan(before, after)
    assert change.lower_bound_ratio == change.moved_ratio
    invariants.plan_is_exact(change, before.table(), after.table())


def test_on_drops_the_owners_that_left_or_drain():
    slots = Slots(Assignment(topology=ABC, rows=((0, 1), (1, 2), (2, 0))))
    assert (("b",), ("b", "c"), ("c",)) == tuple(slots.on(ABC.without("a")).assignment.preference_lists.values())
    assert (("b",), ("b", "c"), ("c",)) == tuple(slots.on(ABC.drain("a")).assignment.preference_lists.values())
    assert slots.assignment.rows == slots.on(ABC.add("z")).assignment.rows


def test_on_keeps_every_slot_where_it_is_when_nodes_come():
    slots = Slots(balance.slots(ABC))
    assert slots.route_many(KEYS) == slots.on(ABC.add("aa")).route_many(KEYS)


def test_on_refuses_a_topology_on_which_a_slot_has_nobody():
    slots = Slots(Assignment(topology=ABC, rows=((0,), (1,), (0,))))
    with pytest.raises(CannotPlace, match="slot 0 and 1 more would have no owner") as caught:
        slots.on(ABC.without("a"))
    assert "balance.slots(topology, previous=slots.assignment)" in caught.value.hint


def test_a_table_of_slots_says_so_and_makes_the_slots_again():
    slots = Slots(balance.slots(ABC, count=64))
    assert 64 == slots.table().slots
    assert slots == Slots.of_table(slots.table())
    assert slots == Slots.of_table(decode(encode(slots.table()), Table))


def test_a_table_of_replicas_makes_the_assignment_again():
    slots = Slots(Assignment(topology=ABC, rows=((0, 1), (1, 2), (2, 0), (0, 1))))
    assert slots == Slots.of_table(slots.table(2))


def test_a_table_not_made_of_slots_or_by_another_hasher_is_refused():
    with pytest.raises(InvalidInput, match="made of slots with xxh3-64"):
        Slots.of_table(Ring(ABC).table())
    with pytest.raises(InvalidInput, match="made of slots with md5"):
        Slots.of_table(Slots(balance.slots(ABC, count=8)).table(), hasher="md5")


def test_more_replicas_than_a_slot_has_owners_are_refused_by_the_slot():
    slots = Slots(Assignment(topology=ABC, rows=((0, 1), (1,), (2, 0))))
    with pytest.raises(NotEnoughNodes, match="slot 1"):
        slots.table(2)


def test_a_partition_that_nobody_owns_cannot_be_a_slot():
    with pytest.raises(NotEnoughNodes, match="slot 1"):
        Slots(Assignment(topology=ABC, rows=((0,), ())))


@pytest.mark.parametrize("nodes", [None, 3, "ab", {"0": ("a",)}, Ring(ABC)], ids=repr)
def test_an_assignment_or_nodes_are_wanted(nodes):
    with pytest.raises(InvalidInput, match=r"(nodes|node id|weight of node '0') is "):
        Slots(nodes)


def test_slots_are_equal_when_assignment_and_hasher_are():
    assignment = balance.slots(ABC, count=8)
    assert Slots(assignment) == Slots(balance.slots(ABC, count=8))
    assert Slots(assignment) != Slots(assignment, hasher="md5")
    assert Slots(assignment) != Slots(balance.slots(ABC, count=16))


@pytest.mark.parametrize(("nodes", "slots"), [(1, 4096), (128, 4096), (129, 8192), (256, 8192), (100_000, 2**22)])
def test_the_default_is_a_power_of_two_of_at_least_32_slots_a_node(nodes, slots):
    assert slots == default_slots(nodes)


def test_a_drained_owner_loses_its_slots_only_through_the_balancer_or_on():
    drained = Topology([Node("a", weight=0), "b"])
    assignment = Assignment(topology=drained, rows=((0, 1), (1,)))
    assert ("b", "b") == tuple(
        owners[0] for owners in Slots(assignment).on(drained).assignment.preference_lists.values()
    )


@pytest.mark.parametrize("nodes", [["a", "b"], {"a": 1, "b": 9}, Topology(["a", "b"]), map(str, range(3))])
def test_slots_of_bare_nodes_start_with_the_even_assignment_of_their_topology(nodes):
    slots = Slots(nodes)
    assert Slots(balance.slots(slots.topology)) == slots


def test_slots_of_weighted_nodes_follow_the_weights():
    assert {"a": 410, "b": 3686} == Slots({"a": 1, "b": 9}).assignment.loads


def test_slots_of_bare_nodes_need_no_import_of_the_room_that_assigns():
    code = "from apportion.placement.slots import Slots; print(Slots(['a', 'b']).route('k'))"
    assert (
        Slots(["a", "b"]).route("k")
        == run([executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    )
