"""Cassandra's ring: the token that owns a key, and the nodes that hold its replicas, exactly as in the cluster.

Use it to see the moves of a change before they happen: read the cluster's tokens (`nodetool ring`), build the ring,
plan.

Promises: Cassandra's own tokens and replica lists, in its order (releases 3.0 to 5.0). The tables hold all of them,
so plans are exact. A node that comes takes replicas from others, and a node that goes leaves its replicas to others.
No replica moves between the other nodes.
Refuses: to choose tokens, because Cassandra's allocation is random or reads the whole cluster. Pass the tokens that
nodes have or will have. It refuses weights; give a node more tokens instead. It refuses tables for RandomPartitioner
and ByteOrderedPartitioner, because their tokens do not fit into 64 bits; `replicas_of` walks their rings.

Format: `docs/algorithms/cassandra.md`.
Source: Lakshman and Malik 2010; Apache Cassandra.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Literal, Self

from apportion.errors import CannotPlace, InvalidInput, NotEnoughNodes, UnknownOption
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.model.token import Token
from apportion.model.topology import Topology
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import FixedHasher
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.layouts.cassandra.strategies import (
    NetworkTopologyStrategy,
    ReplicaRule,
    SimpleStrategy,
    Strategy,
)
from apportion.placement.layouts.cassandra.tokens import (
    LEAST_MURMUR3,
    Partitioner,
    TokenKind,
    check_key_token,
    position,
    token,
    tokens_of_nodes,
)
from apportion.placement.shapes.circle import Circle
from apportion.placement.shapes.computed import equal_weights
from apportion.placement.spread import Spread, spread_rule

__all__ = ["SPEC", "Cassandra", "NetworkTopologyStrategy", "SimpleStrategy", "replicas_of", "token"]

_ONE_REPLICA = SimpleStrategy(1)
HASHER = FixedHasher("cassandra-murmur3", 64, position)


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Cassandra(Circle):
    """A cluster with Murmur3Partitioner. Build: O(tokens log tokens). Lookup: O(log tokens).

    >>> nodes = Topology(["a", "b", "c"])
    >>> cluster = Cassandra(nodes, tokens={"a": [-6 * 10**18], "b": [0], "c": [6 * 10**18]}, strategy=SimpleStrategy(2))
    >>> token("tenant-42"), cluster.route("tenant-42"), cluster.replicas("tenant-42")
    (-1500784320442364190, 'b', ('b', 'c'))
    """

    strategy: Strategy
    _tokens: tuple[tuple[int, ...], ...]
    _rule: ReplicaRule = field(compare=False)

    def __init__(
        self,
        nodes: Nodes,
        *,
        tokens: Mapping[str, Iterable[int]],
        strategy: Strategy = _ONE_REPLICA,
        partitioner: Literal["murmur3"] = "murmur3",
    ) -> None:
        topology = topology_of(
            list(nodes) if isinstance(nodes, Mapping) else nodes
        )  # `nodes` may be the mapping of tokens
        _check_partitioner(partitioner)
        equal_weights(topology, "Cassandra")
        self._check_unmade()
        object.__setattr__(self, "strategy", strategy)
        object.__setattr__(self, "_rule", _rule_of(strategy, topology))
        object.__setattr__(self, "_tokens", tokens_of_nodes(tokens, topology, partitioner=partitioner))
        self._fill_circle(topology, HASHER)

    @property
    def tokens(self) -> dict[str, tuple[int, ...]]:
        """The tokens of each node, sorted, as Cassandra writes them."""
        return dict(zip(self.topology.ids, self._tokens, strict=True))

    @property
    def replica_count(self) -> int:
        """The number of replicas of every key."""
        return self._rule.count

    @property
    def missing(self) -> dict[str, int]:
        """How many replicas each datacenter lacks because it has fewer nodes than the strategy asks for.

        Cassandra places as many as it can, and so does this class. `SimpleStrategy` counts the missing ones under
        `cluster`.
        """
        return self._rule.missing

    def replicas(self, key: Key) -> tuple[str, ...]:
        """Return the nodes that hold a key, in the order of the ring. O(tokens walked)."""
        return self._named(self._row(self._stretch(key)))

    def replica_table(self) -> Table:
        """Return the table of all replicas. O(tokens · tokens walked).

        `plan(old.replica_table(), new.replica_table())` also plans a change of strategy.
        """
        return self.table(self.replica_count)

    def _preferred(self, key: Key, count: int, *, spread_level: int | None, spread: Spread) -> tuple[str, ...]:
        """Return the first `count` replicas; the strategy decides about racks, and `spread` is not used. O(nodes)."""
        self._check_count(count, spread_level, spread)
        return self.replicas(key)[:count]

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table:
        """Return the ring as a table of the first `replicas` replicas. O(tokens · tokens walked)."""
        self._check_count(replicas, spread_level, spread)
        return (
            self._leaders if replicas == 1 else self._table_of_rows(lambda ranking: self._rule.pick(ranking)[:replicas])
        )

    def explain(self, key: Key) -> Explanation:
        """Return the token of a key, the node that owns this token, and the other replicas."""
        place = self._position(key_bytes(key))
        owner, *others = self.replicas(key)
        walk = self._named(tuple(self._ranking(self._stretch(key))))
        following = min(
            (value for value in self.tokens[owner] if value - LEAST_MURMUR3 >= place),
            default="the first of the ring, after its end",
        )
        lacking = "".join(f"; {count} too few in {name}" for name, count in self.missing.items())
        return Explanation(
            key=key,
            placement="cassandra",
            hasher=self.hasher.label,
            hash=place,
            range=self._leaders.range_at(place),
            owner=owner,
            why=f"token {place + LEAST_MURMUR3}; first token at or after it: {following}, of {owner}{lacking}",
            next=tuple(others),
            if_owner_left=walk[1] if len(walk) > 1 else None,
        )

    def on(self, topology: Topology) -> Self:
        """Return the ring on another topology, with the tokens of every node that is in both.

        Raises `CannotPlace` for a new node, because its tokens are not known, and for a datacenter that lost its last
        node.
        """
        kept = {node_id: own for node_id, own in self.tokens.items() if node_id in topology}
        for node in topology:
            if node.weight > 0 and not kept.get(node.id):
                raise CannotPlace(
                    f"the tokens of new node {node.id!r} are not known.",
                    f"Build it again: Cassandra(topology, tokens={{**old.tokens, {node.id!r}: [...]}}, strategy=...).",
                )
        _check_datacenters(self.strategy, topology)
        return type(self)(topology, tokens=kept, strategy=self.strategy)

    def _tokens_of(self, index: int) -> Iterable[Token]:
        held = self._tokens[index] if self._rule.racks[index] else ()
        return (value - LEAST_MURMUR3 for value in held)

    def _row(self, stretch: int) -> tuple[int, ...]:
        return self._rule.pick(self._ranking(stretch))

    def _named(self, row: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self.topology.ids[index] for index in row)

    def _check_count(self, count: int, level: int | None, spread: Spread) -> None:
        spread_rule(self.topology, 1, level=level, spread=spread)
        spread_rule(self.topology, count, level=level, spread="best-effort")
        if count > self.replica_count:
            raise NotEnoughNodes(count, self._named(self._row(0)), f"from a strategy that places {self.replica_count}")

    def __reduce__(self) -> "tuple[partial[Cassandra], tuple[Topology]]":
        return partial(type(self), tokens=self.tokens, strategy=self.strategy), (self.topology,)

    def __repr__(self) -> str:
        count = sum(map(len, self._tokens))
        lacking = f", missing={self.missing!r}" if self.missing else ""
        options = f"{count} tokens, {self.strategy!r}{lacking}, hasher={self.hasher.label!r}"
        return f"{type(self).__name__}({self.topology!r}, {options})"


def replicas_of(
    value: TokenKind,
    *,
    nodes: Nodes,
    tokens: Mapping[str, Iterable[TokenKind]],
    strategy: Strategy = _ONE_REPLICA,
    partitioner: Partitioner = "murmur3",
) -> tuple[str, ...]:
    """Return the nodes that hold a token of any partitioner, with one sort and one walk. O(tokens log tokens).

    >>> key = token("abc", partitioner="byteordered")
    >>> tokens = {"a": [b"a"], "b": [b"k"], "c": [b"z"]}
    >>> replicas_of(key, nodes=tokens, tokens=tokens, strategy=SimpleStrategy(2), partitioner="byteordered")
    ('b', 'c')
    """
    topology = topology_of(list(nodes) if isinstance(nodes, Mapping) else nodes)  # `nodes` may be the mapping of tokens
    check_key_token(value, partitioner)
    equal_weights(topology, "Cassandra")
    rule = _rule_of(strategy, topology)
    held = tokens_of_nodes(tokens, topology, partitioner=partitioner)
    ring = sorted((own, index) for index, row in enumerate(held) if rule.racks[index] for own in row)
    first = bisect_left(ring, value, key=itemgetter(0))
    walk = dict.fromkeys(index for _, index in ring[first:] + ring[:first])
    return tuple(topology.ids[index] for index in rule.pick(walk))


def _check_partitioner(partitioner: object) -> None:
    if partitioner in ("random", "byteordered"):
        hint = f"Ask replicas_of(token(key, partitioner={partitioner!r}), ...) for each key."
        raise InvalidInput("partitioner", partitioner, "'murmur3', because its tokens fit into a table", hint)
    if partitioner != "murmur3":
        raise UnknownOption("partitioner", partitioner, ("byteordered", "murmur3", "random"))


def _rule_of(strategy: Strategy, topology: Topology) -> ReplicaRule:
    if not isinstance(strategy, Strategy):
        hint = "Write SimpleStrategy(3), say."
        raise InvalidInput("strategy", strategy, "a SimpleStrategy or NetworkTopologyStrategy", hint)
    return strategy.rule(topology)


def _check_datacenters(strategy: Strategy, topology: Topology) -> None:
    if isinstance(strategy, SimpleStrategy):
        return
    present = {node.zone[0] for node in topology if node.weight > 0 and node.zone}
    for name in strategy.datacenters:
        if name not in present:
            raise CannotPlace(
                f"no node of datacenter {name!r} would be left to hold the replicas that belong there.",
                "Build it again, with a strategy for the other datacenters: "
                "Cassandra(topology, tokens=..., strategy=...).",
            )


SPEC = PlacementSpec(
    name="cassandra",
    build=Cassandra,
    source="Lakshman and Malik 2010",
    minimal_disruption=True,
    tabular=True,
    lookup="O(log tokens)",
    takes="explicit",
)
