"""Cases for the balancer, from a seed: a topology, an assignment before, the nodes that are up, and the request.

They lean towards hard cases: lists that share zones, lists too long or too short, owners that are gone, nodes that
drain, partitions that are new, weights far apart.
"""

from dataclasses import dataclass
from random import Random

from apportion import Assignment, Node, Topology, balance
from tests import invariants

WEIGHTS = (0, 0.001, 1, 1, 1, 1, 1, 2, 3, 1e9)


@dataclass(frozen=True, kw_only=True)
class Case:
    """The question for the balancer."""

    partitions: "int | list[str]"
    replicas: int
    topology: Topology
    previous: Assignment | None
    live: "list[str] | None"
    spread: str

    def solved(self) -> Assignment:
        """Return the answer."""
        return balance.optimal(
            self.partitions,
            self.replicas,
            self.topology,
            previous=self.previous,
            live=self.live,
            spread=self.spread,
        )


def case(random: Random, *, most_nodes: int, most_partitions: int, most_replicas: int) -> Case:
    """Return a case that has an answer."""
    old, new = (_topology(random, most_nodes) for _ in range(2))
    count = random.randint(1, most_partitions)
    names = random.sample([f"p{number}" for number in range(most_partitions + 2)], count)
    partitions = count if random.random() < 0.5 else names
    live = None if random.random() < 0.6 else _live(random, new)
    eligible = {node.id: node.fault_domain() for node in new if node.weight and (live is None or node.id in live)}
    is_strict = random.random() < 0.7
    most = min(most_replicas, len(set(eligible.values()))) if is_strict else most_replicas
    replicas = random.randint(1, most)
    previous = _previous(random, old, most_partitions, replicas)
    if previous is not None and random.random() < 0.4:
        # Often a step starts where another one ended.
        spread, wanted = "best-effort", random.choice([replicas, replicas, 2])
        previous = balance.optimal(partitions, wanted, old, previous=previous, spread=spread)
    return Case(
        partitions=partitions,
        replicas=replicas,
        topology=new,
        previous=previous,
        live=live,
        spread="strict" if is_strict else "best-effort",
    )


def _topology(random: Random, most_nodes: int) -> Topology:
    zones = [()] * (random.random() < 0.5) + [(f"z{number}",) for number in range(random.randint(1, 4))]
    weights = (1,) if random.random() < 0.5 else WEIGHTS
    ids = random.sample([f"n{number:02}" for number in range(most_nodes + 1)], random.randint(1, most_nodes))
    nodes = [Node(node_id, zone=random.choice(zones), weight=random.choice(weights)) for node_id in ids]
    return Topology(nodes if any(node.weight for node in nodes) else [*nodes, "own"])


def _live(random: Random, topology: Topology) -> "list[str]":
    up = [node.id for node in topology if random.random() < 0.7]
    owning = [node.id for node in topology if node.weight]
    return up if set(up) & set(owning) else [*up, random.choice(owning)]


def _previous(random: Random, topology: Topology, most_partitions: int, replicas: int) -> Assignment | None:
    if random.random() < 0.1:
        return None
    rows = []
    for _ in range(random.randint(1, most_partitions)):
        length = min(len(topology), random.choice((0, replicas, replicas, replicas, replicas + 1)))
        rows.append(tuple(random.sample(range(len(topology)), length)))
    names = None
    if random.random() < 0.5:
        names = tuple(random.sample([f"p{number}" for number in range(most_partitions + 2)], len(rows)))
    return Assignment(topology=topology, rows=tuple(rows), names=names)


def check(seed: int) -> None:
    """Check the answer to a case of ten nodes or so against every promise; print the seed if one is broken."""
    asked = case(Random(seed), most_nodes=12, most_partitions=40, most_replicas=4)
    try:
        answer = asked.solved()
        balance.verify(answer, previous=asked.previous, topology=asked.topology)
        invariants.lists_are_spread(answer, asked.live)
        again = balance.optimal(
            asked.partitions, asked.replicas, asked.topology, previous=answer, live=asked.live, spread=asked.spread
        )
        assert (answer.home_rows, 0) == (again.home_rows, again.certificate.home.moves), "even, and yet it moved"
    except Exception:
        print(f"small.check({seed}) failed")
        raise
