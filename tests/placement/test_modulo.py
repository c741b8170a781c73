"""Modulo is the remainder of the hash, and moves nearly every key: that is what it is there to show."""

from apportion import Modulo, Node, Topology, hashers, plan

KEYS = [f"tenant-{number}" for number in range(3000)]
NAMES = ["a", "b", "c", "d"]


def test_the_owner_is_the_remainder_of_the_hash():
    digest = hashers.get("xxh3-64")
    assert [NAMES[digest(key.encode()) % 4] for key in KEYS] == Modulo(NAMES).route_many(KEYS)


def test_a_draining_node_is_not_counted():
    topology = Topology(["a", Node("b", weight=0), "c"])
    assert Modulo(["a", "c"]).route_many(KEYS) == Modulo(topology).route_many(KEYS)


def test_one_more_node_moves_all_but_one_in_n_plus_1_of_the_keys():
    modulo = Modulo(NAMES)
    change = plan(modulo, modulo.on(modulo.topology.add("e")), KEYS)
    assert abs(change.moved_ratio - 4 / 5) < 0.03
    assert change.stray_ratio > 0.5


def test_an_explanation_says_where_the_key_goes_with_one_node_less():
    modulo = Modulo(NAMES)
    for key in KEYS[:20]:
        explained = modulo.explain(key)
        rest = Modulo([name for name in NAMES if name != explained.owner])
        assert rest.route(key) == explained.if_owner_left
        assert f"hash % 4 = {NAMES.index(explained.owner)}" in explained.why


def test_a_single_node_has_nobody_to_follow_it():
    assert None is Modulo(["a"]).explain("k").if_owner_left


def test_of_two_nodes_the_other_one_is_left():
    explained = Modulo(["a", "b"]).explain("k")
    assert {"a", "b"} == {explained.owner, explained.if_owner_left}
