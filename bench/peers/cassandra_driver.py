"""cassandra-driver: the `TokenMap` by which it sends a statement to a replica. 150 tokens a node, one replica.

A key becomes a token by the driver's MurmurHash3 in C. Strings stand for hosts: the map only hands them on.
Documented: a key belongs to the least token at or after its own, after the last one to the first.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Protocol

import mmh3

from bench.contender import Contender, Route, installed, missing
from bench.peers.textbook import VNODES

KEYSPACE = "measured"


class DriverToken(Protocol):
    """What the driver looks up: a token, in an object."""

    value: int


@dataclass(frozen=True, slots=True)
class TokenMap:
    """The driver's map of a fleet, and the tokens that it was made of."""

    tokens: dict[str, list[int]]
    replicas_of: Callable[[DriverToken], list[str]] = field(repr=False)
    """Who holds a token."""
    token_of: Callable[[bytes], DriverToken] = field(repr=False)
    """The token of a key."""


def tokens_of(nodes: list[str], count: int = VNODES) -> dict[str, list[int]]:
    """Return tokens of each node: as Cassandra's random allocation, but the same in every run and for any order."""
    return {node: [mmh3.hash64(f"{node}-{number}")[0] for number in range(count)] for node in nodes}


def token_map(nodes: list[str]) -> TokenMap:
    """Return the driver's map of these nodes, filled as it fills it for a keyspace of one replica."""
    from cassandra import metadata  # noqa: PLC0415 - perhaps not installed

    tokens = tokens_of(nodes)
    owners = {metadata.Murmur3Token(value): node for node, own in tokens.items() for value in own}
    keyspace = SimpleNamespace(replication_strategy=metadata.SimpleStrategy({"replication_factor": "1"}))
    cluster = SimpleNamespace(keyspaces={KEYSPACE: keyspace})
    found = metadata.TokenMap(metadata.Murmur3Token, owners, sorted(owners), cluster)
    get_replicas = found.get_replicas
    return TokenMap(tokens, lambda token: get_replicas(KEYSPACE, token), metadata.Murmur3Token.from_key)


def _build(nodes: list[str]) -> Route:
    built = token_map(nodes)
    replicas_of, token_of = built.replicas_of, built.token_of
    return lambda key: replicas_of(token_of(key.encode()))[0]


def _documented(nodes: list[str]) -> Route:
    from cassandra.metadata import Murmur3Token  # noqa: PLC0415

    ring = sorted((value, node) for node, own in tokens_of(nodes).items() for value in own)
    return lambda key: ring[bisect_left(ring, (Murmur3Token.hash_fn(key.encode()), "")) % len(ring)][1]


CASSANDRA_DRIVER = Contender(
    name="cassandra-driver",
    version=installed("cassandra-driver"),
    build=_build,
    absent=missing("cassandra-driver"),
    documented=_documented,
)
