"""Bounded loads: no node gets a key above its cap; a key tries its nodes in one order; the order of keys is moot."""

import pickle
from collections import Counter
from fractions import Fraction
from math import ceil
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Assignment, Jump, Modulo, Node, Rendezvous, Ring, Slots, Topology, balance
from apportion.errors import InvalidInput, UnknownNode
from apportion.placement.bounded import Bounded, Loads
from apportion.placement.choose_k import ChooseK
from apportion.placement.maglev import Maglev
from apportion.placement.multiprobe import MultiProbe
from tests import worlds

CHURN_STEPS = 100_000
KEYS = [f"tenant-{number}" for number in range(300)]
headrooms = st.sampled_from([1, 50, 250, 1000, 10**6])
key_sets = st.lists(st.binary(max_size=6), max_size=40, unique=True)


def cap(topology, node, total, headroom):
    """Return the cap of a node in fractions."""
    weights = {each.id: Fraction(each.millionths) for each in topology}
    return ceil((1 + Fraction(headroom, 1000)) * total * weights[node] / sum(weights.values()))


def first_with_room(placement, key, loads, total, headroom):
    """Return the first node of the key's whole ranking that is below its cap."""
    topology = placement.topology
    owning = sum(node.weight > 0 for node in topology)
    for node in placement.preference(key, owning, spread="best-effort"):
        if loads[node] < cap(topology, node, total, headroom):
            return node
    raise AssertionError("no node has room")


@settings(max_examples=50)
@given(worlds.owning_topologies, key_sets, headrooms)
def test_a_set_of_keys_is_assigned_as_the_dumb_twin_assigns_it(topology, keys, headroom):
    placement, loads, expected = Rendezvous(topology), Counter(), {}
    for key in sorted(keys, key=lambda key: (placement.hasher(key), key)):
        expected[key] = first_with_room(placement, key, loads, len(keys), headroom)
        loads[expected[key]] += 1
    assigned = Bounded(placement, headroom_thousandths=headroom).assign(keys)
    assert [expected[key] for key in keys] == list(assigned.owners)
    assert tuple(loads[node_id] for node_id in topology.ids) == assigned.loads.counts
    assert all(assigned.route(key) == node for key, node in expected.items())
    moved = [(key, placement.route(key), expected[key]) for key in keys if placement.route(key) != expected[key]]
    assert moved == [(each.key, each.preferred, each.owner) for each in assigned.displaced]


@settings(max_examples=50)
@given(worlds.owning_topologies, key_sets, headrooms)
def test_no_load_is_above_its_cap_and_the_caps_have_room_for_all(topology, keys, headroom):
    bounded = Bounded(Ring(topology, vnodes=3), headroom_thousandths=headroom)
    caps = [cap(topology, node.id, len(keys), headroom) for node in topology]
    assert caps == list(bounded.caps(len(keys)))
    assert len(keys) <= sum(caps)
    assert all(load <= most for load, most in zip(bounded.assign(keys).loads.counts, caps, strict=True))
    assert {} == bounded.excess(bounded.assign(keys).loads)


@settings(max_examples=50)
@given(key_sets.flatmap(lambda keys: st.tuples(st.just(keys), st.permutations(keys))), headrooms)
def test_the_order_of_the_keys_does_not_matter(orders, headroom):
    bounded = Bounded(Ring(["a", "b", "c"], vnodes=5), headroom_thousandths=headroom)
    one, other = (bounded.assign(keys) for keys in orders)
    assert dict(zip(one.keys, one.owners, strict=True)) == dict(zip(other.keys, other.owners, strict=True))


