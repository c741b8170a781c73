"""Dumb twins: the slow and obvious way to each answer that the library finds in a clever one.

They use plain loops, linear searches and exact fractions, and nothing of `apportion` but the values they are given.
"""

from fractions import Fraction
from itertools import combinations, product

POSITIONS = 2**64


def owners_at(table, position):
    """Return the owner ids of a position, by reading the table from its end to its beginning."""
    for start, row in zip(reversed(table.starts), reversed(table.rows), strict=True):
        if start <= position:
            return tuple(table.topology.nodes[index].id for index in row)
    raise AssertionError(f"nobody owns {position}")


def stretches(old, new):
    """Return (start, end, owners before, owners after) between every two neighbouring boundaries of both tables."""
    cuts = sorted([*old.starts, *(start for start in new.starts if start not in old.starts)])
    ends = [*cuts[1:], POSITIONS]
    return [(start, end, owners_at(old, start), owners_at(new, start)) for start, end in zip(cuts, ends, strict=True)]


def diff(old, new):
    """Return (start, end, before, after) of each maximal range that changes in one way."""
    ranges = []
    for start, end, before, after in stretches(old, new):
        if before == after:
            continue
        if ranges and ranges[-1][1:] == (start, before, after):
            ranges[-1] = (ranges[-1][0], end, before, after)
        else:
            ranges.append((start, end, before, after))
    return ranges


def moved_ratio(old, new):
    """Return Σ width · |new ∖ old| / Σ width · |new| as an exact fraction."""
    moved = total = 0
    for start, end, before, after in stretches(old, new):
        for owner in after:
            total += end - start
            if owner not in before:
                moved += end - start
    return Fraction(moved, total)


def widths(table):
    """Return the positions that each node owns, copies counted."""
    found = {node.id: 0 for node in table.topology.nodes}
    for start, end, owners, _ in stretches(table, table):
        for owner in owners:
            found[owner] += end - start
    return found


def quotas(topology, slots):
    """Return the exact share of each node in a number of slots."""
    millionths = [round(node.weight * 1_000_000) for node in topology.nodes]
    return [Fraction(slots * each, sum(millionths)) for each in millionths]


def is_even(quota, load):
    """Return whether a load is the floor or the ceiling of its quota."""
    return quota.__floor__() <= load <= quota.__ceil__()


def fewest_moves(topology, owners):
    """Return the fewest slots that change hands on the way to any even assignment, by trying all assignments.

    `owners` are the indexes of those who had the slots, None for who is gone.
    """
    shares = quotas(topology, len(owners))
    nodes = range(len(shares))
    return min(
        sum(was != now for was, now in zip(owners, candidate, strict=True))
        for candidate in product(nodes, repeat=len(owners))
        if all(is_even(shares[node], candidate.count(node)) for node in nodes)
    )


def even_loads(topology, slots):
    """Return every even distribution of slots, as lists of loads."""
    shares = quotas(topology, slots)
    floors = [share.__floor__() for share in shares]
    rounded = [index for index, share in enumerate(shares) if share != floors[index]]
    return [
        [floor + (index in extras) for index, floor in enumerate(floors)]
        for extras in combinations(rounded, slots - sum(floors))
    ]


def fewest_moves_and_strays(old, new, held):
    """Return the fewest moves to any even distribution, and the fewest stray ones among those.

    `held` is the number of slots by id under the topology `old`.
    """
    return min(_moves_and_strays(old, new, held, loads) for loads in even_loads(new, sum(held.values())))


def _moves_and_strays(old, new, held, loads):
    weights = [{node.id: node.weight for node in topology.nodes} for topology in (old, new)]
    loads = dict(zip((node.id for node in new.nodes), loads, strict=True))
    lost = {node_id: max(0, load - loads.get(node_id, 0)) for node_id, load in held.items()}
    gained = {node_id: max(0, load - held.get(node_id, 0)) for node_id, load in loads.items()}
    causeless = sum(
        count for node_id, count in lost.items() if node_id in weights[1] and weights[1][node_id] >= weights[0][node_id]
    )
    welcome = sum(
        count
        for node_id, count in gained.items()
        if node_id not in weights[0] or weights[1][node_id] > weights[0][node_id]
    )
    return sum(lost.values()), max(0, causeless - welcome)


def spread(ranking, domains, count):
    """Return the first `count` of a ranking, going round the fault domains: nobody a second time before all once."""
    chosen, waiting, used = [], list(ranking), {}
    while waiting and len(chosen) < count:
        least = min(used.get(domains[index], 0) for index in waiting)
        best = next(index for index in waiting if used.get(domains[index], 0) == least)
        used[domains[best]] = used.get(domains[best], 0) + 1
        chosen.append(best)
        waiting.remove(best)
    return tuple(chosen)
