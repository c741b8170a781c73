"""Jump hashing gives everybody's numbers, moves keys only to or from the last node, and keeps the order given."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Jump, Node, Topology
from apportion.errors import BadWeight, CannotPlace, InvalidInput
from apportion.placement.jump import bucket

KEYS = [f"tenant-{number}" for number in range(2000)]

# Origin: Guava, HashingTest (consistentHash, linear congruential generator compatibility); go-jump, jump_test.go;
# jump_consistent_hash for Ruby and Elixir, whose tests agree.
PUBLISHED = [
    (10863919174838991, 11, 6),
    (2016238256797177309, 11, 3),
    (1673758223894951030, 11, 5),
    (2, 100001, 80343),
    (2201, 100001, 22152),
    (2202, 100001, 15018),
    (1, 1, 0),
    (42, 57, 43),
    (0xDEAD10CC, 1, 0),
    (0xDEAD10CC, 666, 361),
    (256, 1024, 520),
    (128, 100_000_000, 38172097),
    (2**64 - 1, 128, 92),
]
GUAVA_OF_100 = [0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83]


@pytest.mark.parametrize(("number", "buckets", "expected"), PUBLISHED)
def test_a_bucket_is_that_of_other_implementations(number, buckets, expected):
    assert expected == bucket(number, buckets)


def test_the_first_buckets_of_100_are_those_of_guava():
    assert GUAVA_OF_100 == [bucket(number, 100) for number in range(20)]


def twin(key, buckets):
    """Figure 1 of Lamping and Veach 2014, each of its two roundings to a double done on exact fractions."""
    b, j = -1, 0
    while j < buckets:
        b = j
        key = (key * 2862933555777941757 + 1) % 2**64
        quotient = Fraction(float(Fraction(2**31, (key >> 33) + 1)))
        j = int(float((b + 1) * quotient))
    return b


@pytest.mark.parametrize(
    ("number", "buckets"), [(10694699611962700905, 2**18), (6810253099116715026, 2**20), (1291161085659593728, 2**21)]
)
def test_doubles_round_as_published_where_exact_division_would_give_another_bucket(number, buckets):
    # Found by turning the generator back: the second jump is 49 * (2**31 / (49 * 2**k)), just below a power of two.
    assert buckets - 1 == twin(number, buckets) == bucket(number, buckets)


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**31 - 1))
def test_a_bucket_is_that_of_the_paper(number, buckets):
    assert twin(number, buckets) == bucket(number, buckets)


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**20))
def test_one_more_bucket_moves_a_key_to_it_or_not_at_all(number, buckets):
    assert bucket(number, buckets + 1) in (bucket(number, buckets), buckets)


def test_shares_are_equal():
    counts = [0] * 10
    for number in range(20_000):
        counts[bucket(number * 0x9E3779B97F4A7C15 % 2**64, 10)] += 1
    assert all(abs(count - 2000) < 6 * 2000**0.5 for count in counts), counts


@pytest.mark.parametrize(
    ("number", "buckets"), [(-1, 7), (2**64, 7), (1.0, 7), (True, 7), (5, 0), (5, -1), (5, 2**31), (5, 1.0)]
)
def test_what_is_no_64_bit_number_or_no_count_is_refused_and_named(number, buckets):
    with pytest.raises(InvalidInput, match=f"jump input is {number if buckets == 7 else buckets},"):
        bucket(number, buckets)


def test_the_order_given_is_kept_and_decides():
    assert ("b", "a", "c") == Jump(["b", "a", "c"]).order
    assert Jump(["b", "a"]) != Jump(["a", "b"])
    assert ("a", "b") == Jump(Topology(["b", "a"])).order
    assert ("b", "a") == Jump(node for node in (Node("b"), "a")).order


def test_the_node_of_a_bucket_is_that_in_the_order():
    jump = Jump(["c", "a", "b"])
    assert [("c", "a", "b")[bucket(jump.explain(key).hash, 3)] for key in KEYS] == jump.route_many(KEYS)


@pytest.mark.parametrize("nodes", [{"a", "b"}, frozenset("ab")], ids=["set", "frozenset"])
def test_nodes_without_an_order_are_refused(nodes):
    with pytest.raises(InvalidInput, match="nodes in an order"):
        Jump(nodes)


def test_new_nodes_are_appended_sorted_by_id():
    jump = Jump(["c", "a"])
    assert ("c", "a", "b", "d") == jump.on(jump.topology.add("d", "b")).order


def test_only_the_last_nodes_can_leave():
    jump = Jump(["c", "a", "b"])
    assert ("c",) == jump.on(jump.topology.without("a", "b")).order
    for gone in ("c", "a"):
        with pytest.raises(CannotPlace, match=f"'{gone}' leaves from the middle"):
            jump.on(jump.topology.without(gone))
        with pytest.raises(CannotPlace, match=f"'{gone}' leaves from the middle"):
            jump.on(jump.topology.drain(gone))


def test_the_last_node_takes_only_its_own_keys_away():
    jump = Jump(["c", "a", "b"])
    before, after = jump.route_many(KEYS), jump.on(jump.topology.without("b")).route_many(KEYS)
    assert all(was in (now, "b") for was, now in zip(before, after, strict=True))


def test_a_drained_last_node_owns_nothing_and_comes_back_to_its_place():
    jump = Jump(["c", "a", "b"])
    drained = jump.on(jump.topology.drain("b"))
    assert ("c", "a") == drained.order
    assert jump == drained.on(drained.topology.reweight("b", 1))


def test_unequal_weights_are_refused_and_equal_ones_are_not():
    with pytest.raises(BadWeight, match=r"weight of node 'b' is 2\.0, expected 1, like 'a'"):
        Jump(["a", Node("b", weight=2)])
    assert Jump(["a", "b"]).route_many(KEYS) == Jump([Node("a", weight=3), Node("b", weight=3)]).route_many(KEYS)


def test_the_only_node_leaves_nobody_in_its_place():
    assert None is Jump(["a"]).explain("k").if_owner_left
