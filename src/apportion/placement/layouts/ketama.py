"""Ketama: the circle of memcached clients, to the byte, in two layouts that differ in how they round.

Promises: the server that libketama, or libmemcached with KETAMA_WEIGHTED, would ask for a key.
Refuses: fractional weights, and libmemcached's KETAMA without weights. That is another layout, with 100 points per
server, one per hash.
It does not promise minimal disruption, because a server's points depend on the total weight. A change of one server
takes points from others. Their keys then move between servers that were there before and after. Take `ring` if you
are free to choose.

Format: `docs/algorithms/ketama.md`.
Source: libketama (R. Jones 2007), libmemcached 1.1.4.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from struct import pack, unpack
from typing import Literal, TypeAlias

from apportion.errors import InvalidInput, UnknownOption
from apportion.errors.brief import brief
from apportion.model.token import Token
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.hashers import FixedHasher
from apportion.placement.layouts.circle import Foreign, check_distinct, check_tokens, owning_nodes
from apportion.placement.shapes.circle import position_of_token
from apportion.placement.shapes.rebuilt import Rebuilt

Layout: TypeAlias = Literal["libketama", "libmemcached"]

DEFAULT_PORT = 11211


def first_word(data: bytes) -> int:
    """Return the first four bytes of the MD5 of some bytes, as a little-endian number.

    >>> hex(first_word(b""))
    '0xd98c1dd4'
    """
    return int.from_bytes(md5(data, usedforsecurity=False).digest()[:4], "little")


HASHER = FixedHasher("md5-first-word", 32, first_word)


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Ketama(Rebuilt, Foreign):
    """Memcached servers on a circle of 32-bit points. Build: O(tokens log tokens). Lookup: O(log tokens).

    A node's id and weight are those in the server list of the client (libketama: the weight is the memory). A
    draining node is left out of the list.

    >>> servers = Ketama(["h1:11211", "h2:11211"])
    >>> servers.route("k"), Ketama(servers.topology, layout="libmemcached").route("k")
    ('h2:11211', 'h1:11211')
    """

    _OPTIONS = ("layout",)

    layout: Layout
    _names: dict[str, str] = field(compare=False)
    _groups: dict[str, int] = field(compare=False)

    def __init__(self, nodes: Nodes, *, layout: Layout = "libketama") -> None:
        rule = _LAYOUTS.get(layout) if isinstance(layout, str) else None
        if rule is None:
            raise UnknownOption("layout of ketama", layout, _LAYOUTS)
        name_of, groups_of = rule
        topology = topology_of(nodes)
        servers = owning_nodes(topology, layout)
        names = [name_of(server.id) for server in servers]
        check_distinct(servers, names, layout)
        weights = [server.millionths // 1_000_000 for server in servers]
        groups = groups_of(weights)
        check_tokens(4 * sum(groups), layout)
        self._check_unmade()
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "_names", {server.id: name for server, name in zip(servers, names, strict=True)})
        object.__setattr__(self, "_groups", {server.id: count for server, count in zip(servers, groups, strict=True)})
        self._fill_foreign(topology, HASHER)

    def _tokens_of(self, index: int) -> Iterator[Token]:
        node_id = self.topology.ids[index]
        for group in range(self._groups.get(node_id, 0)):
            digest = md5(f"{self._names[node_id]}-{group}".encode(), usedforsecurity=False).digest()
            yield from (position_of_token(word, 32) for word in unpack("<4I", digest))


def _host_or_address(node_id: str) -> str:
    """Return the name that libmemcached hashes for a server: without the port if it is memcached's default."""
    if node_id.startswith("/"):
        return f"{node_id}:0"
    host, colon, digits = node_id.rpartition(":")
    if not colon:
        return node_id
    port = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 5 else 0
    if not 0 < port < 65_536 or not host or host.endswith(":"):
        hint = f"Write a port in 1 .. 65535 after the last colon; {DEFAULT_PORT} is memcached's own."
        raise InvalidInput("node id", node_id, "host, host:port or the path of a socket", hint)
    return host if port == DEFAULT_PORT else f"{host}:{port}"


def _libketama_groups(weights: Sequence[int]) -> list[int]:
    """Return the number of groups of each server. A group is the four tokens of one MD5.

    The product in doubles loses no bit, so it is rounded only once, at the end.
    """
    servers, total = len(weights), _float32(sum(weights))
    return [int(_float32(_float32(_float32(weight) / total) * 40.0 * servers)) for weight in weights]


def _libmemcached_groups(weights: Sequence[int]) -> list[int]:
    """Return the number of groups, of four tokens, of each server. Every step is rounded to float32.

    The library adds 1e-10 before it rounds down. That never matters: float32 numbers of 0.5 or more lie at least 5e-8
    apart.
    """
    servers, total = len(weights), _float32(sum(weights))
    shares = (_float32(_float32(weight) / total) for weight in weights)
    return [int(_float32(_float32(_float32(share * 160) / 4) * servers)) for share in shares]


def _float32(number: float) -> float:
    """Return the nearest IEEE 754 single.

    A quotient or product of two singles, computed in doubles and rounded here, equals the one computed in singles.
    """
    single: float
    (single,) = unpack("<f", pack("<f", number))
    return single


_LAYOUTS: dict[str, tuple[Callable[[str], str], Callable[[Sequence[int]], list[int]]]] = {
    "libketama": (str, _libketama_groups),
    "libmemcached": (_host_or_address, _libmemcached_groups),
}


SPEC = PlacementSpec(
    name="ketama",
    build=Ketama,
    source="libketama (R. Jones 2007)",
    weighted=True,
    ranked=True,
    tabular=True,
    lookup="O(log tokens)",
)
