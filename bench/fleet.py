"""Nodes and keys that the figures share: the same in every run.

Timed keys are ASCII, as in the reference figures; keys that are only counted are of all kinds, non-ASCII among them.
"""

from random import Random
from uuid import UUID

from apportion import Node, Topology
from apportion.model.plan import Key

SEED = 20_240_229


def node_names(count: int) -> list[str]:
    """Return the ids of a fleet, in order."""
    return [f"node-{number:04d}" for number in range(count)]


def equal_fleet(count: int) -> Topology:
    """Return a fleet of nodes of weight 1."""
    return Topology(node_names(count))


def mixed_fleet(count: int) -> Topology:
    """Return a fleet of the weights 0.5, 1 and 2, in turn."""
    return Topology([Node(name, weight=2.0 ** (number % 3 - 1)) for number, name in enumerate(node_names(count))])


def contiguous_keys(count: int) -> list[str]:
    """Return keys that lie in memory in the order of the list, as a list just built does."""
    return [f"tenant-{number}" for number in range(count)]


def shuffled_keys(count: int) -> list[str]:
    """Return keys that lie scattered over memory, as those of a running program do."""
    keys = contiguous_keys(count)
    Random(SEED).shuffle(keys)
    return keys


def text_keys(count: int) -> list[str]:
    """Return distinct `str` keys, half of them not ASCII: Latin, Greek, Chinese, emoji."""
    words = ("user", "zoë", "order", "κλειδί", "item", "租户", "path", "🦊")
    return [f"{words[number % 8]}/{number}" for number in range(count)]


def mixed_keys(count: int) -> list[Key]:
    """Return distinct keys of every kind there is: `str` (half not ASCII), `bytes`, `int`, `UUID`."""
    texts = text_keys(count)
    return [
        (text, text.encode() + b"\xff", number - count // 2, UUID(int=number))[number // 8 % 4]
        for number, text in enumerate(texts)
    ]
