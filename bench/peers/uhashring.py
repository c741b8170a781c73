"""uhashring, the Python ring with the most features: as it comes (MD5), and with the textbook's fast hash.

Both have 150 points a node (its default is 160), so that every ring here searches a list of the same length.
The second is there because MD5 is most of what the first one spends: with it alone we would beat a hash, not a ring.
"""

from importlib.metadata import version

import mmh3
from uhashring import HashRing

from bench.contender import Contender, Route
from bench.peers.textbook import VNODES


def _build(nodes: list[str]) -> Route:
    route: Route = HashRing(nodes, vnodes=VNODES).get_node
    return route


def _build_with_mmh3(nodes: list[str]) -> Route:
    route: Route = HashRing(nodes, vnodes=VNODES, hash_fn=_hash).get_node
    return route


def _hash(key: str) -> int:
    return mmh3.hash64(key, signed=False)[0]


UHASHRING = Contender(name="uhashring (MD5)", version=f"uhashring {version('uhashring')}", build=_build)
UHASHRING_MMH3 = Contender(
    name="uhashring (mmh3)",
    version=f"uhashring {version('uhashring')}, mmh3 {version('mmh3')}",
    build=_build_with_mmh3,
)
