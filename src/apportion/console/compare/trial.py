"""Trial of `compare`: the measurements of each placement and each baseline, on the same nodes and keys.

Time is the time of one thread, per key, in bulk. It belongs to this machine at this moment, and varies. Bytes are the
memory that stays allocated after the placement is built.
"""

import gc
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

from apportion.balance.comparison import REPLICAS, KeyTrial, PlacementRow
from apportion.balance.optimal import optimal
from apportion.console.compare.baselines import Baseline
from apportion.console.options.composition import compose
from apportion.errors import CannotPlace, InvalidInput
from apportion.placement import catalog
from apportion.placement.api import Placement, PlacementSpec


def measured(name: str, trial: KeyTrial) -> PlacementRow:
    """Measure a placement of the catalog, or give the reason why it cannot be measured."""
    spec = catalog.get(name)
    if spec.takes == "explicit":
        return PlacementRow(placement=name, refused="built from a list of owners, which nodes and keys do not give.")
    try:
        placement, size_bytes = _built(spec, trial)
        ns_per_key = _ns_per_key(placement, trial.keys)
        row = trial.row(placement, _replicated(spec, trial), name=name)
    except (CannotPlace, InvalidInput) as error:
        return PlacementRow(placement=name, refused=error.problem)
    return replace(row, own_hash=not spec.takes_hasher, ns_per_key=ns_per_key, size_bytes=size_bytes)


def measured_baseline(baseline: Baseline, trial: KeyTrial) -> PlacementRow:
    """Measure a baseline. Time and memory are left out, because they would mean nothing."""
    owners = [baseline.owners(topology, trial.keys) for topology in (trial.topology, trial.added, trial.removed)]
    return trial.counted(PlacementRow(placement=baseline.name, why_not=baseline.why_not), *owners)


def _built(spec: PlacementSpec, trial: KeyTrial) -> tuple[Placement, int]:
    gc.collect()
    tracemalloc.start()
    try:
        placement = compose(spec.name, trial.topology, hasher=trial.hasher if spec.takes_hasher else None)
        gc.collect()
        return placement, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _replicated(spec: PlacementSpec, trial: KeyTrial) -> Placement | None:
    """Return the placement with replicas; None if the spec takes no assignment, or if the nodes have no zones."""
    if spec.takes != "assignment" or not trial.has_zones:
        return None
    slots = len(compose(spec.name, trial.topology).assignment.rows)  # type: ignore[attr-defined]
    return spec(optimal(slots, REPLICAS, trial.topology))


def _ns_per_key(placement: Placement, keys: Sequence[bytes]) -> float:
    start = time.perf_counter_ns()
    placement.route_many(keys)
    return (time.perf_counter_ns() - start) / len(keys)
