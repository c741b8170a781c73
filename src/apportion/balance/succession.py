"""Succession: the placement of the same kind on the next topology, with the fewest moves of its kind.

This module joins placing and balancing: slots need an assignment, and only a balancer makes the next one.
"""

from apportion.balance.slots import slots
from apportion.model.topology import Topology
from apportion.placement.api import Placement, check_placement
from apportion.placement.slots import Slots


def succeed(placement: Placement, topology: Topology) -> Placement:
    """Return the placement of the same kind on the next topology; slots are balanced anew with the fewest moves.

    >>> from apportion import Ring
    >>> after = Topology(["a", "b", "c"])
    >>> succeed(Ring(["a", "b"]), after) == Ring(after)
    True
    """
    check_placement("placement", placement)
    if isinstance(placement, Slots):
        return type(placement)(slots(topology, previous=placement.assignment), hasher=placement.hasher)
    return placement.on(topology)
