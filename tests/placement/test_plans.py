"""A plan counts what moves exactly, agrees with counting over keys, and is applied to its own table or not at all."""

from random import Random

import pytest

from apportion import (
    Jump,
    KeyRange,
    Modulo,
    Node,
    Rendezvous,
    Ring,
    Slots,
    Topology,
    apply,
    balance,
    handover,
    plan,
)
from apportion.errors import InvalidInput, InvariantBroken, PlanRefused, StaleEpoch
from apportion.model import Change
from tests import invariants, worlds
from tests.worlds import table_of

NODES = Topology(Node(name, zone=(zone,)) for name, zone in zip("abcdef", "xxyyzz", strict=True))
KEYS = worlds.keys_of(Random(7), 20_000)
CHANGES = {
    "add": lambda topology: topology.add(Node("g", zone=("y",))),
    "without": lambda topology: topology.without("c"),
    "drain": lambda topology: topology.drain("c"),
    "heavier": lambda topology: topology.reweight("a", 2),
    "lighter": lambda topology: topology.reweight("a", 0.5),
    "add two": lambda topology: topology.add("g", "h"),
    "replace": lambda topology: topology.without("b").add("g"),
    "all at once": lambda topology: topology.without("b").add("g").reweight("a", 2).drain("f"),
}
EACH_CHANGE = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)


def ring_and_next(change):
    ring = Ring(NODES)
    return ring, ring.on(change(NODES))


def slots_and_next(change):
    slots = Slots(balance.slots(NODES))
    return slots, Slots(balance.slots(change(NODES), previous=slots.assignment))


EACH_TABLE = pytest.mark.parametrize("pair", [ring_and_next, slots_and_next], ids=["ring", "slots"])


@EACH_CHANGE
@EACH_TABLE
def test_an_exact_plan_agrees_with_one_counted_over_random_keys(pair, change):
    old, new = pair(change)
    exact, counted = plan(old, new), plan(old, new, KEYS)
    error = 4 * (exact.moved_ratio * (1 - exact.moved_ratio) / len(KEYS)) ** 0.5
    assert (True, False) == (exact.exact, counted.exact)
    assert abs(exact.moved_ratio - counted.moved_ratio) <= error
    for node_id, node in exact.per_node.items():
        assert abs(node.after_ratio - counted.per_node[node_id].after_ratio) <= 0.015


@EACH_CHANGE
@EACH_TABLE
def test_nothing_strays_however_much_changes_at_once(pair, change):
    invariants.nothing_strays(plan(*pair(change)))


@EACH_CHANGE
def test_slots_move_the_lower_bound_however_much_changes_at_once(change):
    moved = plan(*slots_and_next(change))
    assert moved.lower_bound_ratio == moved.moved_ratio > 0


@pytest.mark.parametrize("name", ["add", "without", "drain", "heavier", "lighter", "add two"])
def test_a_ring_moves_the_lower_bound_when_shares_change_in_one_direction(name):
    moved = plan(*ring_and_next(CHANGES[name]))
    assert moved.lower_bound_ratio == moved.moved_ratio > 0


def test_a_ring_moves_more_than_the_lower_bound_when_one_node_replaces_another():
    moved = plan(*ring_and_next(CHANGES["replace"]))
    assert moved.lower_bound_ratio < moved.moved_ratio


@EACH_CHANGE
@EACH_TABLE
def test_a_plan_leads_to_exactly_the_new_table(pair, change):
    old, new = pair(change)
    assert new.table() == apply(plan(old, new), old.table())
    assert new.table().epoch == apply(plan(old, new), old.table()).epoch


@pytest.mark.parametrize("name", ["add", "without", "drain", "heavier", "lighter"])
def test_with_three_replicas_a_single_change_moves_only_with_cause(name):
    old, new = ring_and_next(CHANGES[name])
    change = plan(old, new, replicas=3)
    invariants.nothing_strays(change)
    invariants.plan_is_exact(change, old.table(3), new.table(3))
    assert change.leader_moved_ratio == plan(old, new).moved_ratio


def test_with_three_replicas_no_row_ever_has_two_of_a_zone():
    old, new = ring_and_next(CHANGES["add"])
    for each in plan(old, new, replicas=3).changes:
        invariants.lists_keep_zones_apart(new.topology, each.after)


