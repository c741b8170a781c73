"""One step of the balancer: the smallest repair of given lists, so that they suit the nodes there are now.

First the replicas move, as few as can; then leaders change, as few as the new lists allow. Each comes with its proof.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from apportion.balance.flow import Network, solve
from apportion.balance.leaders import choose_leaders
from apportion.balance.quotas import Demand, load_bounds
from apportion.errors import NoNodes, NotEnoughNodes
from apportion.model.assignment import Rule
from apportion.model.certificate import Proof
from apportion.model.rows import NOBODY, Rows
from apportion.model.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What each node holds and leads of other resources, less its fair part of that."""

    held: tuple[int, ...]
    led: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The lists after a step, the leader first, and why none smaller would do."""

    rows: Rows
    proof: Proof


def demand_on(topology: Topology, up: Sequence[bool], *, partitions: int, rule: Rule) -> Demand:
    """Return what is to be placed on the nodes that are up and do not drain; refuse what a strict rule cannot place.

    Raises `NoNodes`, `NotEnoughNodes`.
    """
    eligible = [node for node, is_up in zip(topology, up, strict=True) if is_up and node.weight > 0]
    zones = {node.fault_domain(rule.spread_level): node.id for node in eligible}
    if not eligible:
        raise NoNodes("an assignment")
    if rule.spread == "strict" and len(eligible) < rule.replicas:
        raise NotEnoughNodes(rule.replicas, [node.id for node in eligible], "on distinct nodes")
    if rule.spread == "strict" and len(zones) < rule.replicas:
        raise NotEnoughNodes(rule.replicas, sorted(zones.values()), "in distinct zones")
    numbers: dict[object, int] = {}
    placed = tuple(numbers.setdefault(node.fault_domain(rule.spread_level), len(numbers)) for node in topology)
    members = [0] * len(numbers)
    for node in eligible:
        members[numbers[node.fault_domain(rule.spread_level)]] += 1
    replicas = min(rule.replicas, len(eligible))
    # Every zone gets as many as it can before any gets two more than another.
    everywhere = max(each for each in range(replicas + 1) if sum(min(each, count) for count in members) <= replicas)
    return Demand(
        partitions=partitions,
        replicas=replicas,
        weights=tuple(
            node.millionths if is_up else 0 for node, is_up in zip(topology, up, strict=True)
        ),
        zones=placed,
        zone_least=tuple(min(everywhere, count) for count in members),
        zone_most=tuple(min(everywhere + 1, count) for count in members),
    )  # fmt: skip


def repair(before: Rows, demand: Demand, *, lost: Sequence[int], elsewhere: Elsewhere | None = None) -> Step:
    """Return the smallest repair of lists. O(size) for each of a few rounds; see `flow`.

    `before` may name nodes that take nothing now; `lost[p]` is how many more, which are gone, held partition p.
    """
    kept, _ = translated(before, [index if weight else NOBODY for index, weight in enumerate(demand.weights)])
    bounds = load_bounds(demand)
    flow = solve(
        Network(demand=demand, bounds=bounds, before=kept, elsewhere=None if elsewhere is None else elsewhere.held)
    )
    led_before = [index if index != NOBODY and demand.weights[index] else -1 for index in _leaders(before)]
    leaders, leader_prices = choose_leaders(
        flow.rows, led_before, len(demand.weights), None if elsewhere is None else elsewhere.led
    )
    rows = _led(flow.rows, leaders)
    proof = Proof(
        moves=count_moves(before, rows, lost),
        prices=flow.prices,
        least=bounds.least,
        most=bounds.most,
        leader_changes=count_leader_changes(before, rows, lost),
        leader_prices=leader_prices,
    )
    return Step(rows=rows, proof=proof)


def translated(rows: Rows, to: Sequence[int]) -> tuple[Rows, "array[int]"]:
    """Return rows in which `to[i]` stands for index i, less those for which it is `NOBODY`, and how many these are.

    O(size).
    """
    lost, width = array("I", bytes(4 * len(rows))), rows.width
    if NOBODY in rows.buffer:
        left = array("I", (index if index == NOBODY else to[index] for index in rows.buffer))
    else:
        left = array("I", map(to.__getitem__, rows.buffer))
    if NOBODY in left:
        for partition in {place // width for place, index in enumerate(left) if index == NOBODY}:
            start, end = partition * width, (partition + 1) * width
            row = [index for index in left[start:end] if index != NOBODY]
            lost[partition] = len(rows[partition]) - len(row)
            left[start:end] = array("I", [*row, *[NOBODY] * (width - len(row))])
    return Rows(left, width=width), lost


def count_moves(before: Rows, after: Rows, lost: Sequence[int]) -> int:
    """Return how many replicas moved: those that are new, less those by which a list only grew. O(size)."""
    moves = 0
    for old, new, gone in zip(before, after, lost, strict=True):
        if old != new or gone:
            came = len(set(new).difference(old))
            moves += came - max(0, len(new) - len(old) - gone)
    return moves


def count_leader_changes(before: Rows, after: Rows, lost: Sequence[int]) -> int:
    """Return how many partitions that had a leader have another one now. O(partitions)."""
    pairs = zip(_leaders(before), _leaders(after), lost, strict=True)
    return sum(old != new and (old != NOBODY or gone > 0) for old, new, gone in pairs)


def _leaders(rows: Rows) -> "array[int]":
    return rows.buffer[:: rows.width]


def _led(rows: Rows, leaders: Sequence[int]) -> Rows:
    """Return rows in which each leader stands first, the others in the order they had."""
    ordered, width = array("I", rows.buffer), rows.width
    for partition, (first, leader) in enumerate(zip(_leaders(rows), leaders, strict=True)):
        if first != leader:
            row = rows[partition]
            others = [index for index in row if index != leader]
            ordered[partition * width : partition * width + len(row)] = array("I", [leader, *others])
    return Rows(ordered, width=width)
