"""The assignment that slots start with if the caller passes only nodes. `balance` makes it, and lies above this room.

No room imports upwards. So the package itself, which every import loads first, puts the function of `balance` into
`makers`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apportion.model.assignment import Assignment
    from apportion.model.topology import Topology

makers: "list[Callable[[Topology, int | None], Assignment]]" = []


def first_assignment(topology: "Topology", count: int | None) -> "Assignment":
    """Return an even assignment of `count` slots, or of the default number, to the nodes of a topology."""
    [make] = makers
    return make(topology, count)