@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_are_counted_over_keys_too(replicas):
    old, new = ring_and_next(CHANGES["add"])
    exact, counted = plan(old, new, replicas=replicas), plan(old, new, KEYS[:5000], replicas=replicas)
    assert abs(exact.moved_ratio - counted.moved_ratio) < 0.02
    assert replicas * 5000 == sum(counted.widths_after.values())


def test_a_function_is_counted_over_the_keys_that_are_passed():
    old = Rendezvous(NODES)
    change = plan(old, old.on(NODES.add("g")), KEYS)
    assert len(KEYS) == change.span
    assert {"g"} == {move.target for move in change.moves}
    assert sorted(move.item for move in change.moves) == sorted(
        key for key in KEYS if old.route(key) != old.on(NODES.add("g")).route(key)
    )
    assert abs(change.moved_ratio - 1 / 7) < 0.01


def test_a_key_counts_as_often_as_it_is_passed():
    ring = Ring(["a", "b"])
    bigger = ring.on(ring.topology.add("c"))
    moving = next(key for key in KEYS if bigger.route(key) == "c")
    staying = next(key for key in KEYS if bigger.route(key) != "c")
    assert 0.75 == plan(ring, bigger, [moving, moving, moving, staying]).moved_ratio


def test_keys_may_come_from_a_generator_and_be_of_any_kind():
    ring = Ring(["a", "b"])
    assert 4 == plan(ring, ring, (key for key in ["k", b"k", 5, "l"])).span


@pytest.mark.parametrize("kind", [Rendezvous, Jump, Modulo])
def test_a_function_without_keys_is_refused(kind):
    placement = kind(["a", "b"])
    with pytest.raises(InvalidInput, match=f"because {kind.__name__} has no table"):
        plan(placement, placement)
    with pytest.raises(InvalidInput, match=f"because {kind.__name__} has no table"):
        plan(Ring(["a"]), placement)


@pytest.mark.parametrize("keys", [[], (), "tenant-1", b"tenant-1"])
def test_no_keys_and_a_bare_string_are_refused(keys):
    ring = Ring(["a", "b"])
    with pytest.raises(InvalidInput, match="keys is"):
        plan(ring, ring, keys)


def test_a_table_cannot_be_counted_over_keys():
    ring = Ring(["a", "b"])
    with pytest.raises(InvalidInput, match="a table cannot hash them"):
        plan(ring.table(), ring, ["k"])


def test_tables_and_placements_may_be_mixed():
    old, new = ring_and_next(CHANGES["add"])
    assert plan(old, new) == plan(old.table(), new) == plan(old, new.table()) == plan(old.table(), new.table())


def test_placements_of_two_clusters_are_not_compared():
    with pytest.raises(InvalidInput, match="cluster is 'payments', expected 'orders'"):
        plan(Ring(Topology(["a"], cluster="orders")), Ring(Topology(["a"], cluster="payments")))


def test_placements_of_two_hashers_are_compared_over_keys_only():
    one, other = Ring(["a", "b"]), Ring(["a", "b"], hasher="md5")
    with pytest.raises(InvalidInput, match="hasher is 'md5', expected 'xxh3-64'"):
        plan(one, other)
    assert 0.3 < plan(one, other, KEYS).moved_ratio < 0.7


@pytest.mark.slow
def test_a_plan_from_a_ring_to_slots_is_exact_and_can_be_applied():
    ring, slots = Ring(NODES), Slots(balance.slots(NODES))
    for old, new in ((ring, slots), (slots, ring)):
        invariants.plan_is_exact(plan(old, new), old.table(), new.table())


def test_a_plan_from_some_slots_to_more_can_be_applied():
    few, more = (Slots(balance.slots(NODES, count=count)) for count in (64, 256))
    invariants.plan_is_exact(plan(few, more), few.table(), more.table())


def test_nothing_moves_from_a_placement_to_itself():
    ring = Ring(NODES)
    change = plan(ring, ring)
    assert ((), 0.0, False) == (change.moves, change.moved_ratio, change.is_pending)
    assert ring.table() == apply(change, ring.table())


