"""Tokens of Cassandra: the place of a key under each of its three partitioners, and the tokens that nodes may have.

Promises: Cassandra's own token for the same bytes. A key becomes bytes as everywhere in this library (see `keys`).
These are the bytes of Cassandra's `text`, `ascii` and `blob`. Its other types differ, so pass their bytes.
Refuses: tokens of the wrong kind or out of range, and one token at two nodes, because Cassandra knows only one owner.
Format, with the bytes of other types: `docs/algorithms/cassandra.md`.
Source: `Murmur3Partitioner`, `RandomPartitioner` and `ByteOrderedPartitioner` of Apache Cassandra.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias, TypeVar, overload

from apportion.errors import InvalidInput, UnknownNode, UnknownOption
from apportion.model.plan import Key
from apportion.model.table import MAX_TOKENS
from apportion.model.token import POSITIONS, Token
from apportion.model.topology import Topology
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.layouts.cassandra.murmur3 import murmur3

Partitioner: TypeAlias = Literal["murmur3", "random", "byteordered"]
CassandraToken: TypeAlias = int | bytes
TokenKind = TypeVar("TokenKind", int, bytes)

LEAST_MURMUR3 = -(2**63)
_MURMUR3_OF_LEAST = 2**63 - 1
_MOST_RANDOM = 2**127


@overload
def token(key: Key, *, partitioner: Literal["murmur3", "random"] = "murmur3") -> int: ...
@overload
def token(key: Key, *, partitioner: Literal["byteordered"]) -> bytes: ...
@overload
def token(key: Key, *, partitioner: Partitioner) -> CassandraToken: ...
def token(key: Key, *, partitioner: Partitioner = "murmur3") -> CassandraToken:
    """Return Cassandra's token of a partition key. O(length).

    >>> token(b"abc"), token("abc", partitioner="random"), token("abc", partitioner="byteordered")
    (-5434086359492102041, 148866708576779697295343134153845407886, b'abc')
    """
    return _rules(partitioner).token(key_bytes(key))


def position(data: bytes) -> Token:
    """Return the position of the `murmur3` token of some bytes: the token plus 2**63, so that the least is 0."""
    return _murmur3_token(data) - LEAST_MURMUR3


def tokens_of_nodes(
    tokens: Mapping[str, Iterable[TokenKind]], topology: Topology, *, partitioner: Partitioner
) -> tuple[tuple[TokenKind, ...], ...]:
    """Return the tokens of each node of a topology, sorted, in the order of the nodes. O(tokens log tokens).

    A draining node may have none. Raises `InvalidInput` for a token that no node can have, and for a token of two
    nodes.
    """
    if not isinstance(tokens, Mapping):
        raise InvalidInput("tokens", tokens, "a mapping of node ids to tokens", 'Write tokens={"a": [-3, 42]}.')
    for node_id in tokens:
        if node_id not in topology:
            raise UnknownNode(node_id, topology.ids)
    rules = _rules(partitioner)
    held: dict[TokenKind, str] = {}
    for node in topology:
        own = _listed(node.id, tokens.get(node.id, ()), room=MAX_TOKENS - len(held))
        if not own and node.weight > 0:
            hint = "Pass tokens= for each node that does not drain."
            raise InvalidInput(f"tokens of node {node.id!r}", None, "at least one", hint)
        for value in own:
            rules.check(f"token of node {node.id!r}", value)
            if value in held:
                one, other = held[value], node.id
                owners = f"node {one!r}, listed twice," if one == other else f"nodes {one!r} and {other!r}"
                hint = "A token has one owner: list it once."
                raise InvalidInput(f"token of {owners}", value, "a token that is listed once", hint)
            held[value] = node.id
    own_by_id: dict[str, list[TokenKind]] = {node_id: [] for node_id in topology.ids}
    for value, node_id in sorted(held.items()):
        own_by_id[node_id].append(value)
    return tuple(map(tuple, own_by_id.values()))


def check_key_token(value: CassandraToken, partitioner: Partitioner) -> None:
    """Raise `InvalidInput` for a value that is not the token of any key."""
    rules = _rules(partitioner)
    # The empty key of `random` stands at -1, where no node can stand.
    if type(value) is not int or value != rules.token(b""):
        rules.check("token", value)


@dataclass(frozen=True, slots=True)
class _Rules:
    """A partitioner: its token of a key, and the tokens that a node can have: `least` .. `most`, or bytes."""

    token: Callable[[bytes], CassandraToken]
    least: int | None
    most: int

    def check(self, name: str, value: CassandraToken) -> None:
        """Raise `InvalidInput` for a value that no node can have as its token."""
        if self.least is None:
            fits, expected = isinstance(value, bytes) and len(value) <= self.most, f"at most {self.most} bytes"
        else:
            fits = type(value) is int and self.least <= value <= self.most
            expected = f"an int in {self.least} .. {self.most}"
        if not fits:
            raise InvalidInput(name, value, expected, "Pass tokens as `nodetool ring` prints them, as ints or bytes.")


def _rules(partitioner: Partitioner) -> _Rules:
    if not isinstance(partitioner, str) or partitioner not in _PARTITIONERS:
        raise UnknownOption("partitioner", partitioner, _PARTITIONERS)
    return _PARTITIONERS[partitioner]


def _murmur3_token(data: bytes) -> int:
    if not data:
        return LEAST_MURMUR3
    value = (murmur3(data) - LEAST_MURMUR3) % POSITIONS + LEAST_MURMUR3
    return _MURMUR3_OF_LEAST if value == LEAST_MURMUR3 else value


def _random_token(data: bytes) -> int:
    from hashlib import md5  # noqa: PLC0415 - loaded at its first use, as in `hashers`

    if not data:
        return -1
    return abs(int.from_bytes(md5(data, usedforsecurity=False).digest(), "big", signed=True))


_PARTITIONERS: dict[str, _Rules] = {
    "murmur3": _Rules(_murmur3_token, LEAST_MURMUR3, 2**63 - 1),
    "random": _Rules(_random_token, 0, _MOST_RANDOM),
    "byteordered": _Rules(bytes, None, 65_536),
}


def _listed(node_id: str, own: Iterable[TokenKind], *, room: int) -> list[TokenKind]:
    if isinstance(own, (str, bytes)) or not isinstance(own, Iterable):
        hint = "Put a single token in a list: [42]."
        raise InvalidInput(f"tokens of node {node_id!r}", own, "an iterable of tokens", hint)
    listed = list(islice(own, room + 1))
    if len(listed) > room:
        hint = "Give nodes fewer tokens."
        raise InvalidInput("tokens", f"more than {MAX_TOKENS}", f"at most MAX_TOKENS = {MAX_TOKENS}", hint)
    return listed
