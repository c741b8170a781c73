"""`optimal`: partitions with replicas over nodes in zones: even loads, few moves, distinct zones, with a proof.

Distinct nodes and zones come first, then even loads, then the fewest moves, then the fewest changes of leader. No goal
is given up for a later one; `docs/balance/optimal.md` tells each exactly.

Promises: input that is even already is returned unchanged. The order of the given nodes and partitions does not
matter. A node that was down gets its partitions back once it is up.
Refuses: to look at the load of a partition. Sizes are kept for the cost of moves; they do not decide the owners.

Source: an integral minimum-cost flow. `flow` and `augment` describe the solution, `verify` describes the check.
"""

from array import array
from collections.abc import Iterable
from functools import partial
from itertools import islice

from apportion.balance.api import BalancerSpec, GroupView, Owners
from apportion.balance.arguments import Partitions
from apportion.balance.request import OptimalRequest, Sizes
from apportion.balance.solver.repair import Before, Elsewhere, demand_on, repair
from apportion.model.assignment import Assignment, Rule, Spread
from apportion.model.rows import NOBODY, Rows
from apportion.model.topology import Topology
from apportion.placement.rendezvous import Rendezvous

BATCH = 2**14
THREADS = 4  # more would find nothing to do: a thread takes 2**12 keys at a time


def optimal(
    partitions: Partitions,
    replicas: int,
    topology: Topology,
    *,
    previous: Assignment | None = None,
    live: Iterable[str] | None = None,
    sizes: Sizes | None = None,
    spread_level: int | None = None,
    spread: Spread = "strict",
) -> Assignment:
    """Return the owners of each partition: as even as can be, moving the fewest replicas from `previous`.

    `partitions` is a count (ids "0", "1", …) or the ids. `live` are the nodes that are up, all by default. Nodes that
    are down keep their partitions in `home` and get them back. `sizes` are bytes, by id or in the order of
    `partitions`; sizes known from `previous` stay. Two nodes are in one zone when their paths are equal down to
    `spread_level`. With `best-effort`, replicas share zones, or are fewer, where there is no other way; `degraded`
    names these partitions.

    O(size) for each of a few rounds, O(partitions · nodes) for a first assignment. Raises `NotEnoughNodes`,
    `NoNodes`, `InvalidInput`.

    >>> before = optimal(6, 2, Topology(["a", "b", "c"]))
    >>> before.loads, before.leader_loads
    ({'a': 4, 'b': 4, 'c': 4}, {'a': 2, 'b': 2, 'c': 2})
    >>> after = optimal(6, 2, before.topology.add("d"), previous=before)
    >>> after.loads, len(after.moves_from(before))
    ({'a': 3, 'b': 3, 'c': 3, 'd': 3}, 3)
    """
    request = OptimalRequest.checked(partitions, topology, previous, live, sizes)
    rule = Rule(replicas=replicas, spread_level=spread_level, spread=spread)
    return place(request, rule)


def place(request: OptimalRequest, rule: Rule, elsewhere: Elsewhere | None = None) -> Assignment:
    """Return the assignment that a checked request asks for."""
    topology = request.topology
    demand = demand_on(topology, [True] * len(topology), partitions=request.count, rule=rule)
    home = repair(start(request, rule), demand, elsewhere)
    if all(request.up):
        return request.assignment(rule, home, None)
    demand = demand_on(topology, request.up, partitions=request.count, rule=rule)
    return request.assignment(rule, home, repair(Before.of(home.rows), demand, elsewhere))


def start(request: OptimalRequest, rule: Rule) -> Before:
    """Return the lists that the home step repairs."""
    if request.previous is None:
        return Before.first(first_lists(request.topology, request.ids, rule))
    previous, topology = request.previous, request.topology
    rows, ids = Rows.of(previous.home_rows), previous.topology.ids
    if previous.names != request.names or len(rows) != request.count:
        places = (previous.preference_lists.place(name) for name in request.ids)
        rows = Rows.of([() if place is None else rows[place] for place in places])
    if ids == topology.ids:
        return Before.of(rows)
    return Before.translated(rows, [topology.index(node_id) if node_id in topology else NOBODY for node_id in ids])


def first_lists(topology: Topology, ids: Iterable[str], rule: Rule) -> Rows:
    """Return the lists of weighted rendezvous hashing: uneven, but the nodes of each list are independent."""
    rendezvous = Rendezvous(topology)
    count = min(rule.replicas, sum(node.weight > 0 for node in topology))
    names, lists = iter(ids), array("I")
    rank = partial(rendezvous.preference_indexes, spread_level=rule.spread_level, spread="best-effort", threads=THREADS)
    # In batches, so that a run over a million partitions can be interrupted.
    while some := list(islice(names, BATCH)):
        lists.extend(rank(some, count))
    return Rows(lists, width=count)


def _owners(view: GroupView) -> Owners:
    found = optimal(view.partitions, 1, view.topology, previous=view.previous)
    return tuple(map(found.topology.ids.__getitem__, Rows.of(found.rows).buffer))


SPEC = BalancerSpec(
    name="optimal",
    assign=optimal,
    owners=_owners,
    source="an integral minimum-cost flow",
    takes="topology",
    weighted=True,
    zoned=True,
    even=True,
    minimal_movement=True,
)
