"""Clusters to evaluate on: nodes in zones, and resources with numbers of partitions and replicas.

The preset makes eight clusters that resemble production, in the ranges that `docs/balance/evaluate.md` names. A seed
draws the names, the resources, the sizes of zones and the weights.

Promises: a seed always makes the same clusters.
Source: the published evaluation of CrushED names the ranges. Its clusters are not published, so the clusters here are
drawn.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from apportion.balance.evaluation.draws import Draws
from apportion.balance.resources import Resource
from apportion.errors import InvalidInput, NoNodes, NotEnoughNodes
from apportion.errors.brief import brief
from apportion.model.assignment import MAX_PARTITIONS
from apportion.model.numbers import check_int
from apportion.model.topology import Node, Topology, check_name

LEAST_PARTITIONS, MOST_PARTITIONS = 8, 1024
REPLICAS = (2, 3)
WEIGHTS = (0.5, 1.0, 2.0, 3.0)
MAX_RESOURCE_PARTITIONS = 100_000
MAX_REPLICAS = 100

# A size n is drawn with odds of 1/n, in integers.
_SIZES_UP_TO = list(accumulate(2**40 // size for size in range(LEAST_PARTITIONS, MOST_PARTITIONS + 1)))


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Nodes, and the resources that they hold, by name; partition n of a resource r is called `r_n`.

    >>> cluster = Cluster(name="shop", topology=Topology(["a", "b"]), resources={"orders": Resource(3, 2)})
    >>> cluster.partitions("orders")
    ('orders_0', 'orders_1', 'orders_2')
    """

    name: str
    topology: Topology
    resources: Mapping[str, Resource]

    def __post_init__(self) -> None:
        check_name("cluster", self.name)
        zones = {node.fault_domain(): node.id for node in self.topology if node.weight > 0}
        if not zones:
            raise NoNodes("an evaluation")
        if not self.resources:
            raise InvalidInput("resources", 0, "at least 1", "Name the resources that the cluster holds.")
        for name, resource in self.resources.items():
            check_name("resource", name)
            hint = "Check the resource."
            check_int(f"partitions of resource {name}", resource.partitions, 1, MAX_RESOURCE_PARTITIONS, hint=hint)
            check_int(f"replicas of resource {name}", resource.replicas, 1, MAX_REPLICAS, hint=hint)
            if resource.replicas > len(zones):
                error = NotEnoughNodes(resource.replicas, sorted(zones.values()), "in distinct zones")
                error.within(f"resource {name}")
                error.hint = "Add zones, or ask for fewer replicas."
                raise error
        total = sum(map(self.count, self.resources))
        if total > MAX_PARTITIONS:
            expected = f"at most {MAX_PARTITIONS}"
            raise InvalidInput("partitions of all resources together", total, expected, "Leave some resources out.")

    def partitions(self, resource: str) -> tuple[str, ...]:
        """Return the names of the partitions of a resource, by their number."""
        return tuple(f"{resource}_{number}" for number in range(self.count(resource)))

    def count(self, resource: str) -> int:
        """Return the number of partitions of a resource."""
        partitions = self.resources[resource].partitions
        return partitions if isinstance(partitions, int) else len(list(partitions))


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a cluster of the preset, and its irregularity."""

    nodes: int
    zones: int
    resources: int
    is_lopsided: bool = False
    is_weighted: bool = False


SHAPES = (
    Shape(20, 4, 10),
    Shape(30, 3, 20),
    Shape(40, 5, 30),
    Shape(50, 5, 30),
    Shape(60, 6, 25, is_lopsided=True),
    Shape(80, 8, 40, is_weighted=True),
    Shape(120, 4, 50),
    Shape(200, 10, 60),
)


def production_like(shape: Shape, *, seed: int) -> Cluster:
    """Return a cluster of a shape. O(nodes + resources).

    >>> cluster = production_like(SHAPES[0], seed=1)
    >>> cluster.name, len(cluster.topology), len(cluster.resources)
    ('20-nodes-1', 20, 10)
    """
    odd = "-lopsided" if shape.is_lopsided else "-weighted" if shape.is_weighted else ""
    name = f"{shape.nodes}-nodes{odd}-{seed}"
    draws = Draws(seed, name)
    prefix = f"host{draws.below(90) + 10}"
    nodes = [
        Node(f"{prefix}-{number:03}", zone=(f"zone-{zone}",), weight=draws.one_of(WEIGHTS) if shape.is_weighted else 1)
        for number, zone in enumerate(_zones(shape, draws))
    ]
    resources = {f"resource-{number:02}": _resource(draws) for number in range(shape.resources)}
    return Cluster(name=name, topology=Topology(nodes, cluster=name), resources=resources)


def _zones(shape: Shape, draws: Draws) -> list[int]:
    """Return the zone of each node, in turn; in lopsided clusters one node in three gets a zone that is drawn."""
    zones = [number % shape.zones for number in range(shape.nodes)]
    return [draws.below(shape.zones) if shape.is_lopsided and not draws.below(3) else zone for zone in zones]


def _resource(draws: Draws) -> Resource:
    place = bisect_right(_SIZES_UP_TO, draws.below(_SIZES_UP_TO[-1]))
    return Resource(LEAST_PARTITIONS + place, draws.one_of(REPLICAS))
