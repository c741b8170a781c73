"""Circle: the base of placements with tokens; a key belongs to the first token at or after its hash.

The base of `ring` and of the layouts of other systems. Each of these adds the places of a node's tokens. A token of
fewer than 64 bits stands at the last position that begins with its bits. A hash of as few bits stands at the first
such position. So "the hash is at or before the token" has the same answer in narrow and in wide numbers.
"""

from abc import abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.model.token import POSITIONS, Token
from apportion.model.topology import Topology
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import Hasher
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.router import circle_of
from apportion.placement.shapes.tabular import Tabular
from apportion.placement.spread import Spread, spread_rule


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Circle(Tabular):
    """A walk clockwise from a key's hash meets its owner first, then the other nodes in order of preference."""

    @abstractmethod
    def _tokens_of(self, index: int) -> Iterable[Token]:
        """Return the places of a node's tokens, as positions of 64 bits."""

    def _fill_circle(self, topology: Topology, hasher: Hasher) -> None:
        """Put every node's tokens onto the circle. A token that two nodes share belongs to the smaller id."""
        self._fill(topology, hasher)
        owners: dict[Token, int] = {}
        for index in reversed(range(len(topology))):  # the smallest id is written last, and keeps a shared token
            owners.update(dict.fromkeys(self._tokens_of(index), index))
        self._lay(topology.ids, hasher, *circle_of(owners))

    def _make_table(self) -> Table:
        bounds, indexes = self._cuts()
        pairs = zip(array("Q", bounds)[::-1], array("I", indexes)[-2::-1], strict=True)
        return table_of_tokens(dict(pairs), self.topology, self.hasher.label)

    def _preferred(self, key: Key, count: int, *, spread_level: int | None, spread: Spread) -> tuple[str, ...]:
        """Return the owner and the nodes met after it on the circle, each zone once. O(nodes + tokens walked)."""
        rule = spread_rule(self._met_by_walks or self.topology, count, level=spread_level, spread=spread)
        return tuple(self.topology.ids[index] for index in rule.pick(self._ranking(self._stretch(key))))

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table:
        """Return the circle as a table of the preference lists of `replicas` nodes. O(tokens · tokens walked)."""
        rule = spread_rule(self._met_by_walks or self.topology, replicas, level=spread_level, spread=spread)
        return self._leaders if replicas == 1 else self._table_of_rows(rule.pick)

    def _table_of_rows(self, pick: Callable[[Iterable[int]], tuple[int, ...]]) -> Table:
        """Return the table with one row per stretch: the result of `pick` for the walk from there."""
        starts, bounds = self._leaders.starts, array("Q", self._cuts()[0])
        return Table(
            topology=self.topology,
            hasher=self.hasher.label,
            starts=starts,
            rows=tuple(pick(self._ranking(bisect_left(bounds, start))) for start in starts),
        )

    def explain(self, key: Key) -> Explanation:
        """Return the token that owns a key, and the node that would own the key next."""
        data = key_bytes(key)
        stretch, position = self._stretch(key), self._position(data)
        owner, *others = (self.topology.ids[index] for index in self._ranking(stretch))
        # A stretch may hold several tokens of its owner, so a token may follow the hash before the stretch ends.
        tokens = self._tokens_of(self.topology.index(owner))
        following = min((token for token in tokens if token >= position), default=None)
        at = "the first token, after the circle's end" if following is None else f"token {following:#018x}"
        return Explanation(
            key=key,
            placement=type(self).__name__.lower(),
            hasher=self.hasher.label,
            hash=self.hasher(data),
            range=self._leaders.range_at(position),
            owner=owner,
            why=f"first token at or after the hash: {at}, of {owner}",
            next=self.preference(key, min(3, len(others) + 1), spread="best-effort")[1:],
            if_owner_left=others[0] if others else None,
        )


def position_of_token(token: int, bits: int) -> Token:
    """Return the position of a token of `bits` bits: the last position of 64 bits that begins with it.

    >>> hex(position_of_token(0x12345678, 32))
    '0x12345678ffffffff'
    """
    return (token + 1 << 64 - bits) - 1


def table_of_tokens(owners: Mapping[Token, int], topology: Topology, hasher: str) -> Table:
    """Return the table in which each position belongs to the first token at or after it. O(tokens log tokens)."""
    rows = [(index,) for index in range(len(topology))]
    return table_of_rows({token: rows[index] for token, index in owners.items()}, topology, hasher)


def table_of_rows(rows: Mapping[Token, tuple[int, ...]], topology: Topology, hasher: str) -> Table:
    """Return the table in which a position has the owners of the first token at or after it. O(tokens log tokens)."""
    tokens = sorted(rows)
    after_tokens = [token + 1 for token in tokens if token + 1 < POSITIONS]
    return Table(
        topology=topology,
        hasher=hasher,
        starts=(0, *after_tokens),
        # The circle closes: positions after the last token belong to the first token.
        rows=tuple(rows[token] for token in (tokens + tokens[:1])[: len(after_tokens) + 1]),
    )
