"""`optimal` on 50 nodes in 5 zones, 1000 partitions x 3: what each change moves, beside the certificate's bound.

Each scenario is run on five clusters, that differ by the names of their nodes, and must hold in all of them; every
assignment is verified. Replicas moved and leaders changed are shown as percentages of all, with the least and most of
any cluster.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import mean

from apportion import Assignment, Node, Topology
from apportion.balance import optimal, verify
from bench.row import Row

NODES, ZONES, PARTITIONS, REPLICAS = 50, 5, 1000, 3
CLUSTERS = 5
ADDED = {1: 1.93, 5: 9.00, 10: 16.67}
LOST = {1: 2.0, 2: 4.0, 5: 10.0}
LEADER_SLACK_POINTS = 3
RESTARTED = 20
NAME = f"optimal, {NODES} nodes in {ZONES} zones, {PARTITIONS} x {REPLICAS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one change did on one cluster, in percent of all replicas or leaders, and the spreads after it."""

    moved: float
    leaders_changed: float
    leader_bound: float
    spread: int
    leader_spread: int


def rows() -> list[Row]:
    """Run every scenario."""
    found: list[Row] = []
    for count, expected in ADDED.items():
        found += _change_rows(f"add {count}", expected, partial(_grown, count=count))
    for count, expected in LOST.items():
        found += _change_rows(f"disable {count}", expected, partial(_shrunk, count=count))
    return [*found, _restart_row(), _weights_row()]


def _change_rows(name: str, expected: float, change: Callable[[int], Outcome]) -> Iterator[Row]:
    outcomes = [change(cluster) for cluster in range(CLUSTERS)]
    moved = [outcome.moved for outcome in outcomes]
    yield Row(
        name=f"{NAME}: {name}, moved",
        value=mean(moved),
        shown=f"{mean(moved):.2f} % ({min(moved):.2f}..{max(moved):.2f})",
        goal=f"= {expected:.2f} %, proven",
        met=all(round(each, 2) == expected for each in moved),
    )
    worst = max(outcome.leaders_changed - outcome.leader_bound for outcome in outcomes)
    changed = [outcome.leaders_changed for outcome in outcomes]
    yield Row(
        name=f"{NAME}: {name}, leaders",
        value=mean(changed),
        shown=f"{mean(changed):.2f} % changed ({min(changed):.2f}..{max(changed):.2f})",
        goal=f"<= bound {max(outcome.leader_bound for outcome in outcomes):.2f} % + {LEADER_SLACK_POINTS}",
        met=worst <= LEADER_SLACK_POINTS,
    )
    spreads = max(outcome.spread for outcome in outcomes), max(outcome.leader_spread for outcome in outcomes)
    yield Row(
        name=f"{NAME}: {name}, spread",
        value=max(spreads),
        shown=f"{spreads[0]} of replicas, {spreads[1]} of leaders",
        goal="<= 1",
        met=max(spreads) <= 1,
    )


def _cluster(number: int) -> Topology:
    return Topology([Node(f"host{number}-{place:03}", zone=(f"zone-{place % ZONES}",)) for place in range(NODES)])


def _first(number: int) -> Assignment:
    before = optimal(PARTITIONS, REPLICAS, _cluster(number))
    verify(before)
    return before


def _grown(number: int, *, count: int) -> Outcome:
    before = _first(number)
    added = [Node(f"new{number}-{place}", zone=(f"zone-{place % ZONES}",)) for place in range(count)]
    after = optimal(PARTITIONS, REPLICAS, before.topology.add(*added), previous=before)
    return _outcome(before, after, must_change=count * (PARTITIONS // (NODES + count)))


def _shrunk(number: int, *, count: int) -> Outcome:
    before = _first(number)
    gone = before.topology.ids[:: NODES // count][:count]
    after = optimal(PARTITIONS, REPLICAS, before.topology.without(*gone), previous=before)
    return _outcome(before, after, must_change=sum(before.leader_loads[node_id] for node_id in gone))


def _outcome(before: Assignment, after: Assignment, *, must_change: int) -> Outcome:
    verdict = verify(after, previous=before)
    loads, led = after.loads.values(), after.leader_loads.values()
    return Outcome(
        moved=100 * verdict.moves / verdict.replicas,
        leaders_changed=100 * verdict.leader_changes / PARTITIONS,
        leader_bound=100 * must_change / PARTITIONS,
        spread=max(loads) - min(loads),
        leader_spread=max(led) - min(led),
    )


def _restart_row() -> Row:
    """Restart nodes one after the other: each step proven the smallest, and no drift when all are back."""
    before = _first(0)
    current, ids = before, before.topology.ids
    moves, spread = [], 0
    for node_id in ids[:RESTARTED]:
        after = optimal(PARTITIONS, REPLICAS, before.topology, previous=current, live=set(ids) - {node_id})
        moves.append(verify(after, previous=current).repair_moves)
        up = [load for each, load in after.loads.items() if each != node_id]
        spread, current = max(spread, max(up) - min(up)), after
    back = optimal(PARTITIONS, REPLICAS, before.topology, previous=current)
    verify(back, previous=current)
    drift = len(back.moves_from(before))
    expected = sum(before.loads[node_id] for node_id in ids[:RESTARTED])
    return Row(
        name=f"{NAME}: rolling restart of {RESTARTED}",
        value=drift,
        shown=f"drift {drift}, {sum(moves)} moved of {expected} on the restarted, spread {spread}",
        goal="drift 0, each step proven",
        met=drift == 0 and sum(moves) == expected and spread <= 1,
    )


def _weights_row() -> Row:
    """Give nodes unequal weights, then other ones: every load the floor or the ceiling of its share."""
    weighted = Topology([Node(node.id, zone=node.zone, weight=1 + place % 3) for place, node in enumerate(_cluster(0))])
    before = optimal(PARTITIONS, REPLICAS, weighted)
    verify(before)
    heavier = weighted.reweight(weighted.ids[0], 3).reweight(weighted.ids[7], 1)
    after = optimal(PARTITIONS, REPLICAS, heavier, previous=before)
    verdict = verify(after, previous=before)
    needed = sum(max(0, after.loads[each] - before.loads[each]) for each in heavier.ids)
    furthest = max(_distance(before), _distance(after))
    return Row(
        name=f"{NAME}: weights 1 to 3, two changed",
        value=furthest,
        shown=f"loads within {furthest:.3f} of their shares, {verdict.moves} moved of {needed} needed",
        goal="< 1, moved = needed",
        met=furthest < 1 and verdict.moves == needed,
    )


def _distance(assignment: Assignment) -> float:
    total = sum(node.weight for node in assignment.topology)
    shares = {node.id: PARTITIONS * REPLICAS * node.weight / total for node in assignment.topology}
    return max(abs(load - shares[node_id]) for node_id, load in assignment.loads.items())