@settings(max_examples=60)
@given(worlds.owning_topologies, st.lists(st.tuples(st.booleans(), st.binary(max_size=3)), max_size=40), headrooms)
def test_a_key_is_acquired_where_the_dumb_twin_says(topology, steps, headroom):
    placement = Rendezvous(topology)
    bounded, loads, held = Bounded(placement, headroom_thousandths=headroom), Loads.none(topology), []
    for acquires, key in steps:
        counts = dict(zip(topology.ids, loads.counts, strict=True))
        if acquires or not held:
            expected = first_with_room(placement, key, counts, len(held) + 1, headroom)
            node, loads = bounded.acquire(key, loads)
            assert expected == node
            held.append(node)
        else:
            loads = bounded.release(held.pop(0), loads)
        assert Counter(held) == Counter(dict(zip(topology.ids, loads.counts, strict=True)))


def test_no_step_of_a_long_churn_puts_a_node_above_its_cap():
    topology = Topology([Node("a", weight=2), "b", Node("c", weight=0.5), "d"])
    bounded, random = Bounded(Ring(topology, vnodes=20), headroom_thousandths=50), Random(5)
    loads, held, most_held, handed_over = Loads.none(topology), [], 0, 0
    for step in range(CHURN_STEPS):
        grows = step % 20_000 < 10_000  # the fleet fills and empties, five times
        if held and random.random() < (0.45 if grows else 0.55):
            place = random.randrange(len(held))
            held[place], held[-1] = held[-1], held[place]
            _, node = held.pop()
            loads = bounded.release(node, loads)
        else:
            before = loads
            node, loads = bounded.acquire(step, loads)
            held.append((step, node))
            index = topology.index(node)
            assert before.counts[index] < loads.counts[index] <= bounded.caps(len(held))[index]
        most_held = max(most_held, len(held))
        if step % 500 == 0:
            assert all(load <= top for load, top in zip(loads.counts, bounded.caps(most_held), strict=True))
            loads, count = _mended(bounded, loads, held)
            handed_over += count
            assert {} == bounded.excess(loads)
    assert (len(held), most_held > 500, handed_over > 0) == (loads.total, True, True)


def _mended(bounded, loads, held):
    """Release and acquire again what nodes hold too many; return the loads, and how many keys that were."""
    count = 0
    for node, excess in bounded.excess(loads).items():
        for place in [place for place, (_, owner) in enumerate(held) if owner == node][:excess]:
            loads = bounded.release(node, loads)
            target, loads = bounded.acquire(held[place][0], loads)
            held[place] = (held[place][0], target)
            count += 1
    return loads, count


def test_values_are_not_changed():
    bounded, loads = Bounded(Ring(["a", "b"])), Loads.none(Topology(["a", "b"]))
    node, after = bounded.acquire("k", loads)
    assert ((0, 0), 1, loads) == (loads.counts, after.total, bounded.release(node, after))


def test_a_full_owner_falls_back_to_the_next_of_the_ranking_and_to_the_same_each_time():
    bounded = Bounded(Ring(["a", "b", "c", "d"]), headroom_thousandths=1)
    for key in KEYS[:50]:
        ranking = bounded.placement.preference(key, 4)
        loads = Loads(topology=bounded.topology, counts=(10, 10, 10, 10))
        full = loads.changed(ranking[0], 3).changed(ranking[1], 3)
        assert (ranking[0], ranking[2]) == (bounded.acquire(key, loads)[0], bounded.acquire(key, full)[0])


def test_a_cap_near_the_mean_displaces_few_keys_and_a_wide_one_none():
    ring = Ring([f"n{number:02}" for number in range(20)])
    keys = range(4000)
    displaced = [len(Bounded(ring, headroom_thousandths=each).assign(keys).displaced) for each in (10, 50, 250, 1000)]
    assert sorted(displaced, reverse=True) == displaced
    assert 0 == displaced[-1] < displaced[1] < len(keys) / 10


RANKED = [Ring(["a", "b", "c"]), Rendezvous(["a", "b", "c"]), ChooseK(["a", "b", "c"]), MultiProbe(["a", "b", "c"])]
RANKED += [Maglev(["a", "b", "c"], table_size=101)]


