"""Bytes are spread by weight within a tolerance, and hardly more of them move than must."""

from fractions import Fraction
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Assignment, Node, Topology, balance
from apportion.balance.solver.least_sum import least_sum
from apportion.errors import InvalidInput, NoNodes

TOLERANCE = 0.1
FLEETS, SLOTS = 200, 4096
MOST_TIMES = 1.1


def loads(assignment, sizes):
    found = dict.fromkeys(assignment.topology.ids, 0)
    for (owner,), size in zip(assignment.preference_lists.values(), sizes, strict=True):
        found[owner] += size
    return found


def moved(before, after, sizes):
    """Return the bytes of the partitions whose owner differs."""
    lists = zip(before.preference_lists.values(), after.preference_lists.values(), sizes, strict=True)
    return sum(size for was, now, size in lists if was != now)


def outside(assignment, sizes, tolerance=TOLERANCE):
    """Return the nodes that are out of bounds."""
    total, weight = sum(sizes), sum(node.millionths for node in assignment.topology)
    shares = {node.id: Fraction(total * node.millionths, weight) for node in assignment.topology}
    gaps = {node: abs(load - shares[node]) for node, load in loads(assignment, sizes).items()}
    return [node for node, gap in gaps.items() if gap >= Fraction(tolerance) * shares[node] + 1]


def fleet(seed):
    """Return an assignment, the next topology, and sizes: even ones, or a few that are much larger than others."""
    random = Random(seed)
    topology = Topology(Node(f"n{number}", weight=random.choice([1, 1, 1, 2, 3])) for number in range(2, 32))
    topology = Topology(random.sample(list(topology), random.randint(2, 30)))
    draw = random.choice(
        [
            lambda: random.uniform(0.5, 1.5),
            lambda: random.lognormvariate(0, 1),
            lambda: min(random.paretovariate(1.5), 30),
        ]
    )
    sizes = [int(1e6 * draw()) for _ in range(SLOTS)]
    before = balance.slots(topology, count=SLOTS)
    return before, topology.add(Node("new")) if random.random() < 0.5 else topology, sizes


@pytest.mark.slow
def test_of_200_fleets_each_comes_within_the_tolerance_and_moves_hardly_more_than_it_must(record_property):
    times = []
    for seed in range(FLEETS):
        before, topology, sizes = fleet(seed)
        after = balance.by_size(before, topology, sizes)
        assert [] == outside(after, sizes)
        least = balance.least_bytes(before, topology, sizes)
        assert (least == 0) == (after.rows == before.rows)
        times.append(moved(before, after, sizes) / least if least else 1.0)
    told = f"by_size: {FLEETS} fleets of {SLOTS} slots, moved over the least possible: at most {max(times):.4f}"
    record_property("figures", told)
    assert 1 <= min(times) <= max(times) <= MOST_TIMES, told


@given(
    st.lists(st.integers(1, 40), min_size=60, max_size=300),
    st.lists(st.sampled_from([1, 1, 2, 3]), min_size=2, max_size=5),
    st.data(),
)
def test_with_small_partitions_every_load_is_within_the_tolerance(sizes, weights, data):
    topology = Topology(Node(f"n{number}", weight=weight) for number, weight in enumerate(weights))
    place = st.integers(0, len(topology) - 1)
    rows = data.draw(st.lists(place, min_size=len(sizes), max_size=len(sizes)))
    before = Assignment(topology=topology, rows=tuple((index,) for index in rows))
    tolerance = Fraction(max(sizes) * sum(weights), sum(sizes) * min(weights))
    if tolerance < 1:
        after = balance.by_size(before, topology, sizes, tolerance=float(tolerance))
        assert [] == outside(after, sizes, float(tolerance))
        assert balance.least_bytes(before, topology, sizes, tolerance=float(tolerance)) <= moved(before, after, sizes)
        assert after.rows == balance.by_size(after, topology, sizes, tolerance=float(tolerance)).rows


