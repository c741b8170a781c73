"""Spread: preference lists of nodes that do not fail together.

The input is a ranking of nodes (a walk around the ring, scores of rendezvous). The rule takes the first node of each
fault domain. With `best-effort` it starts again when every domain has been used, so replicas are as far apart as
possible.

Promises: no two nodes of a list share a domain while another domain has an unused node. A list is the beginning of
every longer one.
Refuses: too few domains, unless the caller asked for `best-effort`; too few nodes, always.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.errors import InvalidInput, NotEnoughNodes, UnknownOption
from apportion.model.topology import MAX_ZONE_LEVELS, Topology

Spread: TypeAlias = Literal["strict", "best-effort"]


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """How to take `count` nodes from a ranking; `domains[i]` is the fault domain of node i."""

    count: int
    domains: tuple[Hashable, ...]
    reuses_domains: bool

    def pick(self, ranking: Iterable[int]) -> tuple[int, ...]:
        """Return the chosen node indexes in order. `ranking` names each eligible node once. O(nodes read from it)."""
        if self.reuses_domains:
            return self._pick_in_rounds(ranking)
        chosen: dict[Hashable, int] = {}
        for index in ranking:
            chosen.setdefault(self.domains[index], index)
            if len(chosen) == self.count:
                break
        return tuple(chosen.values())

    def _pick_in_rounds(self, ranking: Iterable[int]) -> tuple[int, ...]:
        """Take the first node of every domain, then the second of every domain, and so on."""
        used: Counter[Hashable] = Counter()
        rounds = []
        for place, index in enumerate(ranking):
            rounds.append((used[self.domains[index]], place, index))
            used[self.domains[index]] += 1
        return tuple(index for _, _, index in sorted(rounds)[: self.count])


def spread_rule(topology: Topology, count: int, *, level: int | None, spread: Spread) -> SpreadRule:
    """Return the rule for lists of `count` nodes; raise `NotEnoughNodes` if no list can exist. O(nodes)."""
    check_options(count, level, spread)
    domains = tuple(node.fault_domain(level) for node in topology)
    eligible = [node for node in topology if node.weight > 0]
    zones = {node.fault_domain(level): node.id for node in eligible}
    if len(eligible) < count:
        raise NotEnoughNodes(count, [node.id for node in eligible], "on distinct nodes")
    if len(zones) < count and spread == "strict":
        raise NotEnoughNodes(count, sorted(zones.values()), "in distinct zones")
    return SpreadRule(count, domains, reuses_domains=len(zones) < count)


def numbered_domains(topology: Topology) -> tuple[list[int], int, int]:
    """Return the number of each node's fault domain, and the counts of owning nodes and of their domains. O(nodes)."""
    numbers: dict[Hashable, int] = {}
    domains = [numbers.setdefault(node.fault_domain(), len(numbers)) for node in topology]
    owning = [domain for domain, node in zip(domains, topology, strict=True) if node.weight > 0]
    return domains, len(owning), len(set(owning))


def check_options(count: int, level: int | None, spread: Spread) -> None:
    """Raise `InvalidInput` for options that no topology could satisfy."""
    if type(count) is not int or count < 1:
        raise InvalidInput("count of nodes", count, "an int of at least 1", "Ask for the owner alone with 1.")
    if level is not None and (type(level) is not int or not 0 <= level < MAX_ZONE_LEVELS):
        hint = "0 is the outermost level of a zone."
        raise InvalidInput("spread_level", level, f"an int in 0 .. {MAX_ZONE_LEVELS - 1}, or None", hint)
    if not isinstance(spread, str) or spread not in ("strict", "best-effort"):
        raise UnknownOption("spread", spread, ("strict", "best-effort"))
