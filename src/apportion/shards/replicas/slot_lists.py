"""Lists: the nodes that hold the copies of each slot. Slots are partitions of `balance.optimal`.

Promises: the copies of a slot lie in distinct zones; every node has its even share of the slots. A later change of the
nodes can move the proven minimum of copies.
Refuses: more copies than zones, and a node without a data centre where copies are counted by data centre.
"""

from collections.abc import Mapping

from apportion.balance.optimal import optimal
from apportion.errors import InvalidInput, UnknownOption
from apportion.model.topology import Topology

Copies = int | Mapping[str, int]
MOST_COPIES = 16


def slot_lists(topology: Topology, copies: Copies, slots: int) -> tuple[tuple[str, ...], ...]:
    """Return the list of each slot. With `copies` by data centre, each has its own lists, joined in their order.

    A data centre is the first level of a node's zone. `NotEnoughNodes` where zones are too few. O(slots · nodes).

    >>> lists = slot_lists(Topology(["a", "b", "c", "d"]), 3, 8)
    >>> len(lists), {len(set(each)) for each in lists}
    (8, {3})
    """
    if isinstance(copies, int):
        return _lists(topology, copies, slots)
    parts = [_lists(_within(topology, datacenter), count, slots) for datacenter, count in sorted(copies.items())]
    return tuple(tuple(node for part in row for node in part) for row in zip(*parts, strict=True))


def checked_copies(copies: Copies, topology: Topology) -> Copies:
    """Return the copies of a map: a count, or a count for each data centre of the topology."""
    if not isinstance(copies, Mapping):
        return _checked_count("copies", copies)
    known = {node.zone[0] for node in topology if node.zone}
    if not copies:
        raise InvalidInput("copies", copies, "a count, or counts by data centre", "Write copies=3.")
    for datacenter in copies:
        if datacenter not in known:
            raise UnknownOption("data centre in copies", datacenter, known)
    return {name: _checked_count(f"copies in {name}", count) for name, count in sorted(copies.items())}


def _checked_count(field: str, count: int) -> int:
    if type(count) is not int or not 0 < count <= MOST_COPIES:
        hint = "Write 3: then one of three nodes may be down."
        raise InvalidInput(field, count, f"an int in 1 .. {MOST_COPIES}", hint)
    return count


def _within(topology: Topology, datacenter: str) -> Topology:
    nodes = [node for node in topology if node.zone[:1] == (datacenter,)]
    return Topology(nodes, cluster=topology.cluster)


def _lists(topology: Topology, copies: int, slots: int) -> tuple[tuple[str, ...], ...]:
    found = optimal(slots, copies, topology)
    return tuple(tuple(found[slot]) for slot in range(slots))
