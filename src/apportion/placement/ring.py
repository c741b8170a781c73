"""Consistent hashing: nodes and keys share one circle; a key belongs to the first token at or after its hash.

Promises: when a node comes, goes or changes weight, only keys that it gains or loses move (exact, not on average).
Shares follow weights, with a relative error of about 1 / sqrt(tokens of the node). The ring of a topology is the same
after any order of changes.
Refuses: hashes of fewer than 64 bits, because their tokens collide; more than 2**24 tokens. For even shares by
construction see `slots`, for exact shares without memory `rendezvous`.

Format: `docs/algorithms/ring.md`.
Source: Karger et al. 1997; tokens per weight as in Dynamo (DeCandia et al. 2007).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self

from apportion.errors import InvalidInput, NoNodes
from apportion.errors.brief import brief
from apportion.model.numbers import check_int
from apportion.model.table import MAX_TOKENS
from apportion.model.token import Token
from apportion.model.topology import Node, Topology
from apportion.placement.api import Nodes, PlacementSpec, check_topology, topology_of
from apportion.placement.hashers import DEFAULT, Hasher, position_of, resolve
from apportion.placement.shapes.circle import Circle
from apportion.placement.shapes.rebuilt import Rebuilt
from apportion.placement.shapes.ring_tokens import ring_tokens


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Ring(Rebuilt, Circle):
    """A hash ring with `vnodes` tokens for a node of weight 1.

    Build: O(tokens log tokens), the next version O(tokens). Lookup: O(log tokens).
    Memory: at most 16 bytes per token, without the native twin about 100.

    >>> ring = Ring(["a", "b", "c"])
    >>> ring.route("tenant-42"), ring.preference("tenant-42", 2)
    ('c', ('c', 'a'))
    >>> ring.on(ring.topology.without("c")).route("tenant-42")
    'a'
    """

    _OPTIONS = ("vnodes", "hasher")

    vnodes: int

    def __init__(self, nodes: Nodes, *, vnodes: int = 150, hasher: str | Hasher = DEFAULT) -> None:
        topology, chosen = topology_of(nodes), resolve(hasher, least_bits=64)
        hint = "The default, 150, keeps nodes within about 8 % of their share."
        check_int("vnodes", vnodes, 1, MAX_TOKENS, hint=hint)
        self._fill_ring(topology, chosen, vnodes)

    def _fill_ring(self, topology: Topology, hasher: Hasher, vnodes: int, before: "Ring | None" = None) -> None:
        self._fill(topology, hasher)
        object.__setattr__(self, "vnodes", vnodes)
        count_of = partial(_token_count, vnodes=vnodes)
        self._lay_tokens(topology, hasher, count_of, _check_tokens, before)

    def on(self, topology: Topology) -> Self:
        """Return the ring of another topology, with the same tokens for every node that is in both."""
        ring = type(self).__new__(type(self))
        ring._fill_ring(check_topology(topology), self.hasher, self.vnodes, self)
        return ring

    @property
    def _met_by_walks(self) -> Topology:
        return self.topology

    def _tokens_of(self, index: int) -> Iterator[Token]:
        node = self.topology.nodes[index]
        return ring_tokens(node.id, _token_count(node, self.vnodes), position_of(self.hasher))


def _check_tokens(tokens: int) -> None:
    if tokens == 0:
        raise NoNodes("a ring")
    if tokens > MAX_TOKENS:
        expected, hint = f"at most MAX_TOKENS = {MAX_TOKENS}", "Lower vnodes, or give the ordinary node weight 1."
        raise InvalidInput("tokens of the ring (vnodes times weights)", tokens, expected, hint)


def _token_count(node: Node, vnodes: int) -> int:
    """Return the number of tokens of a node: 0 if it drains, else in proportion to its weight and at least 1."""
    return max(1, (vnodes * node.millionths + 500_000) // 1_000_000) if node.millionths else 0


SPEC = PlacementSpec(
    name="ring",
    build=Ring,
    source="Karger et al. 1997",
    minimal_disruption=True,
    weighted=True,
    ranked=True,
    tabular=True,
    lookup="O(log tokens)",
)
