"""`apportion compare`: every placement of the catalog on your nodes and your keys, side by side.

Loads and moves are counted over the keys. Time is one thread's, per key, in bulk; it is this machine's, now, and
varies. Bytes are what building the placement keeps allocated.
"""

import gc
import sys
import time
import tracemalloc
from dataclasses import asdict, dataclass
from itertools import count

from rich.console import Console
from rich.progress import Progress

from apportion.console.composing import compose, succeed
from apportion.console.key_stream import KeysFile, keys_of
from apportion.console.measures import evenness, fair_bound, movement
from apportion.console.output import print_columns, print_json
from apportion.console.source import Hashing, NodesSource
from apportion.errors import CannotPlace, InvalidInput
from apportion.model.topology import Node, Topology
from apportion.placement import catalog
from apportion.placement.api import Placement
from apportion.placement.hashers import Hasher

MADE_KEYS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was measured of one placement, or why nothing was (`refused`)."""

    placement: str
    max_over_mean: float = 0.0
    variation: float = 0.0
    moved_on_add: float = 0.0
    moved_on_remove: float = 0.0
    stray: float = 0.0
    ns_per_key: float = 0.0
    size_bytes: int = 0
    refused: str = ""


def compare(
    *,
    nodes: NodesSource = NodesSource(),  # noqa: B008 - a frozen value
    hashing: Hashing = Hashing(),  # noqa: B008
    keys: KeysFile = None,
    column: str | None = None,
    json: bool = False,
) -> None:
    """Measure all placements: evenness, what one node more and one node less would move, time, memory.

    Parameters
    ----------
    keys
        File with one key a line, or - for standard input; without it, 50 000 made-up keys.
    column
        Take the keys from this column of a CSV file with a header.
    json
        Print one JSON object instead.
    """
    topology, hasher = nodes.load_topology(), hashing.load_hasher()
    listed = [b"key-%d" % number for number in range(MADE_KEYS)] if keys is None else list(keys_of((), keys, column))
    if not listed:
        raise InvalidInput("--keys", keys, "a file with at least one key", "Check the file.")
    added, removed = _changes(topology)
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        names = progress.track(catalog.names(), description="Comparing")
        rows = [_measured(name, topology, (added, removed), hasher, listed) for name in names]
    bounds = fair_bound(topology, added), fair_bound(topology, removed)
    if json:
        measured = [asdict(row) for row in rows]
        print_json("compare", keys=len(listed), add_bound=bounds[0], remove_bound=bounds[1], placements=measured)
    else:
        print(f"{topology!r}, {len(listed)} {'made-up ' if keys is None else ''}keys")
        _print(rows, bounds)


def _changes(topology: Topology) -> tuple[Topology, Topology]:
    """Return the topology with one node more, of the weight of the first, and with the last one gone."""
    eligible = [node for node in topology if node.weight > 0]
    if len(eligible) < 2:
        raise CannotPlace("a comparison needs two nodes with a weight above 0, to take one away.", "Name more nodes.")
    new_id = next(node_id for node_id in map("~new-{}".format, count()) if node_id not in topology)
    return topology.add(Node(new_id, weight=eligible[0].weight)), topology.without(eligible[-1].id)


def _measured(
    name: str, topology: Topology, changes: tuple[Topology, Topology], hasher: Hasher, keys: list[bytes]
) -> Row:
    try:
        placement, size_bytes = _built(name, topology, hasher)
    except (CannotPlace, InvalidInput) as error:
        return Row(placement=name, refused=error.problem)
    before, ns_per_key = _routed(placement, keys)
    even = evenness(before, topology)
    add, remove = (movement(before, succeed(placement, new).route_many(keys), topology, new) for new in changes)
    return Row(
        placement=name,
        max_over_mean=even.max_over_mean,
        variation=even.variation,
        moved_on_add=add.moved_ratio,
        moved_on_remove=remove.moved_ratio,
        stray=max(add.stray_ratio, remove.stray_ratio),
        ns_per_key=ns_per_key,
        size_bytes=size_bytes,
    )


def _built(name: str, topology: Topology, hasher: Hasher) -> tuple[Placement, int]:
    gc.collect()
    tracemalloc.start()
    try:
        placement = compose(name, topology, hasher=hasher)
        gc.collect()
        return placement, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _routed(placement: Placement, keys: list[bytes]) -> tuple[list[str], float]:
    start = time.perf_counter_ns()
    owners = placement.route_many(keys)
    return owners, (time.perf_counter_ns() - start) / len(keys)


def _print(rows: list[Row], bounds: tuple[float, float]) -> None:
    headings = ("placement", "max/mean", "variation", "moved on add", "on remove", "stray", "ns/key", "bytes")
    cells = [_cells(row) for row in rows if not row.refused]
    print_columns(
        headings, [*cells, ("exact shares", "1.000", "0.0%", f"{bounds[0]:.2%}", f"{bounds[1]:.2%}", "0.00%", "", "")]
    )
    for row in rows:
        if row.refused:
            print(f"{row.placement}: {row.refused}")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.placement,
        f"{row.max_over_mean:.3f}",
        f"{row.variation:.1%}",
        f"{row.moved_on_add:.2%}",
        f"{row.moved_on_remove:.2%}",
        f"{row.stray:.2%}",
        f"{row.ns_per_key:.0f}",
        f"{row.size_bytes}",
    )
