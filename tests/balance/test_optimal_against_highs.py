"""The fewest moves, and the evenest loads, are those that the linear programming solver HiGHS finds.

The programs are built from the words of the documentation alone: x[p, n] is 1 where node n holds partition p. Rows of a
partition, of a zone within a partition, and of a node make a flow network, so that the matrix is totally unimodular and
the relaxed program has a whole solution: its optimum is the true one. Where zones forbid the floor or the ceiling of
every quota, a first program of the loads alone finds the least sum of squares, in unit steps of growing cost; its dual
says which of these steps are in every, in no, or in some optimal solution, and which zones are full in all of them.
"""

from collections import Counter
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, vstack

from apportion import Assignment, Node, Topology, balance
from tests.balance import lists

NODES, PARTITIONS, REPLICAS = 20, 200, 3
CHUNK = 50


def topology_of(random):
    """Return twenty nodes in three to six zones of unequal size, of equal or unequal weight."""
    sizes = [1] * random.randint(REPLICAS, 6)
    while sum(sizes) < NODES:
        sizes[random.randrange(len(sizes))] += 1
    zones = [zone for zone, size in enumerate(sizes) for _ in range(size)]
    weights = random.choice([(1,), (1, 1, 2), (1, 2, 3, 5)])
    return Topology(
        Node(f"n{number:02}", zone=(f"z{zone}",), weight=random.choice(weights)) for number, zone in enumerate(zones)
    )


def case(random):
    """Return an assignment to start from, and the topology to come to."""
    old = topology_of(random)
    lost, heavier = random.sample(old.ids, 2)
    new = random.choice(
        [old.without(lost), old.reweight(heavier, 4), old.add(Node("x", zone=("z0",))), topology_of(random)]
    )
    if len({node.zone for node in new}) < REPLICAS:
        new = old
    if random.random() < 0.5:
        return balance.optimal(PARTITIONS, REPLICAS, old), new
    rows = tuple(tuple(random.sample(range(NODES), REPLICAS)) for _ in range(PARTITIONS))
    return Assignment(topology=old, rows=rows), new


def zone_rows(topology):
    """Return the zones, as lists of node indexes; the least and the most replicas of a partition in each."""
    zones = {}
    for index, node in enumerate(topology):
        zones.setdefault(node.zone, []).append(index)
    must = [1 if len(zones) == REPLICAS else 0] * len(zones)
    return list(zones.values()), must


def even_loads(topology):
    """Return the least and the most load of each node, and how much zones hold that hold the same in all even loads."""
    zones, must = zone_rows(topology)
    quotas = lists.shares([node.millionths for node in topology], PARTITIONS, REPLICAS)
    floors, ceilings = [quota.__floor__() for quota in quotas], [quota.__ceil__() for quota in quotas]
    bounds = [
        (
            max(sum(floors[node] for node in zone), least * PARTITIONS),
            min(sum(ceilings[node] for node in zone), PARTITIONS),
        )
        for zone, least in zip(zones, must, strict=True)
    ]
    total = PARTITIONS * REPLICAS
    if all(low <= high for low, high in bounds) and sum(b[0] for b in bounds) <= total <= sum(b[1] for b in bounds):
        return floors, ceilings, {}
    return least_squares(zones, must, quotas)


def least_squares(zones, must, quotas):
    """Return the same of the loads with the least sum of squared differences."""
    nodes = len(quotas)
    costs = [float(2 * step + 1 - 2 * quota) for quota in quotas for step in range(PARTITIONS)]
    member = np.zeros((len(zones), nodes))
    for number, zone in enumerate(zones):
        member[number, zone] = 1
    of_zone = np.repeat(member, PARTITIONS, axis=1)
    least, most = np.array(must) * PARTITIONS, np.full(len(zones), PARTITIONS)
    found = linprog(
        costs, bounds=(0, 1), A_eq=np.ones((1, nodes * PARTITIONS)), b_eq=[PARTITIONS * REPLICAS],
        A_ub=np.vstack([of_zone, -of_zone]), b_ub=np.concatenate([most, -least]), method="highs",
    )  # fmt: skip
    assert found.status == 0
    always = (found.upper.marginals < -1e-7).reshape(nodes, PARTITIONS).sum(axis=1)
    never = (found.lower.marginals > 1e-7).reshape(nodes, PARTITIONS).sum(axis=1)
    tight = found.ineqlin.marginals < -1e-7
    pinned = {number: int(most[number]) for number in range(len(zones)) if tight[number]}
    pinned |= {number: int(least[number]) for number in range(len(zones)) if tight[number + len(zones)]}
    return always.tolist(), (PARTITIONS - never).tolist(), pinned


def fewest_moves(before, topology):
    """Return the fewest replicas that any even assignment has on nodes that did not hold the partition."""
    zones, _ = zone_rows(topology)
    least, most, pinned = even_loads(topology)
    nodes = len(topology)
    zone_of = {node: number for number, zone in enumerate(zones) for node in zone}
    variables = np.arange(PARTITIONS * nodes)
    partition, node = np.divmod(variables, nodes)
    zone = np.array([zone_of[each] for each in range(nodes)])[node]

    def matrix(rows, count):
        """Return a sum of variables for each row."""
        return coo_matrix((np.ones(len(variables)), (rows, variables)), shape=(count, len(variables))).tocsr()

    each_zone = matrix(partition * len(zones) + zone, PARTITIONS * len(zones))
    each_node = matrix(node, nodes)
    equal = [matrix(partition, PARTITIONS)]
    wanted = [np.full(PARTITIONS, REPLICAS)]
    if pinned:
        numbers = sorted(pinned)
        equal.append(matrix(zone, len(zones))[numbers])
        wanted.append(np.array([pinned[number] for number in numbers]))
    # Where each zone must hold one, there are as many zones as replicas, and the rows of partitions say so already.
    held = {(place, owner) for place, owners in enumerate(before.preference_lists.values()) for owner in owners}
    costs = np.array([(place, topology.ids[each]) not in held for place in range(PARTITIONS) for each in range(nodes)])
    upper = [each_node, -each_node, each_zone]
    limits = [np.array(most), -np.array(least), np.ones(PARTITIONS * len(zones))]
    found = linprog(
        costs.astype(float), bounds=(0, 1), A_eq=vstack(equal), b_eq=np.concatenate(wanted),
        A_ub=vstack(upper), b_ub=np.concatenate(limits), method="highs",
    )  # fmt: skip
    assert found.status == 0, found.message
    assert abs(found.fun - round(found.fun)) < 1e-5
    return round(found.fun), least, most


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first < 3 * CHUNK else pytest.mark.soak)
        for first in range(0, 6 * CHUNK, CHUNK)
    ],
)
def test_highs_finds_no_fewer_moves_and_no_evener_loads(first):
    shapes = Counter()
    for seed in range(first, first + CHUNK):
        print(f"seed {seed}")
        before, topology = case(Random(seed))
        after = balance.optimal(PARTITIONS, REPLICAS, topology, previous=before)
        expected, least, most = fewest_moves(before, topology)
        assert all(low <= load <= high for low, load, high in zip(least, after.loads.values(), most, strict=True))
        assert expected == after.certificate.home.moves
        shapes[all(high <= low + 1 for low, high in zip(least, most, strict=True))] += 1
    assert {True: CHUNK} == shapes
