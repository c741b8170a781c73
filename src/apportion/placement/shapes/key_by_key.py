"""Placements that answer one key at a time: the owner is looked up or put together, and there is no table.

The base of `lists`, `directory` and `composite`. What they add is `route`.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from apportion.errors import CannotPlace, InvalidInput
from apportion.model.plan import Key
from apportion.model.table import Owners, Table
from apportion.model.topology import Topology
from apportion.placement.api import Placement, index_buffer
from apportion.placement.keys.key_bytes import check_threads, listed
from apportion.placement.spread import Spread, spread_rule

AS_THEY_ARE = "exact-bytes"
"""What stands for a hasher where keys are compared as they are."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class KeyByKey(ABC):
    """The half that these placements share; a kind of it says which node handles a key."""

    topology: Topology

    @abstractmethod
    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""

    def route_many(self, keys: Iterable[Key], *, threads: int = 1) -> list[str]:
        """Return the node ids of many keys, in their order."""
        check_threads(threads)
        return [self.route(key) for key in listed(keys)]

    def route_indexes(self, keys: Iterable[Key], *, threads: int = 1) -> "array[int]":
        """Return indexes into `topology.nodes` as a buffer, in the order of the keys."""
        check_threads(threads)
        index = self.topology.index
        return index_buffer((index(self.route(key)) for key in listed(keys)), len(self.topology))

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> None:
        """Return None, for a list length that could be asked for: single keys make no table."""
        spread_rule(self.topology, replicas, level=spread_level, spread=spread)


def led_by(
    first: Owners, base: Placement, key: Key, count: int, *, spread_level: int | None, spread: Spread
) -> tuple[str, ...]:
    """Return `count` nodes: those of `first`, then the base's for the key without them, each zone once (see `spread`).

    A shorter list is the beginning of a longer one, as the base's are. Raises `NotEnoughNodes`.
    """
    rule = spread_rule(base.topology, count, level=spread_level, spread=spread)
    if count == 1:
        return first[:1]
    # Zones that are used again are gone round in order of the whole list. Else one node less is nearly always enough,
    # which lets a base that ranks few nodes name what it can.
    owning = sum(node.weight > 0 for node in base.topology)
    picked: tuple[int, ...] = ()
    for wanted in (owning,) if rule.reuses_domains else (count - 1, count):
        others = base.preference(key, wanted, spread_level=spread_level, spread=spread)
        picked = rule.pick(map(base.topology.index, dict.fromkeys((*first, *others))))
        if len(picked) == count:
            break
    return tuple(base.topology.ids[index] for index in picked)


def check_base(base: Placement) -> None:
    """Raise `InvalidInput` for what is no placement to build on."""
    if isinstance(base, (type, Table)) or not callable(getattr(base, "route_many", None)):
        raise InvalidInput("base", base, "a placement", "Build one, say Ring(topology).")


def check_owns(node_id: str, topology: Topology, what: str, hint: str) -> None:
    """Raise `UnknownNode` or, where the node drains, `CannotPlace`: what names it would be handled by nobody."""
    if topology[node_id].weight == 0:
        raise CannotPlace(f"{what} is given to {node_id!r}, which drains (weight 0) and owns nothing.", hint)
