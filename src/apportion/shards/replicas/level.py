"""Levels: the nodes that must answer before a call is complete, as numbers over lists of nodes.

A need names a list of nodes and a count. A call is complete once each of its needs has its count of answers. Two needs,
one for each list, are the rule of a slot that moves: an answer counts in both lists where its node is in both.

Promises: at `quorum`, any complete put and any complete get of one list share a node, as W + R > N.
Refuses: to count hints, and nodes outside of the list.
Source: Gifford, Weighted Voting for Replicated Data, 1979; the levels have Cassandra's names.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from apportion.errors import InvalidInput, UnknownOption

Level = Literal["one", "quorum", "local_quorum", "all"]


@dataclass(frozen=True, slots=True)
class NodeNeed:
    """A count of answers from a list of nodes.

    >>> need = NodeNeed(("a", "b", "c"), 2)
    >>> need.is_met({"a", "d"}), need.is_met({"a", "c"})
    (False, True)
    """

    nodes: tuple[str, ...]
    count: int

    def is_met(self, answered: Collection[str]) -> bool:
        """Whether enough nodes of the list have answered. O(nodes)."""
        return self.found(answered) >= self.count

    def found(self, answered: Collection[str]) -> int:
        """Return the number of nodes of the list that have answered."""
        return sum(node in answered for node in self.nodes)


Needs = tuple[NodeNeed, ...]


def are_met(needs: Iterable[NodeNeed], answered: Collection[str]) -> bool:
    """Whether every need has its count of answers."""
    return all(need.is_met(answered) for need in needs)


def needs_of(
    level: Level, owners: Sequence[str], datacenters: Mapping[str, str], datacenter: str | None = None
) -> Needs:
    """Return the needs of a level over one list. `datacenter` is the caller's own; `local_quorum` counts there alone.

    >>> needs_of("quorum", ["a", "b", "c"], {})
    (NodeNeed(nodes=('a', 'b', 'c'), count=2),)
    >>> places = {"a": "dc1", "b": "dc1", "c": "dc1", "d": "dc2", "e": "dc2"}
    >>> needs_of("local_quorum", ["a", "b", "c", "d", "e"], places, "dc1")
    (NodeNeed(nodes=('a', 'b', 'c'), count=2),)
    """
    nodes = tuple(owners)
    if level == "local_quorum":
        nodes = tuple(node for node in nodes if datacenters.get(node) == datacenter)
    count = {"one": 1, "all": len(nodes)}.get(level, len(nodes) // 2 + 1)
    return (NodeNeed(nodes, count),)


def checked_level(level: Level, datacenter: str | None, datacenters: Collection[str]) -> Level:
    """Return a level that a map can serve; `UnknownOption`, or `InvalidInput` for `local_quorum` without a place."""
    if level not in get_args(Level):
        raise UnknownOption("consistency", level, get_args(Level))
    if level == "local_quorum" and datacenter is None:
        hint = "Pass datacenter= to open_map, or use quorum."
        raise InvalidInput("consistency", level, "quorum, because no data centre was named at opening", hint)
    if datacenter is not None and datacenter not in datacenters:
        if not datacenters:
            hint = 'Leave it out, or create the map with copies={"dc1": 3, "dc2": 2}.'
            raise InvalidInput("datacenter", datacenter, "none: the map counts its copies without data centres", hint)
        raise UnknownOption("datacenter", datacenter, datacenters)
    return level
