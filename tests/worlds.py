"""Random worlds: nodes, topologies, tables and histories of change, for Hypothesis and for the soak.

They lean towards what breaks things: few nodes, shared zones, unequal and zero weights, names outside ASCII, rows of
several owners, boundaries next to each other and at the end of the circle.
"""

from collections.abc import Iterator
from random import Random

from hypothesis import strategies as st

from apportion import Node, Table, Topology

POSITIONS = 2**64
NAMES = ("a", "A", "b", "c-1", "db-01", "db-02", "é", "e\u0301", "節点", "x" * 255, "../etc", "n 1")
ZONES = ((), ("eu",), ("eu", "r1"), ("eu", "r2"), ("us", "r1"), ("us", "r2", "shelf"))
WEIGHTS = (0, 0.5, 1, 1, 1, 2, 3.75)

node_ids = st.sampled_from(NAMES)
nodes = st.builds(Node, node_ids, zone=st.sampled_from(ZONES), weight=st.sampled_from(WEIGHTS))
topologies = st.lists(nodes, min_size=1, max_size=6, unique_by=lambda node: node.id).map(Topology)
owning_topologies = topologies.filter(lambda topology: any(node.weight for node in topology))

_near = st.sampled_from([0, 1, 2**32, 2**63 - 1, 2**63, POSITIONS - 1])
positions = st.one_of(st.integers(0, 40), _near, st.integers(0, POSITIONS - 1))

keys = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.binary(max_size=20), st.uuids())


@st.composite
def tables(draw, topology=None):
    """Draw a table of rows of one to three owners, with neighbours that may be equal."""
    topology = draw(topologies) if topology is None else topology
    starts = (0, *sorted(draw(st.sets(positions.filter(bool), max_size=12))))
    rows = tuple(draw(_rows(len(topology))) for _ in starts)
    return Table(topology=topology, hasher="xxh3-64", starts=starts, rows=rows)


def _rows(nodes: int):
    return st.lists(st.integers(0, nodes - 1), min_size=1, max_size=3, unique=True).map(tuple)


def table_of(rows: "list[tuple[int, tuple[str, ...]]]", topology: Topology, **options) -> Table:
    """Return a table from (start, owner ids) pairs, as an example reads best."""
    return Table(
        topology=topology,
        hasher=options.pop("hasher", "xxh3-64"),
        starts=tuple(start for start, _ in rows),
        rows=tuple(tuple(map(topology.index, owners)) for _, owners in rows),
        **options,
    )


def keys_of(random: Random, count: int) -> "list[str]":
    """Return `count` different keys."""
    return [f"tenant-{number:x}" for number in random.sample(range(2**40), count)]


def history(random: Random, steps: int) -> "Iterator[tuple[str, Topology]]":
    """Yield a random topology and what becomes of it: each step's verb, and the topology after it.

    At least one node always owns something.
    """
    topology = Topology(_node(random, f"n{number:02}") for number in range(random.randint(1, 10)))
    yield "begin", topology if _owns(topology) else topology.add("first")
    topology = topology if _owns(topology) else topology.add("first")
    for step in range(steps):
        verb, changed = _changed(random, topology, f"m{step:02}")
        if _owns(changed):
            topology = changed
            yield verb, topology


def _changed(random: Random, topology: Topology, fresh: str) -> tuple[str, Topology]:
    node = random.choice(topology.nodes)
    match random.choice(("add", "without", "heavier", "lighter", "drain")):
        case "add":
            return "add", topology.add(_node(random, fresh))
        case "without":
            return "without", topology.without(node.id)
        case "heavier":
            return "heavier", topology.reweight(node.id, (node.weight or 1) * random.choice((1.5, 2, 3)))
        case "lighter":
            return "lighter", topology.reweight(node.id, node.weight / random.choice((1.5, 2, 4)))
        case _:
            return "drain", topology.drain(node.id)


def _node(random: Random, node_id: str) -> Node:
    return Node(node_id, zone=random.choice(ZONES), weight=random.choice(WEIGHTS))


def _owns(topology: Topology) -> bool:
    return any(node.weight for node in topology)
