"""Placement: key to node, without I/O; with algorithms, hash functions, preference lists and plans.

A file is loaded at its first use. There are many files, and the first route of a process should load only those of
its placement.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apportion.placement import (
        bounded,
        choose_k,
        composite,
        directory,
        hashers,
        hotkeys,
        jump,
        lists,
        maglev,
        modulo,
        multiprobe,
        ranges,
        rendezvous,
        ring,
        slots,
    )
    from apportion.placement.api import Placement, PlacementSpec
    from apportion.placement.catalog import get, names
    from apportion.placement.explanation import Explanation
    from apportion.placement.hashers import Hasher
    from apportion.placement.jump import Jump
    from apportion.placement.layouts import cassandra, envoy, envoy_maglev, kafka, ketama, nginx, redis_slots
    from apportion.placement.modulo import Modulo
    from apportion.placement.plans import Handover, apply, handover, plan
    from apportion.placement.rendezvous import Rendezvous
    from apportion.placement.ring import Ring
    from apportion.placement.slots import Slots

_HOMES = {
    "api": ("Placement", "PlacementSpec"),
    "catalog": ("get", "names"),
    "explanation": ("Explanation",),
    "hashers": ("Hasher",),
    "jump": ("Jump",),
    "modulo": ("Modulo",),
    "plans": ("Handover", "apply", "handover", "plan"),
    "rendezvous": ("Rendezvous",),
    "ring": ("Ring",),
    "slots": ("Slots",),
}
_LAYOUTS = ("cassandra", "envoy", "envoy_maglev", "kafka", "ketama", "nginx", "redis_slots")
_HOME_OF = {name: home for home, names_there in _HOMES.items() for name in names_there}

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
    "nginx",
    "plan",
    "ranges",
    "redis_slots",
    "rendezvous",
    "ring",
    "slots",
]


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        value = getattr(import_module(f"apportion.placement.{_HOME_OF[name]}"), name)
    elif name in _LAYOUTS:
        value = import_module(f"apportion.placement.layouts.{name}")
    elif name in __all__:
        value = import_module(f"apportion.placement.{name}")
    else:
        raise import_module("apportion.errors.missing_name").MissingName(__name__, name, __all__, room=__name__)
    globals()[name] = value
    return value
