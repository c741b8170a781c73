"""All the lists there could be: dumb twins of the balancer, for cases so small that everything can be tried.

Zones, quotas and costs are worked out anew from the words of the documentation, and nothing is shared with the balancer
but the values it is given.
"""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product


def shares(weights, partitions, replicas):
    """Return the exact quota of each node: by weight, never above one replica a partition, the excess shared again."""
    capped = set()
    while True:
        left = partitions * replicas - partitions * len(capped)
        weight = sum(own for node, own in enumerate(weights) if node not in capped)
        found = [
            Fraction(partitions) if node in capped else Fraction(left * own, weight or 1)
            for node, own in enumerate(weights)
        ]
        over = {node for node, share in enumerate(found) if share > partitions}
        if not over:
            return found
        capped |= over


def owner_sets(weights, zones, replicas):
    """Return every set of `replicas` nodes in which no zone holds two more than another that has a node left."""
    eligible = [node for node, weight in enumerate(weights) if weight]
    return [chosen for chosen in combinations(eligible, replicas) if _is_spread(chosen, eligible, zones)]


def _is_spread(chosen, eligible, zones):
    held = Counter(zones[node] for node in chosen)
    free = {zones[node] for node in eligible if node not in chosen}
    return all(held[zone] <= held[other] + 1 for zone in held for other in free)


def even_loads(reachable, quotas):
    """Return those of the loads that are as even as any of them."""
    floor_or_ceiling = {
        loads for loads in reachable if all(abs(load - quota) < 1 for load, quota in zip(loads, quotas, strict=True))
    }
    if floor_or_ceiling:
        return floor_or_ceiling
    squares = {
        loads: sum((load - quota) ** 2 for load, quota in zip(loads, quotas, strict=True)) for loads in reachable
    }
    return {loads for loads, sum_of_squares in squares.items() if sum_of_squares == min(squares.values())}


def fewest_moves(before, sets, quotas):
    """Return the fewest replicas that are new, over all assignments that are as even as can be, and all these loads.

    `before[p]` is who held partition p. Goes partition by partition, and keeps the least cost of every sum of loads.
    """
    best = {(0,) * len(quotas): 0}
    for owners in before:
        step = {}
        for loads, cost in best.items():
            for chosen in sets:
                reached = tuple(load + (node in chosen) for node, load in enumerate(loads))
                paid = cost + len(set(chosen) - set(owners))
                step[reached] = min(paid, step.get(reached, paid))
        best = step
    allowed = even_loads(set(best), quotas)
    return min(best[loads] for loads in allowed), allowed


def leader_range(lists, nodes):
    """Return how many partitions each node may lead: floor and ceiling of what it holds, shared by list."""
    fair = [sum(Fraction(1, len(owners)) for owners in lists if node in owners) for node in range(nodes)]
    return [(share.__floor__(), share.__ceil__()) for share in map(Fraction, fair)]


def fewest_leader_changes(lists, led, nodes):
    """Return the fewest partitions led by another than `led` names, over all even choices of leaders of these lists."""
    allowed = leader_range(lists, nodes)
    best = {(0,) * nodes: 0}
    for owners, old in zip(lists, led, strict=True):
        step = {}
        for leads, cost in best.items():
            for leader in owners:
                reached = tuple(count + (node == leader) for node, count in enumerate(leads))
                step[reached] = min(cost + (leader != old), step.get(reached, cost + 1))
        best = step
    return min(
        cost
        for leads, cost in best.items()
        if all(low <= count <= high for count, (low, high) in zip(leads, allowed, strict=True))
    )


def fewest_joint_leader_changes(before, led, sets, quotas):
    """Return the fewest changes of leader over all assignments that are as even and move as little as can be."""
    moves, allowed = fewest_moves(before, sets, quotas)
    nodes, fewest = len(quotas), len(before)
    for lists in product(sets, repeat=len(before)):
        moved = sum(len(set(chosen) - set(owners)) for chosen, owners in zip(lists, before, strict=True))
        loads = tuple(sum(node in chosen for chosen in lists) for node in range(nodes))
        if moved == moves and loads in allowed:
            fewest = min(fewest, fewest_leader_changes(lists, led, nodes))
    return fewest
