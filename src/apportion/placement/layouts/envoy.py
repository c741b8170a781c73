"""The ring of Envoy's load balancer `ring_hash`, to the bit.

Promises: the host that Envoy would take for a hash policy of one value, while all hosts of one priority are healthy.
Refuses: fractional weights, locality weights and `hash_balance_factor`.
It does not promise minimal disruption, because the number of points of a host depends on all weights. A change of one
host takes points from others. Their keys then move between hosts that were there before and after. Take `ring` if you
are free to choose.

Format: `docs/algorithms/envoy.md`.
Source: Envoy, source/extensions/load_balancing_policies/ring_hash; MurmurHash64A by A. Appleby.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, Self, TypeAlias

from apportion.errors import BadWeight, InvalidInput, UnknownOption
from apportion.errors.brief import brief
from apportion.model.numbers import check_int
from apportion.model.token import Token
from apportion.model.topology import Node, Topology
from apportion.placement.api import Nodes, PlacementSpec
from apportion.placement.hashers import Digest, get
from apportion.placement.layouts.circle import Foreign, owning_nodes
from apportion.placement.shapes.ordered import in_order

HashFunction: TypeAlias = Literal["xx-hash", "murmur-hash-2"]

LARGEST_RING = 8_388_608
LARGEST_SUM = 2**32 - 1
_MASK = 2**64 - 1
_MULTIPLIER = 0xC6A4A7935BD1E995


def murmur_hash_2(data: bytes, seed: int = 0xC70F6907) -> int:
    """Return MurmurHash64A, with the seed of Envoy (and of the GNU library's `std::hash`). O(length).

    >>> hex(murmur_hash_2(b"10.0.0.1:80_0"))
    '0xbd8f6461ecffb28c'
    """
    whole = len(data) // 8 * 8
    state = seed ^ len(data) * _MULTIPLIER & _MASK
    for place in range(0, whole, 8):
        word = int.from_bytes(data[place : place + 8], "little") * _MULTIPLIER & _MASK
        state = (state ^ _shifted(word) * _MULTIPLIER & _MASK) * _MULTIPLIER & _MASK
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    return _shifted(_shifted(state) * _MULTIPLIER & _MASK)


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Envoy(Foreign):
    """The hosts of a cluster, in Envoy's order. Build: O(tokens log tokens). Lookup: O(log tokens).

    A node's id is the text that Envoy hashes for a host. It is the address with the port, the hostname if
    `use_hostname_for_hashing` is on, or the metadata's `hash_key`. `hosts` keeps the order given; the nodes of a
    topology are in the order of their ids. The order matters if shares are not whole numbers of points. A draining node
    is not a host.

    >>> cluster = Envoy(["10.0.0.1:80", "10.0.0.2:80"])
    >>> cluster.route("tenant-42"), cluster.hosts
    ('10.0.0.2:80', ('10.0.0.1:80', '10.0.0.2:80'))
    """

    hosts: tuple[str, ...]
    minimum_ring_size: int
    maximum_ring_size: int
    hash_function: HashFunction
    _points: dict[str, int] = field(compare=False)

    def __init__(
        self,
        nodes: Nodes,
        *,
        minimum_ring_size: int = 1024,
        maximum_ring_size: int = LARGEST_RING,
        hash_function: HashFunction = "xx-hash",
    ) -> None:
        topology, ids = in_order(nodes, "A set has no order, and Envoy needs one: pass a list or a topology.")
        self._fill_in_order(topology, ids, minimum_ring_size, maximum_ring_size, hash_function)

    def _fill_in_order(
        self, topology: Topology, ids: Iterable[str], minimum: int, maximum: int, hash_function: HashFunction
    ) -> None:
        self._check_unmade()
        _check_options(minimum, maximum, hash_function)
        servers = {node.id: node for node in owning_nodes(topology, "Envoy")}
        hosts = [servers[node_id] for node_id in ids if node_id in servers]
        values = {
            "hosts": tuple(host.id for host in hosts),
            "minimum_ring_size": minimum,
            "maximum_ring_size": maximum,
            "hash_function": hash_function,
            "_points": _points(hosts, minimum, maximum),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._fill_foreign(topology, get("xxh64"))

    def on(self, topology: Topology) -> Self:
        """Return the ring of other hosts: the hosts that stay, in their order, then the new ones sorted by id."""
        stay = [node_id for node_id in self.hosts if node_id in topology]
        return self._in_order(topology, tuple(dict.fromkeys([*stay, *topology.ids])), self._options)

    @property
    def _options(self) -> tuple[int, int, HashFunction]:
        return self.minimum_ring_size, self.maximum_ring_size, self.hash_function

    @classmethod
    def _in_order(cls, topology: Topology, ids: Iterable[str], options: tuple[int, int, HashFunction]) -> Self:
        ring = cls.__new__(cls)
        ring._fill_in_order(topology, ids, *options)
        return ring

    def _tokens_of(self, index: int) -> Iterator[Token]:
        node_id, digest = self.topology.ids[index], _digest(self.hash_function)
        return (digest(f"{node_id}_{number}".encode()) for number in range(self._points.get(node_id, 0)))

    def __reduce__(self) -> "tuple[Callable[..., Envoy], tuple[object, ...]]":
        return self._in_order, (self.topology, self.hosts, self._options)

    def __repr__(self) -> str:
        sizes = f"minimum_ring_size={self.minimum_ring_size}, maximum_ring_size={self.maximum_ring_size}"
        function = f"hash_function={self.hash_function!r}, hasher={self.hasher.label!r}"
        return f"{type(self).__name__}({self.topology!r}, hosts={self.hosts!r}, {sizes}, {function})"


def _check_options(minimum: int, maximum: int, hash_function: str) -> None:
    for name, size in (("minimum_ring_size", minimum), ("maximum_ring_size", maximum)):
        check_int(name, size, 1, LARGEST_RING, hint="Envoy takes 1024 and 8388608 by default.")
    if minimum > maximum:
        hint = "Lower the one or raise the other."
        raise InvalidInput("minimum_ring_size", minimum, f"at most maximum_ring_size, {maximum}", hint)
    if hash_function not in ("xx-hash", "murmur-hash-2"):
        raise UnknownOption("hash_function", hash_function, ("xx-hash", "murmur-hash-2"))


def host_shares(hosts: Sequence[Node]) -> list[float]:
    """Return each host's weight divided by their sum, in doubles; `BadWeight` for a sum that Envoy refuses."""
    weights = [host.millionths // 1_000_000 for host in hosts]
    total = sum(weights)
    if total > LARGEST_SUM:
        hint = "Divide all by one factor."
        raise BadWeight("sum of weights", total, f"at most {LARGEST_SUM}, as Envoy adds them", hint)
    return [weight / total for weight in weights]


def _points(hosts: Sequence[Node], minimum: int, maximum: int) -> dict[str, int]:
    shares = host_shares(hosts)
    smallest = min(shares)
    scale = min(ceil(smallest * minimum) / smallest, float(maximum))
    points, made, target = {}, 0, 0.0
    for host, share in zip(hosts, shares, strict=True):
        target += scale * share
        points[host.id] = ceil(target) - made
        made = ceil(target)
    return points


def _digest(hash_function: HashFunction) -> Digest:
    return murmur_hash_2 if hash_function == "murmur-hash-2" else get("xxh64").digest


def _shifted(state: int) -> int:
    return state ^ state >> 47


SPEC = PlacementSpec(
    name="envoy",
    build=Envoy,
    source="Envoy, source/extensions/load_balancing_policies/ring_hash",
    weighted=True,
    ranked=True,
    tabular=True,
    lookup="O(log tokens)",
)