def test_a_topology_under_which_nothing_moves_is_still_pending():
    slots = Slots(balance.slots(NODES))
    change = plan(slots, slots.on(NODES.add("g")))
    assert (0.0, True) == (change.moved_ratio, change.is_pending)
    assert NODES.add("g") == apply(change, slots.table()).topology


def test_a_plan_is_refused_by_a_table_of_another_number():
    old, new = ring_and_next(CHANGES["add"])
    later = Ring(Topology(NODES, number=9)).table()
    assert old.table() == later
    with pytest.raises(StaleEpoch, match=r"made from epoch 1:\w+, but the current epoch is 9:\w+") as caught:
        apply(plan(old, new), later)
    assert (True, old.table().epoch, later.epoch) == (
        caught.value.retryable, caught.value.seen, caught.value.current,
    )  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        Ring(NODES, vnodes=149),
        Ring(NODES.without("f").add(Node("f", zone=("w",)))),
        Ring(Topology(NODES, cluster="x")),
        Slots(balance.slots(NODES)),
    ],
    ids=["boundaries", "a zone", "cluster", "slots"],
)
def test_a_plan_is_refused_by_a_table_of_other_content(other):
    old, new = ring_and_next(CHANGES["add"])
    with pytest.raises(StaleEpoch):
        apply(plan(old, new), other.table())


def test_a_plan_applies_once():
    old, new = ring_and_next(CHANGES["add"])
    change = plan(old, new)
    with pytest.raises(StaleEpoch):
        apply(change, apply(change, old.table()))


def test_a_counted_plan_is_refused():
    old, new = ring_and_next(CHANGES["add"])
    with pytest.raises(PlanRefused, match="counted over keys"):
        apply(plan(old, new, KEYS[:10]), old.table())


def test_a_plan_that_does_not_lead_where_it_says_makes_nothing():
    old, new = ring_and_next(CHANGES["add"])
    change = plan(old, new)
    lacking = type(change)(
        **{name: getattr(change, name) for name in vars_of(change)} | {"changes": change.changes[1:]}
    )
    with pytest.raises(InvariantBroken, match="the plan leads to"):
        apply(lacking, old.table())


def vars_of(change):
    return type(change).__dataclass_fields__


def test_lost_and_gained_owners_pair_in_the_same_zone_first_then_by_id():
    before = table_of([(0, ("a", "c", "e"))], NODES)
    after = table_of([(0, ("d", "b", "f"))], NODES)
    assert [("a", "b"), ("c", "d"), ("e", "f")] == [(move.source, move.target) for move in plan(before, after).moves]
    before = table_of([(0, ("a", "b"))], NODES)
    after = table_of([(0, ("e", "c"))], NODES)
    assert [("a", "c"), ("b", "e")] == [(move.source, move.target) for move in plan(before, after).moves]


def test_a_plan_over_tables_given_by_hand_is_exact():
    before = table_of([(0, ("a",)), (2**62, ("b",)), (3 * 2**62, ("a",))], NODES)
    after = table_of([(0, ("a",)), (2**61, ("b",)), (3 * 2**62, ("c",))], NODES)
    change = plan(before, after)
    assert (
        Change(KeyRange(2**61, 2**62), ("a",), ("b",)),
        Change(KeyRange(3 * 2**62, 2**64), ("a",), ("c",)),
    ) == change.changes
    assert (0.375, 0.375, 0.375) == (change.moved_ratio, change.lower_bound_ratio, change.stray_ratio)


def test_while_data_moves_both_owners_are_known():
    old, new = ring_and_next(CHANGES["add"])
    for key in KEYS[:200]:
        both = handover(old, new, key, replicas=2)
        assert (new.preference(key, 2), old.preference(key, 2)) == (both.current, both.previous)
        assert both.current == both.both[:2]
        assert {*both.current, *both.previous} == set(both.both)
        assert len(set(both.both)) == len(both.both)


def test_replicas_are_not_asked_of_a_table_which_has_what_it_has():
    table = Ring(["a", "b", "c"]).table(2)
    with pytest.raises(InvalidInput, match="replicas is 2"):
        plan(table, table, replicas=2)
    assert not plan(table, table).is_pending
