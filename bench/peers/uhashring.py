"""uhashring, the Python ring with the most features: as it comes (MD5), and with the textbook's fast hash.

Both have 150 points a node (its default is 160), so that every ring here searches a list of the same length.
The second is there because MD5 is most of what the first one spends: with it alone we would beat a hash, not a ring.
"""

from collections.abc import Callable
from importlib.metadata import version

import mmh3

from bench.contender import Contender, Route, installed, missing
from bench.peers.textbook import VNODES


def _build(nodes: list[str]) -> Route:
    from uhashring import HashRing  # noqa: PLC0415 - perhaps not installed

    route: Route = HashRing(nodes, vnodes=VNODES).get_node
    return route


def _build_with_mmh3(nodes: list[str]) -> Route:
    from uhashring import HashRing  # noqa: PLC0415

    route: Route = HashRing(nodes, vnodes=VNODES, hash_fn=_hash).get_node
    return route


def replicas(nodes: list[str]) -> Callable[[str, int], list[str]]:
    """Return what names so many distinct nodes of a key, its owner first; as it comes, with MD5."""
    from uhashring import HashRing  # noqa: PLC0415

    walk = HashRing(nodes, vnodes=VNODES).range
    return lambda key, count: [node["nodename"] for node in walk(key, size=count)]


def _hash(key: str) -> int:
    return mmh3.hash64(key, signed=False)[0]


UHASHRING = Contender(name="uhashring (MD5)", version=installed("uhashring"), build=_build, absent=missing("uhashring"))
UHASHRING_MMH3 = Contender(
    name="uhashring (mmh3)",
    version=f"{installed('uhashring')}, mmh3 {version('mmh3')}",
    build=_build_with_mmh3,
    absent=missing("uhashring"),
)
