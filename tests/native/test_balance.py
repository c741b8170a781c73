"""Flow and leaders in the twin are those of the reference: the same rows, the same leaders, the same prices."""

from array import array
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import native
from apportion.balance.solver.flow import FlowNetwork, reference_solve, solve
from apportion.balance.solver.leaders import choose_leaders, reference_choose_leaders
from apportion.balance.solver.quotas import Demand, LoadBounds, load_bounds
from apportion.errors import InvariantBroken
from apportion.model.rows import Rows
from tests.native.comparing import answered_by_the_twin, hammered, needs_twin, outcome

pytestmark = needs_twin

WEIGHTS = (0, 1, 1, 1, 2, 3, 10, 10**15)


def demand_of(zones, weights, *, partitions, replicas):
    """Return a demand that spreads as evenly over the zones as they allow."""
    sizes = [sum(weights[node] > 0 for node, own in enumerate(zones) if own == zone) for zone in range(max(zones) + 1)]
    level = 0
    while sum(min(size, level + 1) for size in sizes) < replicas:
        level += 1
    return Demand(
        partitions=partitions,
        replicas=replicas,
        weights=tuple(weights),
        zones=tuple(zones),
        zone_least=tuple(min(size, level) for size in sizes),
        zone_most=tuple(min(size, level + 1) for size in sizes),
    )


def network_of(demand, before, elsewhere=None):
    return FlowNetwork(demand=demand, bounds=load_bounds(demand), before=Rows.of(before), elsewhere=elsewhere)


