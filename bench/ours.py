"""Our placements as contenders, of the implementation in use, with their defaults (150 vnodes for the ring)."""

import apportion
from apportion import Jump, Rendezvous, Ring, Slots, Topology, balance
from bench.contender import Contender, Route


def _ring(nodes: list[str]) -> Route:
    return Ring(nodes).route


def _slots(nodes: list[str]) -> Route:
    return Slots(balance.slots(Topology(nodes))).route


def _jump(nodes: list[str]) -> Route:
    return Jump(Topology(nodes)).route


def _rendezvous(nodes: list[str]) -> Route:
    return Rendezvous(nodes).route


RING = Contender(name="ring", version=apportion.__version__, build=_ring)
SLOTS = Contender(name="slots", version=apportion.__version__, build=_slots)
JUMP = Contender(name="jump", version=apportion.__version__, build=_jump)
RENDEZVOUS = Contender(name="rendezvous", version=apportion.__version__, build=_rendezvous)