def test_partitions_leave_nodes_that_are_gone_or_drained_also_those_without_bytes():
    before = balance.slots(Topology(list("abcd")), count=64)
    topology = Topology(list("abc")).reweight("a", 0)
    for sizes in ([0] * 64, [5] * 64):
        after = balance.by_size(before, topology, sizes)
        assert {"a": 0, "b": 32, "c": 32} == after.loads
        assert [] == outside(after, sizes)
        lists = zip(before.preference_lists.values(), after.preference_lists.values(), strict=True)
        assert not [was for was, now in lists if was[0] in "bc" and was != now]


def test_names_and_sizes_stay_with_the_partitions():
    before = Assignment(topology=Topology(list("ab")), rows=((0,), (0,), (1,)), names=("x", "y", "z"))
    after = balance.by_size(before, before.topology, {"z": 10, "y": 40, "x": 50})
    assert (("x", "y", "z"), (50, 40, 10)) == (after.names, after.sizes)
    assert {"a": 50, "b": 50} == loads(after, after.sizes)


def test_a_partition_that_no_balance_can_hide_is_named_and_keeps_its_node():
    before = Assignment(topology=Topology(list("abc")), rows=((0,), (0,), (1,), (1,), (2,), (2,)))
    sizes = [90, 10, 10, 10, 10, 10]
    assert ("0",) == balance.larger_than_a_share(before, sizes)
    after = balance.by_size(before, before.topology, sizes)
    assert ("a",) == after["0"]
    assert () == balance.larger_than_a_share(before, [20] * 6)


@given(st.lists(st.integers(0, 60), max_size=9), st.integers(1, 200), st.integers(0, 200))
def test_a_least_sum_is_that_of_all_subsets(sizes, wanted, room):
    sizes, most = sorted(sizes), wanted + room
    sums = [sum(each) for count in range(len(sizes) + 1) for each in combinations(sizes, count)]
    least = min((each for each in sums if wanted <= each <= min(most, 2 * wanted)), default=None)
    found = least_sum(sizes, wanted, most)
    assert len(found) == len(set(found))
    total = sum(sizes[place] for place in found)
    if least is not None:
        assert least == total
    elif found:
        assert wanted <= total <= most


def test_a_least_sum_has_no_size_of_zero():
    assert [2, 1] == least_sum([0, 3, 5], 8, 10)


@given(st.lists(st.integers(1, 10**9), min_size=40, max_size=60), st.integers(10**7, 10**9))
def test_a_least_sum_of_many_large_sizes_is_hardly_more_than_wanted(sizes, wanted):
    sizes = sorted(sizes)
    total = sum(sizes[place] for place in least_sum(sizes, wanted, sum(sizes)))
    smallest = next((size for size in sizes if size >= wanted), 2 * wanted)
    assert wanted <= total <= smallest or sum(sizes) < wanted


TOPOLOGY = Topology(list("ab"))
BEFORE = Assignment(topology=TOPOLOGY, rows=((0,), (0,), (1,)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tolerance": 1}, "tolerance is 1, expected a number of at least 0 and less than 1"),
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"tolerance": "0.1"}, "tolerance is '0.1'"),
        ({"tolerance": True}, "tolerance is True"),
        ({"sizes": {"0": 1, "1": 2}}, "sizes is \"without '2'\""),
        ({"sizes": [1, 2]}, "sizes is '2 of them', expected 3"),
        ({"sizes": [1, -2, 3]}, "-2"),
        ({"sizes": "abc"}, "sizes is 'abc'"),
        ({"topology": ["a"]}, "topology is"),
        ({"previous": [(0,)]}, "previous is"),
        ({"previous": Assignment(topology=TOPOLOGY, rows=((0, 1),))}, "several owners of a partition"),
    ],
)
def test_bad_input_is_refused_by_name(change, said):
    arguments = {"previous": BEFORE, "topology": TOPOLOGY, "sizes": [1, 2, 3]} | change
    with pytest.raises(InvalidInput) as refusal:
        balance.by_size(**arguments)
    assert said in f"{refusal.value}"
    assert refusal.value.hint


def test_somebody_must_be_allowed_to_own():
    with pytest.raises(NoNodes):
        balance.by_size(BEFORE, TOPOLOGY.reweight("a", 0).reweight("b", 0), [1, 2, 3])
