"""Measures of any placement, ours or a peer's, counted from the owners that the placement gives to keys."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from apportion.errors.brief import brief
from apportion.model.topology import Topology


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEvenness:
    """Each load divided by the node's share by weight; 1.0 is exact.

    The mean of these ratios is 1.0 if each node counts by its weight.
    """

    max_over_mean: float
    variation: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMovement:
    """Ratios of keys that changed nodes, and of keys that changed nodes without a cause."""

    moved_ratio: float
    stray_ratio: float


def evenness(owners: Sequence[str], topology: Topology) -> KeyEvenness:
    """Return how evenly keys lie on the nodes that should own some: each load divided by its fair share. O(keys)."""
    loads = Counter(owners)
    total = sum(node.weight for node in topology)
    relative = [loads[node.id] * total / (node.weight * len(owners)) for node in topology if node.weight > 0]
    return KeyEvenness(max_over_mean=max(relative), variation=pstdev(relative) / fmean(relative))


def movement(before: Sequence[str], after: Sequence[str], old: Topology, new: Topology) -> KeyMovement:
    """Return the ratios of moved keys between two routings of the same keys. O(keys)."""
    moves = Counter(pair for pair in zip(before, after, strict=True) if pair[0] != pair[1])
    stray = sum(
        count
        for (source, target), count in moves.items()
        if source in new
        and new[source].weight > 0
        and target in old
        and new[source].weight >= old[source].weight
        and new[target].weight <= old[target].weight
    )
    return KeyMovement(moved_ratio=moves.total() / len(before), stray_ratio=stray / len(before))


def fair_bound(old: Topology, new: Topology) -> float:
    """Return the least ratio of keys that must move, if both topologies give exact shares by weight."""
    old_total, new_total = sum(node.weight for node in old), sum(node.weight for node in new)
    gains = (node.weight / new_total - (old[node.id].weight / old_total if node.id in old else 0) for node in new)
    return sum(max(0.0, gain) for gain in gains)
