"""Random clusters under Helix: names of one hash or beyond 16 bits, zones or not, weights, nodes that are down."""

from dataclasses import dataclass

from hypothesis import strategies as st

from apportion import Node, Topology

# The first six have one hash, two by two or four by four; the last are out of order for Python.
ODD_NAMES = ["Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB", "é", "\N{GRINNING FACE}", "\uff21", "zone0"]
NAMES = [*ODD_NAMES, *(f"localhost_{12000 + number}" for number in range(30))]
WEIGHTS = [0, 0.5, 1, 1, 1, 2, 3, 4]
MODELS = ["MasterSlave", "LeaderStandby", "OnlineOffline"]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What is asked of a strategy."""

    topology: Topology
    live: tuple[str, ...]
    replicas: int
    partitions: tuple[str, ...]

    def asked(self, resource="orders"):
        """Return the arguments of a strategy."""
        return {
            "resource": resource,
            "partitions": self.partitions,
            "replicas": self.replicas,
            "topology": self.topology,
            "live": self.live,
        }

    def zone_of(self, node):
        """Return the zone of a node, its own name when it has none."""
        return self.topology[node].zone or node


@st.composite
def clusters(draw, *, weights=tuple(WEIGHTS), most_nodes=12, most_partitions=12):
    """Draw a cluster in which at least one node with a weight is live."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=most_nodes, unique=True))
    zones = draw(st.sampled_from([[()], [("a",), ("b",), ("c",)], [(), ("a",), ("eu", "b")], [("z1",), ("z2",)]]))
    nodes = [
        Node(name, zone=draw(st.sampled_from(zones)), weight=draw(st.sampled_from(weights)) if number else 1)
        for number, name in enumerate(names)
    ]
    dead = draw(st.sets(st.sampled_from(names), max_size=2)) - {names[0]}
    return Cluster(
        topology=Topology(nodes),
        live=tuple(name for name in names if name not in dead),
        replicas=draw(st.integers(1, 5)),
        partitions=tuple(
            draw(st.lists(st.sampled_from([*NAMES, "p|1", "p"]), min_size=1, max_size=most_partitions, unique=True))
        ),
    )
