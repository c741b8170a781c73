"""fastring, the fastest Python ring there is: in Rust, for Python 3.13 and later. 150 points a node (its default: 128).

It documents no hash, so what is checked beyond the usual is that its batch and its replicas agree with its lookup.
"""

import sys
from collections.abc import Callable
from typing import Protocol

from bench.contender import Contender, NotSane, Route, installed, missing
from bench.fleet import text_keys
from bench.peers.textbook import VNODES

LEAST_PYTHON = (3, 13)


class HashRing(Protocol):
    """What is used of fastring's ring."""

    def add_node(self, name: str) -> None:
        """Put a node onto the ring."""

    def get_node(self, key: str) -> str:
        """Return the node of a key."""

    def get_node_batch(self, keys: list[str]) -> list[str]:
        """Return the node of each key."""

    def get_replicas(self, key: str, count: int) -> list[str]:
        """Return distinct nodes of a key, its owner first."""


def ring(nodes: list[str]) -> HashRing:
    """Return fastring's ring of these nodes."""
    from fastring import HashRing as Ring  # noqa: PLC0415 - perhaps not installed

    found: HashRing = Ring(virtual_nodes=VNODES)
    for node in nodes:
        found.add_node(node)
    return found


def _build(nodes: list[str]) -> Route:
    found, keys = ring(nodes), text_keys(1000)
    alone = [found.get_node(key) for key in keys]
    if alone != found.get_node_batch(keys) or alone != [found.get_replicas(key, 2)[0] for key in keys]:
        raise NotSane("fastring answers otherwise in a batch, or among replicas")
    return found.get_node


def batch(nodes: list[str]) -> Callable[[list[str]], list[str]]:
    """Return fastring's bulk call."""
    return ring(nodes).get_node_batch


def _absent() -> str:
    if sys.version_info < LEAST_PYTHON:
        return f"fastring needs Python >= {'.'.join(map(str, LEAST_PYTHON))}"
    return missing("fastring")


FASTRING = Contender(name="fastring", version=installed("fastring"), build=_build, absent=_absent())
