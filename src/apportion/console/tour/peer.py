"""Peer: the tour compares itself with uhashring, the ring with the most complete interface in Python."""

import importlib.util
from collections.abc import Sequence
from importlib.metadata import version
from math import gcd

from apportion.model.topology import Topology

MAX_WEIGHT = 100
"""A bound on the points of the ring (160 per unit of weight) if weights have no small common unit."""


def peer_name() -> str | None:
    """Return the peer and its version, or None if the peer is not installed."""
    return f"uhashring {version('uhashring')}" if importlib.util.find_spec("uhashring") else None


def peer_routes(topology: Topology, keys: Sequence[bytes]) -> list[str]:
    """Return the owner of each key under uhashring with its defaults.

    Weights become the smallest integers of the same ratio.
    """
    from uhashring import HashRing  # noqa: PLC0415 - may be absent

    units = [node.millionths for node in topology]
    unit = max(gcd(*units), max(units) // MAX_WEIGHT)
    weights = {node.id: max(1, node.millionths // unit) for node in topology if node.weight > 0}
    ring = HashRing({node_id: {"weight": weight} for node_id, weight in weights.items()})
    return [ring.get_node(key.decode(errors="replace")) for key in keys]