@st.composite
def networks(draw):
    """Draw a demand of unequal zones and weights; rows before it that are short, long, and heedless of zones."""
    nodes = draw(st.integers(1, 9))
    zones = draw(st.lists(st.integers(0, 3), min_size=nodes, max_size=nodes))
    zones = [sorted(set(zones)).index(zone) for zone in zones]
    weights = draw(st.lists(st.sampled_from(WEIGHTS), min_size=nodes, max_size=nodes).filter(any))
    eligible = sum(map(bool, weights))
    replicas, partitions = draw(st.integers(1, min(5, eligible))), draw(st.integers(0, 15))
    node = st.integers(0, nodes - 1).map(lambda drawn: drawn * drawn // nodes)  # the first ones hold too much
    row = st.lists(node, max_size=replicas + 1, unique=True).map(tuple)
    before = draw(st.lists(row, min_size=partitions, max_size=partitions))
    elsewhere = draw(st.none() | st.lists(st.integers(-3, 9), min_size=nodes, max_size=nodes))
    demand = demand_of(zones, weights, partitions=partitions, replicas=replicas)
    return network_of(demand, before, elsewhere)


def fleet(seed, *, nodes=40, zones=6, partitions=400, replicas=3, weights=(1,), elsewhere=None):
    """Return a seeded network that is larger than what Hypothesis draws."""
    random = Random(seed)
    demand = demand_of(
        [node % zones for node in range(nodes)],
        [random.choice(weights) or node == 0 for node in range(nodes)],
        partitions=partitions,
        replicas=replicas,
    )
    crowd = [nodes - node for node in range(nodes)]
    before = [tuple(dict.fromkeys(random.choices(range(nodes), crowd, k=replicas))) for _ in range(partitions)]
    return network_of(demand, before, elsewhere and [random.randrange(elsewhere) for _ in range(nodes)])


def agree(network):
    expected = reference_solve(network)
    with answered_by_the_twin(len(network.before)):
        found = solve(network)
    assert (expected.rows, expected.prices) == (found.rows, found.prices)
    return found


def leaders_agree(rows, led_before, nodes, elsewhere=None):
    expected = reference_choose_leaders(rows, led_before, nodes, elsewhere)
    with answered_by_the_twin(len(rows)):
        found = choose_leaders(rows, led_before, nodes, elsewhere)
    assert expected == found
    return found


@given(networks())
def test_rows_and_prices_are_those_of_the_reference(network):
    agree(network)


@given(networks(), st.randoms(use_true_random=False))
def test_leaders_and_prices_are_those_of_the_reference(network, random):
    nodes, whole = len(network.demand.weights), solve(network).rows
    rows = Rows.of([row[: random.randint(0, 2 * len(row))] for row in whole])
    led_before = [random.choice((*row, -1, nodes - 1)) for row in rows]
    leaders_agree(rows, led_before, nodes, network.elsewhere)


@pytest.mark.parametrize("elsewhere", [None, 1, 30, 2**40])
@pytest.mark.parametrize("weights", [(1,), (0, 1, 1, 5), (1, 2, 3, 50)])
@pytest.mark.parametrize(("zones", "replicas"), [(1, 2), (2, 3), (5, 3), (40, 4)])
def test_a_fleet_is_balanced_as_by_the_reference(zones, replicas, weights, elsewhere):
    network = fleet(zones, zones=zones, replicas=replicas, weights=weights, elsewhere=elsewhere)
    found = agree(network)
    led_before = [row[0] if row else -1 for row in network.before]
    leaders_agree(found.rows, led_before, 40, network.elsewhere)


def test_zones_that_are_too_small_are_pools_of_their_own():
    network = network_of(demand_of((0, 0, 0, 0, 1, 1), (1,) * 6, partitions=60, replicas=2), [(0, 1), (1, 4)] * 30)
    assert len(network.bounds.totals) > 1
    agree(network)


def test_prices_of_several_steps():
    """Hand a chain of nodes what only its neighbours can take: what is dear at one end costs a step more at each."""
    nodes = 12
    demand = demand_of(range(nodes), (1,) * nodes, partitions=nodes * 4, replicas=2)
    before = [(min(place % nodes, nodes - 2), min(place % nodes, nodes - 2) + 1) for place in range(demand.partitions)]
    agree(network_of(demand, before))
    rows = Rows.of([(node, node + 1) for node in range(nodes - 1) for _ in range(1 + 3 * (node < 2))])
    _, prices = leaders_agree(rows, [row[0] for row in rows], nodes)
    assert max(prices) > 1


def test_lists_of_many_lengths_share_out_exactly():
    for longest in (40, 130):  # the shares of the latter take more than 128 bits, and are found by the reference
        rows = Rows.of([tuple(range(length)) for length in range(longest + 1)] * 2)
        leaders_agree(rows, [-1] * len(rows), longest)


def test_threads_get_one_answer_and_the_buffers_are_let_go():
    network = fleet(1, elsewhere=9)
    led_before = array("i", [-1]) * len(network.before)

    def answer(_):
        flow = solve(network)
        leaders, prices = choose_leaders(flow.rows, led_before, 40)
        return flow.rows.buffer.tobytes(), flow.prices, leaders.tobytes(), prices

    assert 1 == len(hammered(answer, rounds=3))
    network.before.buffer.append(1)
    led_before.append(1)


def test_the_reference_answers_where_the_twin_is_not_in_use(monkeypatch):
    network = fleet(2)
    expected = agree(network)
    monkeypatch.setattr(native, "IN_USE", False)
    with answered_by_the_twin(0):
        assert expected == solve(network)
        choose_leaders(expected.rows, [-1] * 400, 40)


SMALL = network_of(demand_of((0, 0, 1, 1), (1, 1, 1, 1), partitions=4, replicas=2), [(0, 2), (0, 2), (0, 3), (1,)])


def bounded(least, most, pools=(0, 0, 0, 0), totals=(8,)):
    return replace(SMALL, bounds=LoadBounds(least=least, most=most, pools=pools, totals=totals))


@pytest.mark.parametrize(
    "network",
    [
        bounded((0,) * 4, (1,) * 4, totals=(4,)),
        bounded((0,) * 4, (4,) * 4, totals=(7,)),
        bounded((2,) * 4, (2,) * 4, totals=(7,)),
        bounded((3, 3, 2, 2), (3, 3, 2, 2)),
        bounded((1, 1, 1, 1), (3, 3, 3, 3), (0, 0, 1, 1), (5, 3)),
        replace(SMALL, demand=replace(SMALL.demand, zone_most=(0, 1))),
        replace(SMALL, demand=replace(SMALL.demand, zone_most=(1, 0), zone_least=(1, 1))),
        replace(SMALL, demand=replace(SMALL.demand, weights=(0, 0, 1, 1)), before=Rows.of([()] * 4)),
        replace(SMALL, demand=replace(SMALL.demand, replicas=5, zone_most=(4, 4))),
    ],
)
def test_what_cannot_be_met_is_a_broken_invariant_in_both(network):
    expected = outcome(lambda: reference_solve(network))
    assert InvariantBroken is expected[0]
    assert expected == outcome(lambda: solve(network))


@pytest.mark.parametrize("most", [0, 1, 3, 2**32 - 1])
@pytest.mark.parametrize("least", [0, 1, 3])
@pytest.mark.parametrize("totals", [(0,), (8,), (12,), (2**32 - 1,)])
def test_odd_bounds_have_one_outcome(least, most, totals):
    network = bounded((min(least, most),) * 4, (most,) * 4, totals=totals)
    assert outcome(lambda: reference_solve(network)) == outcome(lambda: solve(network))


def changed(part, **fields):
    """Return the small network with fields of one part that no constructor would take."""
    asked = SimpleNamespace(demand=SMALL.demand, bounds=SMALL.bounds, before=SMALL.before, elsewhere=None)
    known = getattr(asked, part)
    kept = {name: getattr(known, name) for name in known.__slots__}
    setattr(asked, part, SimpleNamespace(**{**kept, **fields}))
    return asked


REFUSED = [
    (changed("demand", replicas=0), ValueError), (changed("demand", replicas=-1), TypeError),
    (changed("demand", replicas=2**32), TypeError), (changed("demand", replicas=2**32 - 1), InvariantBroken),
    (changed("demand", zone_least=(2, 1)), ValueError), (changed("demand", zone_least=(2**32 - 1,) * 2), ValueError),
    (changed("demand", weights=(1, 1, 1)), IndexError), (changed("demand", weights=(1,) * 5), ValueError),
    (changed("demand", weights=(-1,) * 4), TypeError), (changed("demand", weights=(2**64,) * 4), TypeError),
    (changed("demand", weights="1111"), TypeError), (changed("demand", weights=None), TypeError),
    (changed("demand", zones=(0, 0, 1, 2)), IndexError), (changed("demand", zones=(0, 0, 1)), ValueError),
    (changed("demand", zones=(0, 0, 1, -1)), TypeError), (changed("demand", zone_most=(1,)), ValueError),
    (changed("demand", zone_least=()), ValueError), (changed("demand", zone_most=(), zone_least=()), IndexError),
    (changed("bounds", least=(2, 2, 2)), ValueError), (changed("bounds", most=(2,) * 5), ValueError),
    (changed("bounds", least=(3,) * 4), ValueError), (changed("bounds", least=(-1,) * 4), TypeError),
    (changed("bounds", most=(2**32,) * 4), TypeError), (changed("bounds", pools=(0, 0, 0)), ValueError),
    (changed("bounds", pools=(0, 0, 0, 1)), IndexError), (changed("bounds", totals=()), IndexError),
    (changed("bounds", totals=(-8,)), TypeError), (changed("bounds", totals=(2**32,)), TypeError),
    (changed("before", width=0), ValueError), (changed("before", width=3), ValueError),
    (changed("before", width=-1), TypeError), (changed("before", width=2**63), ValueError),
    (changed("before", buffer=array("I", [4, 0])), IndexError),
    (changed("before", buffer=array("I", [0, 2**32 - 2])), IndexError),
    (changed("before", buffer=array("I", [1, 1])), ValueError),
    (changed("before", buffer=array("i", [0, 1])), BufferError),
    (changed("before", buffer=array("d", [0, 1])), BufferError),
    (changed("before", buffer=b"12345678"), BufferError), (changed("before", buffer=[0, 1]), TypeError),
    (changed("before", buffer=None), TypeError), (replace(SMALL, elsewhere=(1, 2, 3)), ValueError),
    (replace(SMALL, elsewhere=(2**63,) * 4), TypeError), (replace(SMALL, elsewhere=(0.5,) * 4), TypeError),
    (None, AttributeError), (SMALL.demand, AttributeError),
]  # fmt: skip


@pytest.mark.parametrize(("network", "error"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_fit_is_refused(network, error):
    with answered_by_the_twin(0), pytest.raises(error):
        native.extension.solve_flow(network)


def test_the_last_numbers_of_64_bits():
    for elsewhere in [(2**63 - 1, -(2**63), 0, 0), (-(2**63), 2**63 - 1, 2**63 - 1, -(2**63))]:
        agree(replace(SMALL, elsewhere=elsewhere))
        leaders_agree(SMALL.before, [-(2**31), 2**31 - 1, 3, 1], 4, elsewhere)


PAIRS = Rows.of([(0, 1), (1,), ()])
REFUSED_LEADERS = [
    ((PAIRS, array("i", [0, 1]), 2), ValueError), ((PAIRS, array("i", [0] * 4), 2), ValueError),
    ((PAIRS, array("I", [0] * 3), 2), BufferError), ((PAIRS, [0, 1, -1], 2), TypeError),
    ((PAIRS, array("i", [0] * 3), 1), IndexError), ((PAIRS, array("i", [0] * 3), 0), IndexError),
    ((PAIRS, array("i", [0] * 3), -1), OverflowError), ((PAIRS, array("i", [0] * 3), 2**63), OverflowError),
    ((PAIRS, array("i", [0] * 3), 2**64), OverflowError), ((PAIRS, array("i", [0] * 3), 2, [0]), ValueError),
    ((PAIRS, array("i", [0] * 3), 2, [2**63] * 2), OverflowError), (([(0, 1)], array("i", [0]), 2), AttributeError),
    ((Rows.of([(1, 1)]), array("i", [0]), 2), ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "error"), REFUSED_LEADERS, ids=range(len(REFUSED_LEADERS)))
def test_leaders_of_what_does_not_fit_are_refused(asked, error):
    with answered_by_the_twin(0), pytest.raises(error):
        native.extension.choose_leaders(*asked)


def test_no_rows_and_rows_of_nobody():
    agree(network_of(replace(SMALL.demand, partitions=0), []))
    agree(network_of(replace(SMALL.demand, partitions=3), [(), (), ()]))
    assert (array("i"), (0, 0)) == leaders_agree(Rows.of([]), [], 2)
    assert (array("i", [-1, -1]), (0, 0)) == leaders_agree(Rows.of([(), ()]), [1, -1], 2)
    assert (array("i"), ()) == leaders_agree(Rows.of([]), [], 0)
