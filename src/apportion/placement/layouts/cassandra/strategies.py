"""Replication strategies of Cassandra: which of the nodes met clockwise hold the replicas of a token.

Promises: Cassandra's own lists, in its order (releases 3.0 to 5.0).
Refuses: datacenters without a node, nodes with a zone other than (datacenter, rack), transient replicas. If replicas
outnumber nodes, Cassandra places fewer. So does this module, and `ReplicaRule.missing` counts the missing ones per
datacenter.
Rules: `docs/algorithms/cassandra.md`.
Source: `SimpleStrategy` and `NetworkTopologyStrategy` of Apache Cassandra.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from apportion.errors import InvalidInput, UnknownOption
from apportion.model.numbers import check_int
from apportion.model.topology import Node, Topology, check_name

Rack: TypeAlias = tuple[str, str]

_NO_TRANSIENT = "Transient replicas (3/1) are not known here."


@dataclass(frozen=True, slots=True)
class ReplicaRule:
    """A strategy on a topology. `racks[i]` is the (datacenter, rack) of node i, None where a node holds nothing.

    For each datacenter, `wanted` is the number of replicas asked for. `repeats` is how many of them may go to a rack
    that already has one.
    """

    racks: tuple[Rack | None, ...]
    wanted: Mapping[str, int]
    nodes: Mapping[str, int]
    repeats: Mapping[str, int]

    @property
    def count(self) -> int:
        """The number of replicas of every key."""
        return sum(self.placed.values())

    @property
    def placed(self) -> dict[str, int]:
        """The number of replicas of every key in each datacenter."""
        return {name: min(wanted, self.nodes[name]) for name, wanted in self.wanted.items()}

    @property
    def missing(self) -> dict[str, int]:
        """The number of replicas without a node, for each datacenter that lacks some."""
        short = {name: wanted - self.nodes[name] for name, wanted in self.wanted.items()}
        return {name: count for name, count in short.items() if count > 0}

    def pick(self, walk: Iterable[int]) -> tuple[int, ...]:
        """Return the replicas among the nodes met clockwise; `walk` names each node once. O(nodes read from it)."""
        left, repeats = self.placed, dict(self.repeats)
        seen: set[Rack] = set()
        chosen: list[int] = []
        for index in walk:
            rack = self.racks[index]
            if rack is None or not left[rack[0]] or (rack in seen and repeats[rack[0]] <= 0):
                continue
            chosen.append(index)
            left[rack[0]] -= 1
            if rack in seen:
                repeats[rack[0]] -= 1
            seen.add(rack)
            if not any(left.values()):
                break
        return tuple(chosen)


@dataclass(frozen=True, slots=True)
class SimpleStrategy:
    """The next `replicas` distinct nodes clockwise, without regard to racks and datacenters.

    >>> SimpleStrategy(3)
    SimpleStrategy(replicas=3)
    """

    replicas: int

    def __post_init__(self) -> None:
        check_int("replicas of SimpleStrategy", self.replicas, 1, hint=_NO_TRANSIENT)

    def rule(self, topology: Topology) -> ReplicaRule:
        """Return the rule on a topology: all nodes belong to one rack of one datacenter, called `cluster`."""
        racks = tuple(("cluster", "") if node.weight > 0 else None for node in topology)
        return _rule(racks, {"cluster": self.replicas})


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NetworkTopologyStrategy:
    """A number of replicas for each datacenter, on distinct racks as long as unused racks are left.

    `replicas` has sorted pairs.

    >>> NetworkTopologyStrategy({"dc2": 2, "dc1": 3})
    NetworkTopologyStrategy({'dc1': 3, 'dc2': 2})
    """

    replicas: tuple[tuple[str, int], ...]

    def __init__(self, replicas: Mapping[str, int]) -> None:
        if not isinstance(replicas, Mapping) or not replicas:
            expected, hint = "a mapping of datacenters to replicas", 'Write NetworkTopologyStrategy({"dc1": 3}).'
            raise InvalidInput("replicas of NetworkTopologyStrategy", replicas, expected, hint)
        for name, count in replicas.items():
            check_int(f"replicas in {check_name('datacenter', name)}", count, 0, hint=_NO_TRANSIENT)
        if not any(replicas.values()):
            raise InvalidInput("replicas of NetworkTopologyStrategy", 0, "at least 1 in all", "Drop the keyspace.")
        object.__setattr__(self, "replicas", tuple(sorted(replicas.items())))

    @property
    def datacenters(self) -> tuple[str, ...]:
        """The datacenters that hold replicas, sorted."""
        return tuple(name for name, count in self.replicas if count > 0)

    def rule(self, topology: Topology) -> ReplicaRule:
        """Return the rule on a topology; raise `InvalidInput` for an unknown datacenter or a node without a rack."""
        racks = [_rack(node) if node.weight > 0 else None for node in topology]
        known = {rack[0] for rack in racks if rack}
        for name in self.datacenters:
            if name not in known:
                raise UnknownOption("datacenter", name, known)
        wanted = {name: count for name, count in self.replicas if count > 0}
        return _rule(tuple(rack if rack and rack[0] in wanted else None for rack in racks), wanted)

    def __reduce__(self) -> "tuple[type[NetworkTopologyStrategy], tuple[dict[str, int]]]":
        return type(self), (dict(self.replicas),)

    def __repr__(self) -> str:
        return f"NetworkTopologyStrategy({dict(self.replicas)!r})"


Strategy: TypeAlias = SimpleStrategy | NetworkTopologyStrategy


def _rule(racks: tuple[Rack | None, ...], wanted: Mapping[str, int]) -> ReplicaRule:
    distinct = Counter(name for name, _ in {rack for rack in racks if rack})
    return ReplicaRule(
        racks=racks,
        wanted=wanted,
        nodes=Counter(rack[0] for rack in racks if rack),
        repeats={name: count - distinct[name] for name, count in wanted.items()},
    )


def _rack(node: Node) -> Rack:
    if len(node.zone) != 2:
        hint = 'Write zone=("dc1", "rack1") for every node, or use SimpleStrategy, which needs none.'
        raise InvalidInput(f"zone of node {node.id!r}", "/".join(node.zone) or None, "a datacenter and a rack", hint)
    return node.zone[0], node.zone[1]
