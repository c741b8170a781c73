"""Trial of `compare`: the measurements of each placement and each baseline, on the same nodes and keys.

Loads and moves are counted over the keys. Time is the time of one thread, per key, in bulk. It belongs to this
machine at this moment, and varies. Bytes are the memory that stays allocated after the placement is built.
"""

import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import sqrt
from statistics import fmean
from typing import Self

from apportion.balance.succession import succeed
from apportion.console.compare.baselines import Baseline
from apportion.console.compare.measures import evenness, fair_bound, movement
from apportion.console.options.composition import compose
from apportion.errors import CannotPlace, InvalidInput
from apportion.model.topology import Node, Topology
from apportion.placement import catalog
from apportion.placement.api import Placement
from apportion.placement.hashers import Hasher


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The measurements of one placement, or the reason why there are none (`refused`).

    `loads` are the keys of each node. `stray` is the larger of `stray_on_add` and `stray_on_remove`. Only a baseline
    has `why_not`.
    """

    placement: str
    max_over_mean: float = 0.0
    variation: float = 0.0
    moved_on_add: float = 0.0
    moved_on_remove: float = 0.0
    stray: float = 0.0
    stray_on_add: float = 0.0
    stray_on_remove: float = 0.0
    ns_per_key: float = 0.0
    size_bytes: int = 0
    own_hash: bool = False
    refused: str = ""
    why_not: str = ""
    loads: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTrial:
    """The common input of all measurements: keys, nodes, the nodes with one more, and the nodes with one fewer."""

    keys: Sequence[bytes]
    hasher: Hasher
    topology: Topology
    added: Topology
    removed: Topology

    @classmethod
    def of(cls, topology: Topology, keys: Sequence[bytes], hasher: Hasher) -> Self:
        """Return the trial: a node joins with the weight of the first node, and the last node leaves."""
        owning = [node for node in topology if node.weight > 0]
        if len(owning) < 2:
            hint = "Name more nodes."
            raise CannotPlace("a comparison needs two nodes with a weight above 0, to take one away.", hint)
        joining = next(node_id for node_id in map("~new-{}".format, count()) if node_id not in topology)
        added = topology.add(Node(joining, weight=owning[0].weight))
        return cls(keys=keys, hasher=hasher, topology=topology, added=added, removed=topology.without(owning[-1].id))

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


def measured(name: str, trial: KeyTrial) -> Row:
    """Measure a placement of the catalog, or give the reason why it cannot be measured."""
    spec = catalog.get(name)
    if spec.takes == "explicit":
        return Row(placement=name, refused="built from a list of owners, which nodes and keys do not give.")
    try:
        placement, size_bytes = _built(name, trial.topology, trial.hasher if spec.takes_hasher else None)
        before, ns_per_key = _routed(placement, trial.keys)
        after = [succeed(placement, new).route_many(trial.keys) for new in (trial.added, trial.removed)]
    except (CannotPlace, InvalidInput) as error:
        return Row(placement=name, refused=error.problem)
    timed = Row(placement=name, own_hash=not spec.takes_hasher, ns_per_key=ns_per_key, size_bytes=size_bytes)
    return _counted(timed, trial, before, *after)


def measured_baseline(baseline: Baseline, trial: KeyTrial) -> Row:
    """Measure a baseline. Time and memory are left out, because they would mean nothing."""
    owners = [baseline.owners(topology, trial.keys) for topology in (trial.topology, trial.added, trial.removed)]
    return _counted(Row(placement=baseline.name, why_not=baseline.why_not), trial, *owners)


def refusals(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Return the reasons why placements were not measured, each with the placements that it applies to."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.refused:
            reasons.setdefault(row.refused, []).append(row.placement)
    return reasons


def _counted(row: Row, trial: KeyTrial, before: list[str], on_add: list[str], on_remove: list[str]) -> Row:
    even = evenness(before, trial.topology)
    add = movement(before, on_add, trial.topology, trial.added)
    remove = movement(before, on_remove, trial.topology, trial.removed)
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


def _built(name: str, topology: Topology, hasher: Hasher | None) -> tuple[Placement, int]:
    gc.collect()
    tracemalloc.start()
    try:
        placement = compose(name, topology, hasher=hasher)
        gc.collect()
        return placement, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _routed(placement: Placement, keys: Sequence[bytes]) -> tuple[list[str], float]:
    start = time.perf_counter_ns()
    owners = placement.route_many(keys)
    return owners, (time.perf_counter_ns() - start) / len(keys)
