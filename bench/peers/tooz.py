"""tooz, OpenStack's coordination library: its hash ring, with 150 points a node (its default is 32).

Its lookup answers with a set of nodes, so a single owner is taken out of a set of one. It takes keys as bytes.
Documented: point k of a node is the MD5 of its name k + 2 times over; a key goes to the next point after its MD5.
"""

from bisect import bisect
from collections.abc import Callable
from hashlib import md5

from bench.contender import Contender, Route, installed, missing
from bench.peers.textbook import VNODES


def _build(nodes: list[str]) -> Route:
    get_nodes = _ring(nodes)

    def route(key: str) -> str:
        (node,) = get_nodes(key.encode())
        return node

    return route


def replicas(nodes: list[str]) -> Callable[[str, int], set[str]]:
    """Return what names so many distinct nodes of a key, in no order."""
    get_nodes = _ring(nodes)
    return lambda key, count: get_nodes(key.encode(), replicas=count)


def _ring(nodes: list[str]) -> Callable[..., set[str]]:
    from tooz.hashring import HashRing  # noqa: PLC0415 - perhaps not installed

    get_nodes: Callable[..., set[str]] = HashRing(nodes, partitions=VNODES).get_nodes
    return get_nodes


def _documented(nodes: list[str]) -> Route:
    points = sorted((_md5(node * repeats), node) for node in nodes for repeats in range(2, VNODES + 2))
    places = [place for place, _ in points]
    return lambda key: points[bisect(places, _md5(key)) % len(points)][1]


def _md5(text: str) -> int:
    return int(md5(text.encode(), usedforsecurity=False).hexdigest(), 16)


TOOZ = Contender(name="tooz", version=installed("tooz"), build=_build, absent=missing("tooz"), documented=_documented)
