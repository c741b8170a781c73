"""What a placement is, and what one promises.

A placement answers which node handles a key. It never changes: `on(topology)` makes the next one, and whoever holds the
old one is undisturbed. `PlacementSpec` is how an algorithm presents itself to the catalog; each field is a promise that
the contract tests hold it to.
"""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import signature
from typing import Literal, Protocol, Self, TypeAlias

from apportion.errors import InvalidInput
from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.model.topology import Node, Topology
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import DEFAULT
from apportion.placement.spread import Spread

Nodes: TypeAlias = Topology | Iterable[Node | str]
"""What placements are built on; anything but a topology becomes `Topology(nodes)`."""


class Placement(Protocol):
    """Key to node. Pure: the same key gives the same answer in every process, release and machine.

    Every method raises `InvalidInput` for what is no key (see `placement.keys`) and returns values the caller owns.
    """

    @property
    def topology(self) -> Topology:
        """The nodes that the answers are about; indexes refer to its order."""

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""

    def route_many(self, keys: Iterable[Key], *, threads: int = 1) -> list[str]:
        """Return the node ids of many keys, in their order.

        `threads` is how many the native twin may use, where the placement has one; the reference uses one.
        """

    def route_indexes(self, keys: Iterable[Key], *, threads: int = 1) -> "array[int]":
        """Return indexes into `topology.nodes`, in order, as a buffer of 16-bit (or, above 65 536 nodes, 32-bit)
        integers."""

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return `count` distinct nodes for a key, its owner first, no two in one zone.

        `spread_level` compares zones by their levels 0 .. `spread_level` only. `spread="best-effort"` reuses zones
        once all are used. A shorter list is the beginning of a longer one. Raises `NotEnoughNodes`.
        """

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table | None:
        """Return every answer as a table, rows being preference lists; None if this placement is a function of the
        key."""

    def explain(self, key: Key) -> Explanation:
        """Return why a key is where it is, and where it would go."""

    def on(self, topology: Topology) -> Self:
        """Return the placement of the same kind on another topology; this one stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSpec:
    """How an algorithm presents itself; calling a spec builds the placement.

    - `minimal_disruption`: no stray moves when nodes come, go or change weight (within what `removes` allows).
    - `weighted`: shares are proportional to weight; otherwise unequal weights are refused, or, where `takes` is
      `"explicit"`, left to who writes the data. A node of weight 0 owns nothing anywhere.
    - `ranked`: preference lists of any length; otherwise of the owner alone (or what an assignment holds).
    - `tabular`: `table()` holds every answer, so plans are exact.
    - `removes`: `"any"` node may leave, or only the `"last"` in order.
    - `takes`: what `build` wants: a `"topology"`, an `"assignment"` of slots, or an `"explicit"` list of who owns what.
    - `lookup`: how one lookup grows: `"O(1)"`, `"O(log tokens)"`, `"O(log nodes)"` or `"O(nodes)"`.
    """

    name: str
    build: Callable[..., Placement]
    source: str
    minimal_disruption: bool
    weighted: bool
    ranked: bool
    tabular: bool
    lookup: Literal["O(1)", "O(log tokens)", "O(log nodes)", "O(nodes)"]
    removes: Literal["any", "last"] = "any"
    takes: Literal["topology", "assignment", "explicit"] = "topology"

    def __call__(self, *args: object, **options: object) -> Placement:
        """Build the placement, as calling its class would."""
        return self.build(*args, **options)

    @property
    def takes_hasher(self) -> bool:
        """Whether `build` takes any hasher; else the layout prescribes its own, and has no such option or one value.

        Read off the option's default, so that no spec can say otherwise than its placement does.
        """
        option = signature(self.build).parameters.get("hasher")
        return option is not None and option.default == DEFAULT


def check_topology(topology: Topology) -> Topology:
    """Return `topology`; `InvalidInput` for anything else, so that no change forgets the cluster and the epoch."""
    if not isinstance(topology, Topology):
        raise InvalidInput("topology", topology, "a Topology", "Change the one there is: placement.topology.add(...).")
    return topology


def topology_of(nodes: Nodes) -> Topology:
    """Return the topology that a caller passed, or made from the nodes that it listed."""
    return nodes if isinstance(nodes, Topology) else Topology(nodes)


def index_buffer(indexes: Iterable[int], nodes: int) -> "array[int]":
    """Return node indexes as the narrowest of a 16-bit and a 32-bit buffer that holds `nodes` values."""
    return array("H" if nodes <= 2**16 else "I", indexes)
