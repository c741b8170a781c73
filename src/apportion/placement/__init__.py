"""Key to node, without I/O: algorithms, hash functions, preference lists, plans.

The files of the algorithms that few programs use are loaded when first asked for: there are many, and the first route
of a process should not wait for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from apportion.placement import hashers, jump, modulo, native, rendezvous, ring, slots
from apportion.placement.api import Placement, PlacementSpec
from apportion.placement.catalog import get, names
from apportion.placement.change import Handover, apply, handover, plan
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import Hasher
from apportion.placement.jump import Jump
from apportion.placement.modulo import Modulo
from apportion.placement.rendezvous import Rendezvous
from apportion.placement.ring import Ring
from apportion.placement.slots import Slots

if TYPE_CHECKING:
    from apportion.placement import (
        bounded,
        cassandra,
        choose_k,
        composite,
        directory,
        envoy,
        envoy_maglev,
        hotkeys,
        kafka,
        ketama,
        lists,
        maglev,
        multiprobe,
        nginx,
        ranges,
        redis_slots,
    )

_LOADED_WHEN_USED = frozenset(
    (
        "bounded", "cassandra", "choose_k", "composite", "directory", "envoy", "envoy_maglev", "hotkeys", "kafka",
        "ketama", "lists", "maglev", "multiprobe", "nginx", "ranges", "redis_slots",
    )
)  # fmt: skip

__all__ = [
    "Explanation",
    "Handover",
    "Hasher",
    "Jump",
    "Modulo",
    "Placement",
    "PlacementSpec",
    "Rendezvous",
    "Ring",
    "Slots",
    "apply",
    "bounded",
    "cassandra",
    "choose_k",
    "composite",
    "directory",
    "envoy",
    "envoy_maglev",
    "get",
    "handover",
    "hashers",
    "hotkeys",
    "jump",
    "kafka",
    "ketama",
    "lists",
    "maglev",
    "modulo",
    "multiprobe",
    "names",
    "native",
    "nginx",
    "plan",
    "ranges",
    "redis_slots",
    "rendezvous",
    "ring",
    "slots",
]


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module 'apportion.placement' has no attribute {name!r}")
    return import_module(f"apportion.placement.{name}")
