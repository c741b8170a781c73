"""Hot keys: ways to serve a key with more requests than one node can bear.

No placement spreads the load of a single key; the key must be divided or copied. Salting divides its writes over
several keys, and reads must gather them. Popular keys are copied to several nodes, and each of them answers reads.

Promises: the number of salts can be raised at any time without moving written data. The list of fewer salts is the
beginning of the list of more salts, and salt 0 is the key itself. The nodes of a popular key are the beginning of its
preference list, including its owner.
Refuses: to be a placement (each request draws its node anew), and to own the random source, which is an argument.

Format of salted keys: `docs/hot-keys.md`.
Source: random suffixes of DynamoDB's write sharding; copies of popular items as in Hong and Thottethodi 2013.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, Self

from apportion.errors import CannotPlace, InvalidInput, shown
from apportion.model.numbers import check_int
from apportion.model.plan import Key
from apportion.model.table import Owners
from apportion.model.topology import Topology
from apportion.placement.api import Placement, check_placement
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.spread import Spread

MAX_SALTS = 4096
MAX_POPULAR = 2**20
_SALT = b"\x1fsalt"
_SALTED = re.compile(rb"\x1fsalt[0-9]+\Z")


class RandomSource(Protocol):
    """The random source: `random.Random`, or any object with the same method."""

    def randrange(self, stop: int, /) -> int:
        """Return a number, 0 <= number < stop, all with the same probability."""


def salted(key: Key, salts: int) -> tuple[bytes, ...]:
    """Return all salted keys of a key; a read gathers the values of all of them. O(salts).

    >>> salted("views", 3)
    (b'views', b'views\\x1fsalt1', b'views\\x1fsalt2')
    """
    data = _salting(key, salts)
    return tuple(_with_salt(data, number) for number in range(salts))


def salt(key: Key, salts: int, rng: RandomSource) -> bytes:
    """Return one of the salted keys of a key, for a write: each with the same probability. O(length).

    >>> from random import Random
    >>> salt("views", 3, Random(7)) in salted("views", 3)
    True
    """
    return _with_salt(_salting(key, salts), _drawn(rng, salts))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PopularKeys:
    """Popular keys on k nodes each: the first k of their preference list. Every other key is on one node.

    Write a popular key to all of `nodes(key)`, and read it from `route(key, rng)`. If there are fewer than k zones,
    zones are reused by default (see `spread`).

    >>> from random import Random
    >>> from apportion import Ring
    >>> popular = PopularKeys(Ring(["a", "b", "c"]), popular={"news": 2})
    >>> popular.nodes("news"), popular.nodes("other")
    (('c', 'b'), ('b',))
    >>> popular.route("news", Random(7)) in popular.nodes("news")
    True
    """

    base: Placement
    popular: tuple[tuple[bytes, int], ...]
    spread: Spread
    _counts: dict[bytes, int] = field(compare=False)

    def __init__(self, base: Placement, *, popular: Mapping[Key, int], spread: Spread = "best-effort") -> None:
        check_placement("base", base)
        counts = _counts_of(popular)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "popular", tuple(sorted(counts.items())))
        object.__setattr__(self, "spread", spread)
        object.__setattr__(self, "_counts", counts)
        for key in counts:
            self.nodes(key)  # refuses more nodes than there are, before the first lookup

    @property
    def topology(self) -> Topology:
        """The nodes of the base."""
        return self.base.topology

    def nodes(self, key: Key) -> Owners:
        """Return the nodes that hold a key, its owner first."""
        return self.base.preference(key, self._counts.get(key_bytes(key), 1), spread=self.spread)

    def route(self, key: Key, rng: RandomSource) -> str:
        """Return one of the nodes that hold a key, each with the same probability."""
        nodes = self.nodes(key)
        return nodes[0] if len(nodes) == 1 else nodes[_drawn(rng, len(nodes))]

    def on(self, topology: Topology) -> Self:
        """Return the same popular keys over the base on another topology; `NotEnoughNodes` if it has too few nodes."""
        return type(self)(self.base.on(topology), popular=dict(self.popular), spread=self.spread)

    def __reduce__(self) -> "tuple[partial[PopularKeys], tuple[Placement]]":
        return partial(type(self), popular=dict(self.popular), spread=self.spread), (self.base,)

    def __repr__(self) -> str:
        return f"PopularKeys({self.base!r}, {len(self.popular)} popular, spread={self.spread!r})"


def popular_of(counts: Mapping[Key, int], *, total: int, nodes: int, capacity: int) -> dict[Key, int]:
    """Return the keys that need more than one node, with k, the number of nodes: `popular=` of `PopularKeys`.

    The hottest key comes first. `counts` are the requests of single keys within some time, `total` those of all keys.
    `capacity` is the number of requests that one node bears. Leave room in it, because other keys are spread less
    evenly than assumed. k is the least number for which one node can bear its requests. These are a k-th part of the
    key's requests, and an even part of all others. O(counts log counts). Raises `CannotPlace` if all nodes together
    bear too little.

    >>> popular_of({"news": 600, "cats": 150, "dogs": 50}, total=1000, nodes=5, capacity=250)
    {'news': 4, 'cats': 2}
    """
    for name, value in (("total", total), ("nodes", nodes), ("capacity", capacity)):
        check_int(name, value, 1, hint="Pass whole numbers; requests and capacity are for the same span of time.")
    if total > nodes * capacity:
        hint = "Add nodes, or raise the capacity of each; no placement can help here."
        raise CannotPlace(f"{total} requests are more than {nodes} nodes can serve, at {capacity} each.", hint)
    needs: list[tuple[int, bytes, Key, int]] = []
    for key, count in _checked(counts, total).items():
        room = nodes * capacity - (total - count)  # on all nodes together, beside the other keys
        needs.append((-count, key_bytes(key), key, -(-count * nodes // room) if count else 0))
    return {key: need for _, _, key, need in sorted(needs, key=lambda each: each[:2]) if need > 1}


def _salting(key: Key, salts: int) -> bytes:
    """Return the bytes of a key that can be salted so many times; raise `InvalidInput` otherwise."""
    check_int("salts", salts, 1, MAX_SALTS, hint="A few salts per node are enough; 1 means no salt.")
    data = key_bytes(key)
    if _SALTED.search(data):
        raise InvalidInput("key", key, "one that is not salted yet", "Salt the original key.")
    key_bytes(_with_salt(data, salts - 1))  # refuses a key that would be too long
    return data


def _with_salt(data: bytes, number: int) -> bytes:
    return data + _SALT + str(number).encode() if number else data


def _drawn(rng: RandomSource, stop: int) -> int:
    if not callable(getattr(rng, "randrange", None)):
        raise InvalidInput("rng", rng, "a source of random numbers", "Pass a random.Random.")
    number = rng.randrange(stop)
    if type(number) is not int or not 0 <= number < stop:
        raise InvalidInput("number that rng.randrange drew", number, f"one below {stop}", "Pass a random.Random.")
    return number


def _counts_of(popular: Mapping[Key, int]) -> dict[bytes, int]:
    if not isinstance(popular, Mapping) or len(popular) > MAX_POPULAR:
        expected = f"a mapping from at most {MAX_POPULAR} keys to numbers of nodes"
        raise InvalidInput("popular", popular, expected, 'Write popular={"news": 3}.')
    counts: dict[bytes, int] = {}
    for key, count in popular.items():
        data = key_bytes(key)
        if data in counts:
            hint = "Two spellings of a key are the same bytes: keep one."
            raise InvalidInput("popular key", key, "each key once", hint)
        check_int(f"nodes of {shown(key)}", count, 1, hint="1 is the owner alone.")
        counts[data] = count
    return counts


def _checked(counts: Mapping[Key, int], total: int) -> Mapping[Key, int]:
    if not isinstance(counts, Mapping):
        raise InvalidInput("counts", counts, "a mapping from keys to numbers of requests", 'Write {"news": 600}.')
    for key, count in counts.items():
        if type(count) is not int or not 0 <= count <= total:
            expected = f"an int in 0 .. {total}, the total"
            hint = "Count keys and total over the same requests."
            raise InvalidInput(f"count of {shown(key)}", count, expected, hint)
    if len({key_bytes(key) for key in counts}) < len(counts):
        raise InvalidInput("counts", len(counts), "each key once", "Two spellings of a key are the same bytes: add up.")
    return counts
