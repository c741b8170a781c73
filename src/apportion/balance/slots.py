"""An even assignment of hash slots, one owner each, with the fewest moves.

Promises: every load is the floor or the ceiling of the node's exact weighted share; among all such assignments none
moves fewer slots from `previous`; an assignment that is even already is returned as it is.

Why it is the fewest: a node that held h slots and may hold l keeps min(h, l) of them. A load is the floor f of the
share, or f + 1; the extra slot saves a move exactly where h > f. So the extras go to such nodes first.

Where several assignments move equally few, one with the fewest stray moves is taken. With equal weights there is none;
with unequal ones a slot may move between nodes whose weights did not change where evenness leaves no other choice.
"""

from collections import deque
from collections.abc import Iterator
from fractions import Fraction

from apportion.errors import InvalidInput, NoNodes
from apportion.model.assignment import MAX_PARTITIONS, Assignment
from apportion.model.topology import Topology
from apportion.placement.rendezvous import Rendezvous
from apportion.placement.slots import default_slots


def slots(topology: Topology, previous: Assignment | None = None, *, count: int | None = None) -> Assignment:
    """Return an assignment of hash slots to the nodes of a topology, in proportion to their weights.

    `previous` is the assignment to start from; its number of slots stays. Without one there are `count` slots (by
    default the larger of 4096 and the next power of two of 32 a node), and each starts where rendezvous hashing puts
    it, so that the slots of any node lie scattered over the circle.

    Order: by slot; ties go to the node with the largest remainder of its share, then by id. O(slots · nodes) for the
    first, O(slots + nodes log nodes) for the next. Raises `NoNodes`, `InvalidInput`.

    >>> first = slots(Topology(["a", "b", "c"]), count=8)
    >>> first.loads, slots(first.topology.add("d"), previous=first).loads
    ({'a': 3, 'b': 3, 'c': 2}, {'a': 2, 'b': 2, 'c': 2, 'd': 2})
    """
    if not isinstance(topology, Topology):
        raise InvalidInput("topology", topology, "a Topology", "Wrap the nodes: Topology([...]).")
    if all(node.weight == 0 for node in topology):
        raise NoNodes("an assignment of slots")
    if previous is None:
        old, owners = topology, _scattered(topology, _checked_count(topology, count))
    else:
        _check_previous(topology, previous, count)
        old, owners = previous.topology, _kept(topology, previous)
    # What a node may own more than before; one that drains has a cause to lose all it holds, whatever it weighed.
    gains = [node.weight - (old[node.id].weight if node.id in old else 0) if node.weight else -1.0 for node in topology]
    return Assignment(topology=topology, rows=tuple(_repaired(owners, _loads(topology, owners, gains), gains)))


def _checked_count(topology: Topology, count: int | None) -> int:
    if count is None:
        return default_slots(len(topology))
    if type(count) is not int or not 0 < count <= MAX_PARTITIONS:
        raise InvalidInput(
            "count of slots", count, f"an int in 1 .. {MAX_PARTITIONS}", "Use some 32 slots a node, or leave it out."
        )
    return count


def _scattered(topology: Topology, count: int) -> list[int | None]:
    return list(Rendezvous(topology).route_indexes(range(count)))


def _check_previous(topology: Topology, previous: Assignment, count: int | None) -> None:
    if not isinstance(previous, Assignment):
        raise InvalidInput("previous", previous, "an Assignment", "Of a placement, pass its assignment.")
    if previous.topology.cluster != topology.cluster:
        raise InvalidInput(
            "cluster of previous",
            previous.topology.cluster,
            repr(topology.cluster),
            "Start from an assignment of the same cluster.",
        )
    if count not in (None, len(previous.rows)):
        raise InvalidInput(
            "count of slots",
            count,
            f"{len(previous.rows)}, as before",
            "Leave count out: a key's slot must not change.",
        )


def _kept(topology: Topology, previous: Assignment) -> list[int | None]:
    """Return the index of each slot's owner on the new topology; None where it is gone."""
    lists = previous.preference_lists.values()
    return [topology.index(owners[0]) if owners and owners[0] in topology else None for owners in lists]


def _loads(topology: Topology, owners: list[int | None], gains: list[float]) -> list[int]:
    """Return how many slots each node is to hold: the floor of its share, and one more where that saves most."""
    total = sum(node.millionths for node in topology)
    shares = [Fraction(len(owners) * node.millionths, total) for node in topology]
    loads = [share.numerator // share.denominator for share in shares]
    held = [0] * len(topology)
    for owner in owners:
        if owner is not None:
            held[owner] += 1
    # A share without remainder is exact: its node never takes an extra slot.
    candidates = [index for index, share in enumerate(shares) if share != loads[index]]

    def urgency(index: int) -> tuple[bool, bool, Fraction, int]:
        """Sort first whom an extra slot saves a move, then whom a cause entitles to it, then by remainder and id."""
        saves_move = held[index] > loads[index]
        has_cause = gains[index] < 0 if saves_move else gains[index] > 0  # to lose the slot, or to get it
        return not saves_move, has_cause == saves_move, loads[index] - shares[index], index

    candidates.sort(key=urgency)
    for index in candidates[: len(owners) - sum(loads)]:
        loads[index] += 1
    return loads


def _repaired(owners: list[int | None], loads: list[int], gains: list[float]) -> Iterator[tuple[int]]:
    """Yield each slot's owner: the one it had while that has room, else the next node that still lacks slots.

    A slot whose owner has no cause to lose it goes to a node that has a cause to get one, while there are such nodes.
    """
    room = list(loads)
    stays = []
    for owner in owners:
        stays.append(owner is not None and room[owner] > 0)
        if owner is not None and room[owner] > 0:
            room[owner] -= 1
    lacking = {
        grew: deque(index for index, free in enumerate(room) for _ in range(free) if (gains[index] > 0) is grew)
        for grew in (False, True)
    }
    for owner, keeps in zip(owners, stays, strict=True):
        if owner is not None and keeps:
            yield (owner,)
        else:
            needs_cause = owner is not None and gains[owner] >= 0
            yield ((lacking[needs_cause] or lacking[not needs_cause]).popleft(),)
