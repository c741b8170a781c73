"""Placement: the protocol that answers which node handles a key, and the spec of an algorithm.

A placement never changes. `on(topology)` makes the next one, and code that holds the old one is not disturbed.
`PlacementSpec` describes an algorithm to the catalog. Each field is a promise, and the contract tests check it.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Literal, Protocol, Self, TypeAlias

from apportion.errors import InvalidInput, UnknownOption
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.model.topology import Node, Topology
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import DEFAULT
from apportion.placement.spread import Spread

Nodes: TypeAlias = Topology | Iterable[Node | str] | Mapping[str, float]
"""The input that placements are built on; any value but a topology becomes `Topology(nodes)`."""


class Placement(Protocol):
    """Key to node. Pure: the same key gives the same answer in every process, release and machine.

    Every method raises `InvalidInput` for a value that is not a key (see `placement.keys`). The caller owns the
    returned values.
    """

    @property
    def topology(self) -> Topology:
        """The nodes that can be an answer; indexes refer to their order."""

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""

    def route_many(self, keys: Iterable[Key], *, threads: int = 1) -> list[str]:
        """Return the node ids of many keys, in the order of the keys.

        `threads` is the number of threads that the native twin may use, if the placement has a twin. The reference
        uses one.
        """

    def route_indexes(self, keys: Iterable[Key], *, threads: int = 1) -> "array[int]":
        """Return indexes into `topology.nodes`, in the order of the keys.

        The result is a buffer of 16-bit integers, or of 32-bit integers above 65 536 nodes.
        """

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return `count` distinct nodes for a key, its owner first, no two in one zone.

        `spread_level` compares zones only by their levels 0 .. `spread_level`. `spread="best-effort"` reuses zones
        once all are used. A shorter list is the beginning of a longer one. Raises `NotEnoughNodes`.
        """

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table | None:
        """Return all answers as a table of preference lists; None if this placement is a function of the key."""

    def explain(self, key: Key) -> Explanation:
        """Return why a key is at its node, and where it would go next."""

    def on(self, topology: Topology) -> Self:
        """Return the placement of the same kind on another topology; this one does not change."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSpec:
    """The description of an algorithm; a call of the spec builds the placement.

    A field that is left out makes no promise.

    - `minimal_disruption`: no stray moves when nodes come, go or change weight (for the removals that `removes`
      allows).
    - `weighted`: shares are proportional to weight. Otherwise unequal weights are refused; if `takes` is `"explicit"`,
      the caller decides the shares. A node of weight 0 owns nothing anywhere.
    - `ranked`: preference lists of any length; otherwise lists of the owner alone (or of the owners in an
      assignment).
    - `tabular`: `table()` holds every answer, so plans are exact.
    - `removes`: `"any"` node may leave, or only the `"last"` in order.
    - `takes`: the input of `build`: a `"topology"`, an `"assignment"` of slots, or an `"explicit"` list of owners.
    - `lookup`: the cost of one lookup: `"O(1)"`, `"O(log tokens)"`, `"O(log nodes)"` or `"O(nodes)"`.
    """

    name: str
    build: Callable[..., Placement]
    source: str
    minimal_disruption: bool = False
    weighted: bool = False
    ranked: bool = False
    tabular: bool = False
    lookup: Literal["O(1)", "O(log tokens)", "O(log nodes)", "O(nodes)"]
    removes: Literal["any", "last"] = "any"
    takes: Literal["topology", "assignment", "explicit"] = "topology"

    def __call__(self, *args: object, **options: object) -> Placement:
        """Build the placement, as a call of its class would; `UnknownOption` for an option that it does not have."""
        known = signature(self.build).parameters
        takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())
        if (unknown := next((each for each in options if each not in known), None)) and not takes_any:
            raise UnknownOption(f"option of {self.name}", unknown, known)
        return self.build(*args, **options)

    @property
    def takes_hasher(self) -> bool:
        """Whether `build` takes any hasher; otherwise the layout prescribes its own.

        A layout with its own hasher has no option `hasher`, or only one value for it. The answer comes from the
        default of this option, so a spec cannot differ from its placement.
        """
        option = signature(self.build).parameters.get("hasher")
        return option is not None and option.default == DEFAULT


def check_placement(name: str, placement: Placement, call: str = "route_many") -> None:
    """Raise `InvalidInput` for a value without the method `call`, or for a class instead of one of its objects."""
    if isinstance(placement, type) or not callable(getattr(placement, call, None)):
        raise InvalidInput(name, placement, "a placement", "Build one, say Ring(topology).")


def check_topology(topology: Topology) -> Topology:
    """Return `topology`; raise `InvalidInput` for another value, which would lose the cluster name and the epoch."""
    if not isinstance(topology, Topology):
        raise InvalidInput(
            "topology", topology, "a Topology", "Change the topology of the placement: placement.topology.add(...)."
        )
    return topology


def topology_of(nodes: Nodes) -> Topology:
    """Return the topology that the caller passed, or a topology of the listed nodes."""
    return nodes if isinstance(nodes, Topology) else Topology(nodes)


def index_buffer(indexes: Iterable[int], nodes: int) -> "array[int]":
    """Return node indexes as a 16-bit buffer if it can hold `nodes` values, else as a 32-bit buffer."""
    return array("H" if nodes <= 2**16 else "I", indexes)
