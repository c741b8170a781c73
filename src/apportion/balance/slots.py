"""Slots: an even assignment of hash slots, one owner each, with the fewest moves.

Promises: every load is the floor or the ceiling of the node's exact weighted share. Among all assignments with this
property none moves fewer slots from `previous`. An assignment that is even already is returned unchanged.

Why the moves are the fewest: a node that held h slots and may hold l keeps min(h, l) of them. A load is the floor f
of the share, or f + 1; the extra slot saves a move exactly where h > f. So the extra slots go to these nodes first.

Among assignments with equally few moves, one with the fewest stray moves is taken. A stray move is one that no change
of the topology explains. With equal weights there is none. With unequal weights a slot may move between nodes whose
weights did not change, but only where evenness leaves no other choice.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction

from apportion.balance.arguments import check_previous, check_topology
from apportion.balance.solver.flow import FlowNetwork, solve
from apportion.balance.solver.quotas import Demand, LoadBounds
from apportion.errors import InvalidInput, NoNodes
from apportion.model.assignment import MAX_PARTITIONS, Assignment
from apportion.model.numbers import check_int
from apportion.model.rows import Rows
from apportion.model.topology import Topology
from apportion.placement.rendezvous import Rendezvous
from apportion.placement.slots import default_slots


def slots(topology: Topology, previous: Assignment | None = None, *, count: int | None = None) -> Assignment:
    """Return an assignment of hash slots to the nodes of a topology, in proportion to their weights.

    `previous` is the assignment to start from; its number of slots stays. Without `previous` there are `count` slots.
    The default is 32 per node, rounded up to a power of two, and at least 4096. Each slot then starts where rendezvous
    hashing puts it, so the slots of any node lie scattered over the circle.

    Order: by slot; ties go to the node with the largest remainder of its share, then by id. O(slots · nodes) for the
    first assignment, O(slots + nodes log nodes) for the next. Raises `NoNodes`, `InvalidInput`.

    >>> first = slots(Topology(["a", "b", "c"]), count=8)
    >>> first.loads, slots(first.topology.add("d"), previous=first).loads
    ({'a': 3, 'b': 3, 'c': 2}, {'a': 2, 'b': 2, 'c': 2, 'd': 2})
    """
    check_topology(topology)
    if all(node.weight == 0 for node in topology):
        raise NoNodes("an assignment of slots")
    if previous is None:
        slots_of_keys = Rendezvous(topology).route_indexes(range(_checked_count(topology, count)))
        old, owners = topology, list[int | None](slots_of_keys)
    else:
        check_previous(previous, topology)
        if count not in (None, len(previous.rows)):
            hint = "Leave count out: a key's slot must not change."
            raise InvalidInput("count of slots", count, f"{len(previous.rows)}, as before", hint)
        old, owners = previous.topology, _kept(topology, previous)
    # How much each node's weight grew. A node that drains has a cause to lose all its slots, whatever its weight was.
    gains = [node.weight - (old[node.id].weight if node.id in old else 0) if node.weight else -1.0 for node in topology]
    assigned = _paired(owners, _assigned(topology, owners, _loads(topology, owners, gains)), gains)
    return Assignment(topology=topology, rows=tuple((owner,) for owner in assigned))


def _checked_count(topology: Topology, count: int | None) -> int:
    if count is None:
        return default_slots(len(topology))
    check_int("count of slots", count, 1, MAX_PARTITIONS, hint="Use about 32 slots per node, or leave it out.")
    return count


def _kept(topology: Topology, previous: Assignment) -> list[int | None]:
    """Return the index of each slot's owner on the new topology; None where the owner is gone."""
    lists = previous.preference_lists.values()
    return [topology.index(owners[0]) if owners and owners[0] in topology else None for owners in lists]


def _loads(topology: Topology, owners: list[int | None], gains: list[float]) -> list[int]:
    """Return the number of slots of each node: the floor of its share, and one more for the most urgent nodes."""
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
        """Return the order: nodes where an extra slot saves a move, nodes with a cause, then by remainder and id."""
        saves_move = held[index] > loads[index]
        has_cause = gains[index] < 0 if saves_move else gains[index] > 0  # to lose the slot, or to get it
        return not saves_move, has_cause == saves_move, loads[index] - shares[index], index

    candidates.sort(key=urgency)
    for index in candidates[: len(owners) - sum(loads)]:
        loads[index] += 1
    return loads


def _assigned(topology: Topology, owners: Sequence[int | None], loads: Sequence[int]) -> list[int]:
    """Return each slot's owner: the fewest moves to exactly these loads, by the flow that `optimal` uses.

    One zone holds all nodes: a slot with one owner cannot have two owners in a zone.
    """
    demand = Demand(
        partitions=len(owners),
        replicas=1,
        weights=tuple(node.millionths for node in topology),
        zones=(0,) * len(topology),
        zone_least=(1,),
        zone_most=(1,),
    )
    exact = tuple(loads)
    bounds = LoadBounds(least=exact, most=exact, pools=(0,) * len(exact), totals=(len(owners),))
    kept = [() if owner is None or demand.weights[owner] == 0 else (owner,) for owner in owners]
    return [row[0] for row in solve(FlowNetwork(demand=demand, bounds=bounds, before=Rows.of(kept))).rows]


def _paired(before: Sequence[int | None], after: Sequence[int], gains: Sequence[float]) -> Iterator[int]:
    """Yield each slot's owner: a kept slot stays with its owner, and a node that gains slots gets neighbouring ones.

    Where the owner has no cause to lose a slot, the slot goes to a node with a cause to gain one, if any.
    """
    takers: dict[bool, deque[int]] = {False: deque(), True: deque()}
    for taker in sorted(new for old, new in zip(before, after, strict=True) if old != new):
        takers[gains[taker] > 0].append(taker)
    for old, new in zip(before, after, strict=True):
        if old == new:
            yield new
        else:
            needs_cause = old is not None and gains[old] >= 0
            yield (takers[needs_cause] or takers[not needs_cause]).popleft()
