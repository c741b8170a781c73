"""Key by key: the base of placements that look up or compose the owner of one key at a time, without a table.

The base of `lists`, `directory` and `composite`, and of the computed placements. Each of these adds `route`.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from apportion.errors import CannotPlace, NotEnoughNodes
from apportion.model.plan import Key
from apportion.model.table import Owners, Table
from apportion.model.topology import Topology
from apportion.placement.api import Placement, index_buffer
from apportion.placement.keys.key_bytes import check_threads, listed
from apportion.placement.shapes.other_names import OtherNames
from apportion.placement.spread import Spread, spread_rule

AS_THEY_ARE = "exact-bytes"
"""The label in place of a hasher, if keys are compared as they are."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class KeyByKey(OtherNames, ABC):
    """The shared half of these placements; a subclass names the node that handles a key."""

    _NO_SECOND: ClassVar[str] = "which name one node for a value"

    topology: Topology

    @abstractmethod
    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""

    def route_many(self, keys: Iterable[Key], *, threads: int = 1) -> list[str]:
        """Return the node ids of many keys, in the order of the keys."""
        check_threads(threads)
        return [self.route(key) for key in listed(keys)]

    def route_indexes(self, keys: Iterable[Key], *, threads: int = 1) -> "array[int]":
        """Return indexes into `topology.nodes` as a buffer, in the order of the keys."""
        check_threads(threads)
        index = self.topology.index
        return index_buffer((index(self.route(key)) for key in listed(keys)), len(self.topology))

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return the owner as a list of one; `NotEnoughNodes` for a larger count, since no second node is known."""
        spread_rule(self.topology, count, level=spread_level, spread=spread)
        owner = self.route(key)
        if count > 1:
            raise NotEnoughNodes(count, [owner], f"from {type(self).__name__}, {self._NO_SECOND}")
        return (owner,)

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table | None:
        """Check the options and return None; a subclass that has a table returns it."""
        spread_rule(self.topology, replicas, level=spread_level, spread=spread)
        return None


def led_by(
    first: Owners, base: Placement, key: Key, count: int, *, spread_level: int | None, spread: Spread
) -> tuple[str, ...]:
    """Return `count` nodes: those of `first`, then the others in the base's list for the key, each zone once.

    See `spread` for zones. A shorter list is the beginning of a longer one, as in the base. Raises `NotEnoughNodes`.
    """
    rule = spread_rule(base.topology, count, level=spread_level, spread=spread)
    if count == 1:
        return first[:1]
    # If zones are reused, they take turns in the order of the whole list, so the whole list is needed. Otherwise,
    # `count - 1` nodes of the base are nearly always enough. They are tried first, because a base that ranks few nodes
    # refuses longer lists.
    owning = sum(node.weight > 0 for node in base.topology)
    picked: tuple[int, ...] = ()
    for wanted in (owning,) if rule.reuses_domains else (count - 1, count):
        others = base.preference(key, wanted, spread_level=spread_level, spread=spread)
        picked = rule.pick(map(base.topology.index, dict.fromkeys((*first, *others))))
        if len(picked) == count:
            break
    return tuple(base.topology.ids[index] for index in picked)


def check_owns(node_id: str, topology: Topology, what: str, hint: str) -> None:
    """Raise `UnknownNode` for an unknown node, `CannotPlace` for a draining one: no node would handle its items."""
    if topology[node_id].weight == 0:
        raise CannotPlace(f"{what} is given to {node_id!r}, which drains (weight 0) and owns nothing.", hint)
