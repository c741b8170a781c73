"""Foreign circles: the circles of other systems, with their own hash, whole weights, and nodes without a token.

The base of `ketama`, `nginx` and `envoy`. Each of these adds the places of a server's tokens.

Promises: the answer of the other system, even if that system leaves a light server without a token. Such a server
owns nothing. A preference list that would need such a server is refused, and the error lists only the others.
Refuses: another hasher, and weights that the other system could not hold. If servers share a token, the smaller id
owns it; the other systems leave this to the way in which they sort.
"""

from abc import abstractmethod
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from apportion.errors import BadWeight, InvalidInput, NoNodes
from apportion.model.plan import Key
from apportion.model.table import MAX_TOKENS
from apportion.model.topology import Node, Topology
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import Hasher
from apportion.placement.shapes.circle import Circle


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Foreign(Circle):
    """A circle on which some nodes may hold no token; lists, tables and explanations omit these nodes."""

    _reachable: Topology = field(compare=False)

    @abstractmethod
    def on(self, topology: Topology) -> "Foreign":
        """Return the same layout of another topology."""

    def _fill_foreign(self, topology: Topology, hasher: Hasher) -> None:
        """Lay the circle. In the topology for preference lists, drain the nodes without a token."""
        self._fill_circle(topology, hasher)
        reached = set(array("I", self._cuts()[1]))
        tokenless = [node.id for index, node in enumerate(topology) if index not in reached]
        object.__setattr__(self, "_reachable", topology.drain(*tokenless) if tokenless else topology)

    @property
    def _met_by_walks(self) -> Topology:
        return self._reachable

    def explain(self, key: Key) -> Explanation:
        """Return the token that owns a key, and the owner in the layout without the present owner. O(tokens)."""
        # Not super(): a dataclass with slots replaces the class in which its methods were written.
        explained = Circle.explain(self, key)
        rest = self.topology.without(explained.owner)
        takeover = self.on(rest).route(key) if any(node.weight for node in rest) else None
        return replace(explained, if_owner_left=takeover)


def owning_nodes(topology: Topology, kind: str) -> list[Node]:
    """Return the nodes that are servers of the layout; raise `BadWeight` for a weight that is not whole.

    A draining node is not a server of the layout: a server list has no way to write it down.
    """
    owning = [node for node in topology if node.weight > 0]
    if not owning:
        raise NoNodes(kind)
    for node in owning:
        if node.millionths % 1_000_000:
            hint = "Multiply all weights by one factor, or take Ring, Rendezvous or Slots."
            raise BadWeight(f"weight of node {node.id!r}", node.weight, f"a whole number, as {kind} has it", hint)
    return owning


def check_distinct(nodes: Sequence[Node], names: Sequence[object], kind: str) -> None:
    """Raise `InvalidInput` if two ids are spellings of one server, because their tokens would be the same."""
    first: dict[object, str] = {}
    for node, name in zip(nodes, names, strict=True):
        other = first.setdefault(name, node.id)
        if other != node.id:
            hint = "Drop one of the two."
            raise InvalidInput("node id", node.id, f"a server that {kind} can tell from {other!r}", hint)


def check_tokens(tokens: int, kind: str) -> None:
    """Raise `InvalidInput` before more tokens are made than a table holds."""
    if tokens > MAX_TOKENS:
        hint = "Divide all weights by one factor: their ratios count."
        raise InvalidInput(f"tokens of {kind}", tokens, f"at most MAX_TOKENS = {MAX_TOKENS}", hint)
