"""Random clusters of Cassandra, and the dumb twins of its rules: sets and sorted lists, no state that changes."""

from random import Random

from apportion import Node, Topology
from apportion.placement.layouts.cassandra import NetworkTopologyStrategy, SimpleStrategy

LEAST, MOST = -(2**63), 2**63 - 1


def simple_replicas(token, tokens, replicas):
    """Return the first distinct nodes clockwise from a token."""
    clockwise = _clockwise(token, tokens)
    return tuple(node for place, node in enumerate(clockwise) if node not in clockwise[:place])[:replicas]


def network_replicas(token, tokens, racks, replicas):
    """Return the replicas, datacenter by datacenter, and then put together in the order of the ring.

    `racks` gives the (datacenter, rack) of each node. In a datacenter the first node of each rack may be taken, and of
    the others the first few, as many as the replicas exceed the racks.
    """
    nodes = simple_replicas(token, tokens, len(tokens))
    chosen = [taken for name, count in replicas.items() for taken in _taken_in(name, count, nodes, racks)]
    return tuple(sorted(chosen, key=nodes.index))


def _taken_in(name, count, nodes, racks):
    here = [node for node in nodes if racks[node][0] == name]
    firsts = [node for place, node in enumerate(here) if racks[node] not in [racks[other] for other in here[:place]]]
    repeats = [node for node in here if node not in firsts][: max(0, count - len(firsts))]
    return [node for node in here if node in firsts or node in repeats][:count]


def _clockwise(token, tokens):
    ring = sorted((value, node) for node, values in tokens.items() for value in values)
    return [node for value, node in ring if value >= token] + [node for value, node in ring if value < token]


class Cluster:
    """A random cluster: nodes on racks, their tokens, a strategy for it, and tokens to ask for."""

    def __init__(self, random: Random) -> None:
        racks = {f"dc{number}": random.randint(1, 5) for number in range(1, random.randint(2, 4))}
        self.racks = {}
        for name, count in racks.items():
            for _ in range(random.randint(1, 9)):
                rack = f"rack{random.randint(1, count)}"
                self.racks[f"127.0.0.{len(self.racks) + 1}"] = (name, rack)
        span = random.choice([(LEAST, MOST), (-60, 60)])
        spare = iter({random.randint(*span) for _ in range(90)})
        self.tokens = {node: [next(spare) for _ in range(random.randint(1, 3))] for node in self.racks}
        present = sorted({name for name, _ in self.racks.values()})
        wanted = {name: random.choice([0, 1, 2, 3, 3, 4, 5]) for name in present}
        wanted[random.choice(present)] = random.randint(1, 5)
        self.network = NetworkTopologyStrategy(wanted)
        self.simple = SimpleStrategy(random.randint(1, 5))
        self.topology = Topology(Node(node, zone=rack) for node, rack in self.racks.items())
        held = [value for values in self.tokens.values() for value in values]
        near = [value + step for value in held for step in (-1, 0, 1) if LEAST <= value + step <= MOST]
        self.asked = [LEAST, MOST, *random.choices(near, k=60), *(random.randint(*span) for _ in range(60))]

    @property
    def wanted(self):
        """The replicas of the network strategy, by datacenter."""
        return dict(self.network.replicas)


def clusters(seed, count):
    """Return so many random clusters."""
    random = Random(seed)
    return [Cluster(random) for _ in range(count)]
