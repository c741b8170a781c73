"""`apportion tour`: routing on real keys, in plain words. Every figure is computed while you watch."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from apportion.balance.comparison import evenness, fair_bound, movement
from apportion.balance.succession import succeed
from apportion.console.files.key_stream import batches_of
from apportion.console.files.topology_file import read_topology
from apportion.console.options.arguments import Json
from apportion.console.options.composition import compose
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.tour.peer import peer_name, peer_routes
from apportion.console.tour.places import FILE, places
from apportion.errors import InvalidInput, shown
from apportion.model.topology import Node, Topology
from apportion.placement.plans import plan

HERE = Path(__file__).parent
TOPOLOGY = HERE / "topology.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The cost of the change under one method."""

    name: str
    max_over_mean: float
    moved_ratio: float
    stray_ratio: float


def tour(*, keys: Path | None = None, topology: Path | None = None, json: Json = False) -> None:
    """Route real keys, show the balance, plan a change, and compare it with the moves of other methods.

    Parameters
    ----------
    keys
        File with one key per line (default: 69 472 places of the world, from GeoNames, CC BY 4.0).
    topology
        Topology file (default: nine nodes of unequal weight in three data centres).
    """
    started = time.perf_counter()
    file = keys or FILE
    with Progress("touring", "keys", is_shown=not json) as progress:
        listed = list(progress.joined(batches_of((), str(keys), None))) if keys else places()
        if not listed:
            raise InvalidInput("--keys", str(file), "a file with at least one key", "Check the file.")
        old = read_topology(topology or TOPOLOGY)
        new, words = _changed(old)
        methods = list(_methods(old, new, listed))
    if json:
        print_json("tour", keys=len(listed), change=words, methods=[asdict(method) for method in methods])
        return
    _tell_routing(old, file, listed)
    _tell_plan(old, new, words, listed)
    _tell_methods(methods, fair_bound(old, new))
    print_text(f"\nDone in {time.perf_counter() - started:.1f} s. On your keys and nodes:")
    print_text("  apportion tour --keys keys.txt --topology nodes.toml")
    print_text("  apportion compare --topology nodes.toml --keys keys.txt")


def _changed(old: Topology) -> tuple[Topology, str]:
    """Return the topology after one node joins and one leaves, and a description of the change."""
    eligible = [node for node in old if node.weight > 0]
    if len(eligible) < 2:
        hint = "Add nodes to the file."
        raise InvalidInput("--topology", f"{len(eligible)} nodes with a weight above 0", "two or more", hint)
    leaving, heaviest = eligible[1], max(eligible, key=lambda node: node.weight)
    joining = next(node_id for node_id in map("new-{}".format, count(1)) if node_id not in old)
    new = old.add(Node(joining, zone=leaving.zone, weight=heaviest.weight)).without(leaving.id)
    return new, f"{joining} (weight {heaviest.weight:g}) joins and {leaving.id} (weight {leaving.weight:g}) leaves"


def _methods(old: Topology, new: Topology, keys: list[bytes]) -> Iterator[Method]:
    for name in ("slots", "ring"):
        placement = compose(name, old)
        yield _method(
            f"apportion {name}", placement.route_many(keys), succeed(placement, new).route_many(keys), old, new
        )
    if peer_name() is not None:
        yield _method(peer_name() or "", peer_routes(old, keys), peer_routes(new, keys), old, new)
    # Modulo knows no weights, so it gets equal ones.
    before, after = (compose("modulo", Topology(node.id for node in side if node.weight > 0)) for side in (old, new))
    yield _method("hash(key) % n", before.route_many(keys), after.route_many(keys), old, new)


def _method(name: str, before: Sequence[str], after: Sequence[str], old: Topology, new: Topology) -> Method:
    moves = movement(before, after, old, new)
    even = evenness(before, old)
    return Method(
        name=name, max_over_mean=even.max_over_mean, moved_ratio=moves.moved_ratio, stray_ratio=moves.stray_ratio
    )


def _tell_routing(topology: Topology, file: Path, keys: list[bytes]) -> None:
    source = "places of the world (GeoNames, CC BY 4.0)" if file == FILE else f"keys of {file.name}"
    zones = {node.zone[0] for node in topology if node.zone}
    print_text(f"1. The owner of each key: {len(keys)} {source} on {len(topology)} nodes in {len(zones)} data centres.")
    print_text("   Keys go to 4 096 hash slots or more, slots to nodes in proportion to weight.\n")
    placement = compose("slots", topology)
    owners = placement.route_many(keys)
    counts = Counter(owners)
    total = sum(node.weight for node in topology)
    print_columns(
        ("   node", "zone", "weight", "keys", "share", "fair share"),
        [
            (
                f"   {node.id}", "/".join(node.zone), f"{node.weight:g}", f"{counts[node.id]}",
                f"{counts[node.id] / len(keys):.2%}", f"{node.weight / total:.2%}",
            )
            for node in topology
        ],
    )  # fmt: skip
    example = keys[len(keys) // 2]
    print_text(f"\n   For example, {shown(example.decode(errors='replace'))} is on {placement.route(example)}:")
    print_text(f"   {placement.explain(example).why}.")


def _tell_plan(old: Topology, new: Topology, words: str, keys: list[bytes]) -> None:
    placement = compose("slots", old)
    following = succeed(placement, new)
    exact, counted = plan(placement, following), plan(placement, following, keys)
    print_text(f"\n2. The moves if {words}. The plan, exact over all 2**64 hashes:\n")
    print_text(f"   {exact}\n")
    print_text(f"   That is {len(counted.changes)} of the {len(keys)} keys ({counted.moved_ratio:.2%}).")
    print_text("   Every other key stays where it is.")


def _tell_methods(methods: list[Method], bound: float) -> None:
    print_text("\n3. The same change under other methods:\n")
    rows = [(f"   {m.name}", f"{m.moved_ratio:.2%}", f"{m.stray_ratio:.2%}", f"{m.max_over_mean:.3f}") for m in methods]
    least = ("   exact shares, least moves", f"{bound:.2%}", "0.00%", "1.000")
    print_columns(("   method", "keys moved", "moved without need", "fullest node / fair"), [*rows, least])
    if peer_name() is None:
        print_text("   (uhashring is not installed; pip install uhashring to see it here)")
    print_text("\n   Counted over these keys; a sample of keys differs a little from the exact shares.")
    print_text("   hash(key) % n knows no weights and loads all nodes alike; the last column shows the cost.")
    slots, modulo = methods[0], methods[-1]
    print_text(f"   {modulo.name} would move {modulo.moved_ratio:.0%} of the keys, slots {slots.moved_ratio:.0%}.")