@pytest.mark.parametrize("placement", RANKED, ids=lambda each: type(each).__name__)
def test_every_ranking_placement_can_be_bounded(placement):
    bounded = Bounded(placement, headroom_thousandths=1)
    assert (101, 101, 101) == bounded.caps(300)
    assert 101 >= max(bounded.assign(KEYS).loads.counts)
    assert ("d" in bounded.on(placement.topology.add("d")).topology) is True


UNRANKED = [Jump(["a", "b"]), Modulo(["a", "b"]), Slots(balance.slots(Topology(["a", "b"]), count=8))]
UNRANKED += [Slots(Assignment(topology=Topology(["a", "b", "c"]), rows=((0, 1),) * 4)), "ring", None, Topology(["a"])]


@pytest.mark.parametrize("placement", UNRANKED, ids=lambda each: type(each).__name__)
def test_a_placement_that_does_not_rank_all_nodes_is_refused(placement):
    with pytest.raises(InvalidInput, match="placement is"):
        Bounded(placement)


@pytest.mark.parametrize("headroom", [0, -1, 1_000_001, 0.05, float("nan"), float("inf"), True, "50", None])
def test_a_bad_headroom_is_refused(headroom):
    with pytest.raises(InvalidInput, match="headroom_thousandths is"):
        Bounded(Ring(["a"]), headroom_thousandths=headroom)


def test_a_draining_node_gets_no_key():
    bounded = Bounded(Ring(Topology([Node("a", weight=0), "b"])))
    assert ((0, 125), {"b"}) == (bounded.caps(100), set(bounded.assign(KEYS).owners))


def test_loads_follow_a_change_of_topology_and_name_who_holds_too_many():
    bounded = Bounded(Ring(["a", "b", "c"]), headroom_thousandths=100)
    loads = Loads(topology=bounded.topology, counts=(10, 20, 30))
    bigger = bounded.on(bounded.topology.without("a").add("d"))
    assert (("b", "c", "d"), (20, 30, 0)) == (bigger.topology.ids, loads.on(bigger.topology).counts)
    assert {"b": 1, "c": 11} == bigger.excess(loads.on(bigger.topology))  # ceil(1.1 * 50 / 3) = 19
    with pytest.raises(InvalidInput, match=r"loads is .* those of Topology"):
        bigger.acquire("k", loads)


@pytest.mark.parametrize("counts", [(1,), (1, 2, 3), (1, -1), (1, 1.0), (True, 1)])
def test_bad_loads_are_refused(counts):
    with pytest.raises(InvalidInput, match="loads is"):
        Loads(topology=Topology(["a", "b"]), counts=counts)


def test_what_was_never_acquired_is_not_released():
    bounded, loads = Bounded(Ring(["a", "b"])), Loads.none(Topology(["a", "b"]))
    with pytest.raises(InvalidInput, match="a node that holds a key"):
        bounded.release("a", loads)
    with pytest.raises(UnknownNode):
        bounded.release("z", loads)
    with pytest.raises(InvalidInput, match="loads is"):
        bounded.acquire("k", (0, 0))
    with pytest.raises(InvalidInput, match="total of keys is"):
        bounded.caps(-1)


@pytest.mark.parametrize("keys", [["a", "b", "a"], ["a", b"a"], "abc", [None]])
def test_keys_twice_and_what_are_no_keys_are_refused(keys):
    with pytest.raises(InvalidInput, match=r"^keys? is"):
        Bounded(Ring(["a", "b"])).assign(keys)


def test_a_key_that_was_not_assigned_is_refused():
    assigned = Bounded(Ring(["a", "b"])).assign(["x"])
    with pytest.raises(InvalidInput, match="one of the keys that were assigned"):
        assigned.route("y")


def test_values_come_back_from_pickles():
    bounded = Bounded(Ring(["a", "b", "c"]), headroom_thousandths=7)
    values = (bounded, bounded.assign(KEYS), Loads.none(bounded.topology))
    assert values == pickle.loads(pickle.dumps(values))
