"""Trial of placements: the common input of all measurements, and the row of each placement.

Loads and moves are counted over the keys. Where nodes have zones, the first keys also ask for `REPLICAS` owners: the
zone rule wants each owner in another zone.

Refuses: time and memory; the console measures both. Source of the bounds: exact shares by weight.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from math import sqrt
from statistics import fmean
from typing import Self

from apportion.balance.comparison.measures import evenness, fair_bound, movement
from apportion.balance.succession import succeed
from apportion.errors import CannotPlace, InvalidInput
from apportion.errors.brief import brief
from apportion.model.topology import Node, Topology
from apportion.placement import hashers
from apportion.placement.api import Placement
from apportion.placement.hashers import Hasher

REPLICAS = 2
"""The number of owners for which the zone rule is tested: the least for which zones matter."""

KEYS_IN_ZONES = 1000


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRow:
    """The measurements of one placement, or the reason why there are none (`refused`).

    `loads` are the keys of each node. `stray` is the larger of `stray_on_add` and `stray_on_remove`.
    `lacking_ratio` is the part of the tried keys without `REPLICAS` owners in distinct zones; None without zones.
    `is_last_only` means that only the last node in order can leave. `why_not` is the reason why a
    baseline (a simple method, shown for comparison) is not enough; it is "" for a placement.
    """

    placement: str
    max_over_mean: float = 0.0
    variation: float = 0.0
    moved_on_add: float = 0.0
    moved_on_remove: float = 0.0
    stray: float = 0.0
    stray_on_add: float = 0.0
    stray_on_remove: float = 0.0
    lacking_ratio: float | None = None
    is_last_only: bool = False
    ns_per_key: float = 0.0
    size_bytes: int = 0
    own_hash: bool = False
    refused: str = ""
    why_not: str = ""
    loads: Mapping[str, int] = field(default_factory=dict)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTrial:
    """The common input of all measurements: keys, nodes, the nodes with one more, and the nodes with one fewer."""

    keys: Sequence[bytes] = field(repr=False)
    hasher: Hasher
    topology: Topology
    added: Topology
    removed: Topology

    @classmethod
    def of(cls, topology: Topology, keys: Sequence[bytes], hasher: Hasher | None = None) -> Self:
        """Return the trial: a node joins with the weight of the first node, and the last node leaves."""
        owning = [node for node in topology if node.weight > 0]
        if len(owning) < 2:
            hint = "Name more nodes."
            raise CannotPlace("a comparison needs two nodes with a weight above 0, because it removes one.", hint)
        joining = next(node_id for node_id in map("~new-{}".format, count()) if node_id not in topology)
        added = topology.add(Node(joining, weight=owning[0].weight))
        removed = topology.without(owning[-1].id)
        return cls(keys=keys, hasher=hasher or hashers.get(), topology=topology, added=added, removed=removed)

    @property
    def joining(self) -> Node:
        """The node that joins."""
        return next(node for node in self.added if node.id not in self.topology)

    @property
    def leaving(self) -> Node:
        """The node that leaves."""
        return next(node for node in self.topology if node.id not in self.removed)

    @property
    def add_bound(self) -> float:
        """The least ratio that must move to the node that joins."""
        return fair_bound(self.topology, self.added)

    @property
    def remove_bound(self) -> float:
        """The least ratio that must move from the node that leaves."""
        return fair_bound(self.topology, self.removed)

    @property
    def fair_shares(self) -> dict[str, float]:
        """The share of each node that should own some keys, in proportion to weight."""
        total = sum(node.weight for node in self.topology)
        return {node.id: node.weight / total for node in self.topology if node.weight > 0}

    @property
    def chance_variation(self) -> float:
        """The variation that chance alone gives when this number of keys falls on exact shares."""
        return sqrt(fmean((1 - share) / (share * len(self.keys)) for share in self.fair_shares.values()))

    @property
    def chance_difference(self) -> float:
        """The largest difference of two variations that chance explains: two standard errors of a variation."""
        return 2 * self.chance_variation / sqrt(len(self.fair_shares) - 1)

    @property
    def has_zones(self) -> bool:
        """Whether the zone rule can be tested: nodes with keys name zones, and lie in at least `REPLICAS` of them."""
        owning = [node for node in self.topology if node.weight > 0]
        return any(node.zone for node in owning) and len({node.fault_domain() for node in owning}) >= REPLICAS

    def row(self, placement: Placement, replicated: Placement | None = None, *, name: str = "") -> PlacementRow:
        """Return the row of a placement on the nodes of this trial.

        `replicated` is the placement that lists replicas, if `placement` knows the owner alone. `name` is the name of
        the class by default. Raises `CannotPlace` or `InvalidInput` if the placement refuses one of the changes.
        """
        before, *after = (
            each.route_many(self.keys)
            for each in (placement, succeed(placement, self.added), succeed(placement, self.removed))
        )
        row = PlacementRow(
            placement=name or type(placement).__name__,
            lacking_ratio=self._lacking_ratio(replicated or placement) if self.has_zones else None,
            is_last_only=self._is_last_only(placement),
        )
        return self.counted(row, before, *after)

    def counted(self, row: PlacementRow, before: list[str], on_add: list[str], on_remove: list[str]) -> PlacementRow:
        """Return a row with the measures of these owners of the keys."""
        even = evenness(before, self.topology)
        add = movement(before, on_add, self.topology, self.added)
        remove = movement(before, on_remove, self.topology, self.removed)
        return replace(
            row,
            max_over_mean=even.max_over_mean,
            variation=even.variation,
            moved_on_add=add.moved_ratio,
            moved_on_remove=remove.moved_ratio,
            stray=max(add.stray_ratio, remove.stray_ratio),
            stray_on_add=add.stray_ratio,
            stray_on_remove=remove.stray_ratio,
            loads=dict(Counter(before)),
        )

    def _is_last_only(self, placement: Placement) -> bool:
        first = next(node.id for node in self.topology if node.weight > 0)
        try:
            succeed(placement, self.topology.without(first))
        except (CannotPlace, InvalidInput):
            return True
        return False

    def _lacking_ratio(self, placement: Placement) -> float:
        tried = list(islice(self.keys, KEYS_IN_ZONES))
        return sum(not self._is_spread(placement, key) for key in tried) / len(tried)

    def _is_spread(self, placement: Placement, key: bytes) -> bool:
        try:
            owners = placement.preference(key, REPLICAS)
        except (CannotPlace, InvalidInput):
            return False
        return len({self.topology[node_id].fault_domain() for node_id in owners}) == REPLICAS
