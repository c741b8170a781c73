"""Consistent hashing: nodes and keys are hashed onto one circle; a key belongs to the first token at or after its hash.

Promises: when a node comes, goes or changes weight, only keys that it gains or loses move (exact, not on average);
shares follow weights, as evenly as 1 / sqrt(tokens of the node); the same ring for the same topology, in any order of
changes.
Refuses: hashes of fewer than 64 bits, whose tokens collide; more than 2**24 tokens. For even shares by construction see
`slots`, for exact shares without memory `rendezvous`.

Tokens: node `id` with weight w has max(1, round(vnodes * w)) tokens; token k is the hash of
`b"ring/1"`, the length of the id (4 bytes), the id, and k (4 bytes), integers little-endian. A token that two nodes
share belongs to the one with the smaller id.

Source: Karger et al. 1997; tokens per weight as in Dynamo (DeCandia et al. 2007).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self

from apportion.errors import InvalidInput, NoNodes
from apportion.model.plan import Key
from apportion.model.table import MAX_TOKENS, Table
from apportion.model.token import POSITIONS, Token
from apportion.model.topology import Node, Topology
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import DEFAULT, Digest, Hasher, resolve
from apportion.placement.keys import key_bytes
from apportion.placement.spread import Spread, spread_rule
from apportion.placement.tabular import Tabular


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Ring(Tabular):
    """A hash ring with `vnodes` tokens for a node of weight 1.

    Build: O(tokens log tokens). Lookup: O(log tokens). Memory: about 100 bytes a token.

    >>> ring = Ring(["a", "b", "c"])
    >>> ring.route("tenant-42"), ring.preference("tenant-42", 2)
    ('c', ('c', 'a'))
    >>> ring.on(ring.topology.without("c")).route("tenant-42")
    'a'
    """

    vnodes: int

    def __init__(self, nodes: Nodes, *, vnodes: int = 150, hasher: str | Hasher = DEFAULT) -> None:
        topology, chosen = topology_of(nodes), resolve(hasher, least_bits=64)
        _check_tokens(topology, vnodes)
        object.__setattr__(self, "vnodes", vnodes)
        self._fill(_table(topology, vnodes, chosen), chosen)

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return the owner and the nodes met after it on the circle, each zone once. O(nodes + tokens walked)."""
        rule = spread_rule(self.topology, count, level=spread_level, spread=spread)
        return tuple(self.topology.ids[index] for index in rule.pick(self._walk(self._stretch(key))))

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table:
        """Return the ring as a table; rows are the preference lists of `replicas` nodes. O(tokens · tokens walked)."""
        rule = spread_rule(self.topology, replicas, level=spread_level, spread=spread)
        if replicas == 1:
            return self._leaders
        rows = tuple(rule.pick(self._walk(stretch)) for stretch in range(len(self._indexes)))
        return Table(topology=self.topology, hasher=self.hasher.label, starts=self._leaders.starts, rows=rows)

    def explain(self, key: Key) -> Explanation:
        """Return the token a key falls to, and whom it would fall to next."""
        data = key_bytes(key)
        stretch, position = self._stretch(key), self._position(data)
        owner, *others = (self.topology.ids[index] for index in self._walk(stretch))
        count = min(3, len(others) + 1)
        # A stretch may hold several tokens of its owner, so its end is not always the first of them.
        tokens = _tokens_of(self.topology[owner], self.vnodes, self.hasher.digest)
        following = min((token for token in tokens if token >= position), default=None)
        at = "the first token, after the circle's end" if following is None else f"token {following:#018x}"
        return Explanation(
            key=key,
            placement="ring",
            hasher=self.hasher.label,
            hash=self.hasher(data),
            range=self._leaders.range_at(position),
            owner=owner,
            why=f"first token at or after the hash: {at}, of {owner}",
            next=self.preference(key, count, spread="best-effort")[1:],
            if_owner_left=others[0] if others else None,
        )

    def on(self, topology: Topology) -> Self:
        """Return the ring of another topology, with the same tokens for every node that is in both."""
        return type(self)(topology, vnodes=self.vnodes, hasher=self.hasher)

    def _walk(self, stretch: int) -> Iterator[int]:
        """Yield every owner once, in the order of their tokens clockwise from a stretch."""
        seen: set[int] = set()
        for place in range(stretch - len(self._indexes), stretch):  # negative places count from the end: one full turn
            index = self._indexes[place]
            if index not in seen:
                seen.add(index)
                yield index

    def __reduce__(self) -> "tuple[partial[Ring], tuple[Topology]]":
        return partial(type(self), vnodes=self.vnodes, hasher=self.hasher), (self.topology,)

    def __repr__(self) -> str:
        return f"Ring({self.topology!r}, vnodes={self.vnodes}, hasher={self.hasher.label!r})"


def _check_tokens(topology: Topology, vnodes: int) -> None:
    if type(vnodes) is not int or not 0 < vnodes <= MAX_TOKENS:
        raise InvalidInput(
            "vnodes",
            vnodes,
            f"an int in 1 .. {MAX_TOKENS}",
            "The default, 150, keeps nodes within some 8 % of their share.",
        )
    tokens = sum(_token_count(node, vnodes) for node in topology)
    if tokens == 0:
        raise NoNodes("a ring")
    if tokens > MAX_TOKENS:
        raise InvalidInput(
            "tokens of the ring (vnodes times weights)", tokens, f"at most MAX_TOKENS = {MAX_TOKENS}",
            "Lower vnodes, or give the ordinary node weight 1.",
        )  # fmt: skip


def _token_count(node: Node, vnodes: int) -> int:
    """Return the tokens of a node: in proportion to its weight, none for a draining one, else at least one."""
    return max(1, (vnodes * node.millionths + 500_000) // 1_000_000) if node.millionths else 0


def _table(topology: Topology, vnodes: int, hasher: Hasher) -> Table:
    owners = _tokens(topology, vnodes, hasher.digest)
    tokens = sorted(owners)
    rows = [(index,) for index in range(len(topology))]
    after_tokens = [token + 1 for token in tokens if token + 1 < POSITIONS]
    return Table(
        topology=topology,
        hasher=hasher.label,
        starts=(0, *after_tokens),
        # Where the circle closes, what lies after the last token belongs to the first.
        rows=tuple(rows[owners[token]] for token in (tokens + tokens[:1])[: len(after_tokens) + 1]),
    )


def _tokens(topology: Topology, vnodes: int, digest: Digest) -> dict[Token, int]:
    owners: dict[Token, int] = {}
    for index, node in reversed(list(enumerate(topology))):  # the smallest id is written last, and keeps a shared token
        owners.update(dict.fromkeys(_tokens_of(node, vnodes, digest), index))
    return owners


def _tokens_of(node: Node, vnodes: int, digest: Digest) -> Iterator[Token]:
    label = b"ring/1" + len(node.id.encode()).to_bytes(4, "little") + node.id.encode()
    return (digest(label + number.to_bytes(4, "little")) for number in range(_token_count(node, vnodes)))


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
