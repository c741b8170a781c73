"""Key to node, without I/O: algorithms, hash functions, preference lists, plans."""

from apportion.placement import hashers, jump, modulo, rendezvous, ring, slots
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
    "get",
    "handover",
    "hashers",
    "jump",
    "modulo",
    "names",
    "plan",
    "rendezvous",
    "ring",
    "slots",
]
