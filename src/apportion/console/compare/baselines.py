"""Baselines: simple methods that papers on consistent hashing name first, with the reasons why they are not enough.

`compare` sets them beside the placements. They are functions outside the catalog, so that no program routes by them.
Each takes a topology and keys, and returns the owner of every key. Two calls, with the topology before and after a
change, show the moves of the change. All but `random_node` ignore weights.

Source: the methods that Karger et al. 1997 and Thaler and Ravishankar 1998 argue against.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeAlias

from apportion.errors import NoNodes
from apportion.model.token import POSITIONS
from apportion.model.topology import Topology
from apportion.placement import hashers

Owners: TypeAlias = Callable[[Topology, Sequence[bytes]], list[str]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A method: its name, its owners of keys on a topology, and one line on why the method is not enough."""

    name: str
    owners: Owners
    why_not: str


def baselines(random: Random) -> tuple[Baseline, ...]:
    """Return every baseline, sorted by name. The baseline "random" draws from `random`."""
    return (
        Baseline(
            "key ranges",
            key_ranges,
            "keys with the same beginning are on one node, and a change of one node shifts nearly every boundary",
        ),
        Baseline(
            "random",
            partial(random_node, random),
            "the node of a key is not known: each lookup names another node, so a reader asks every node",
        ),
        Baseline(
            "single node",
            single_node,
            "all other nodes are idle, one node limits the size, and every key moves when that node leaves",
        ),
        Baseline(
            "static modulo",
            static_modulo,
            "nearly every hash has another remainder when the number of nodes changes",
        ),
    )


def random_node(random: Random, topology: Topology, keys: Sequence[bytes]) -> list[str]:
    """Return a random node per key, with odds in proportion to weight; each call draws anew. O(keys log nodes).

    >>> topology = Topology(["a", "b"])
    >>> random_node(Random(1), topology, [b"k"] * 4) == random_node(Random(1), topology, [b"k"] * 4)
    True
    """
    owning = _owning(topology)
    weights = [topology[node_id].millionths for node_id in owning]
    return random.choices(owning, weights, k=len(keys))


def single_node(topology: Topology, keys: Sequence[bytes]) -> list[str]:
    """Return the first node by id, for every key. O(keys).

    >>> single_node(Topology(["a", "b"]), [b"x", b"y"])
    ['a', 'a']
    """
    return _owning(topology)[:1] * len(keys)


def key_ranges(topology: Topology, keys: Sequence[bytes]) -> list[str]:
    """Return a node for each key: each node owns an equal part of the range of a key's first 8 bytes. O(keys).

    Shorter keys are filled up with zero bytes. Nodes have their parts in the order of their ids.

    >>> key_ranges(Topology(["a", "b"]), [b"apple", bytes([255]), b""])
    ['a', 'b', 'a']
    """
    owning = _owning(topology)
    starts = (int.from_bytes(key[:8].ljust(8, b"\0"), "big") for key in keys)
    return [owning[start * len(owning) // POSITIONS] for start in starts]


def static_modulo(topology: Topology, keys: Sequence[bytes]) -> list[str]:
    """Return a node for each key: nodes are sorted by id, and the hash modulo their number is the index. O(keys).

    >>> static_modulo(Topology(["a", "b", "c"]), [b"tenant-42"])
    ['a']
    """
    owning, digest = _owning(topology), hashers.get().digest
    return [owning[digest(key) % len(owning)] for key in keys]


def _owning(topology: Topology) -> list[str]:
    owning = [node.id for node in topology if node.weight > 0]
    if not owning:
        raise NoNodes("a baseline")
    return owning
