"""The textbook ring, T of all ratios: `mmh3.hash` of 32 bits, `bisect` over a sorted list, a dict from point to node.

What an article shows, and no more: labels "node-0", "node-1", ...; a node is added point by point; keys are not checked
and colliding points go to whoever came last. The lookup is the article's fast form, without a helper method for the
hash, so that ratios do not flatter us.
"""

from bisect import bisect, insort
from importlib.metadata import version

import mmh3

from bench.contender import Contender, Route

VNODES = 150


class TextbookRing:
    """A ring of 150 points a node."""

    def __init__(self, nodes: list[str], vnodes: int = VNODES) -> None:
        self.vnodes = vnodes
        self.ring: dict[int, str] = {}
        self.points: list[int] = []
        for node in nodes:
            self.add_node(node)

    def add_node(self, node: str) -> None:
        """Put the points of a node onto the ring."""
        for i in range(self.vnodes):
            point = mmh3.hash(f"{node}-{i}", signed=False)
            self.ring[point] = node
            insort(self.points, point)

    def get_node(self, key: str) -> str:
        """Return the node of the next point clockwise."""
        i = bisect(self.points, mmh3.hash(key, signed=False))
        if i == len(self.points):
            i = 0
        return self.ring[self.points[i]]

    def get_nodes(self, key: str, count: int) -> list[str]:
        """Return the first `count` distinct nodes clockwise."""
        i = bisect(self.points, mmh3.hash(key, signed=False))
        nodes: list[str] = []
        while len(nodes) < count:
            node = self.ring[self.points[i % len(self.points)]]
            if node not in nodes:
                nodes.append(node)
            i += 1
        return nodes


def _build(nodes: list[str]) -> Route:
    return TextbookRing(nodes).get_node


TEXTBOOK = Contender(name="textbook", version=f"mmh3 {version('mmh3')} + bisect", build=_build)
