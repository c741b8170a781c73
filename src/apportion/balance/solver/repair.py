"""One step of the balancer: the smallest repair of given lists, so that they suit the current nodes.

First the replicas move, as few as possible; then leaders change, as few as the new lists allow. Each comes with its
proof.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import ne

from apportion.balance.solver.flow import FlowNetwork, solve
from apportion.balance.solver.leaders import choose_leaders
from apportion.balance.solver.quotas import Demand, load_bounds, settled
from apportion.errors import NoNodes, NotEnoughNodes
from apportion.model.assignment import Rule
from apportion.model.certificate import Proof
from apportion.model.rows import NOBODY, Rows
from apportion.model.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The replicas and leads of each node from other resources, less the node's fair part of them."""

    held: tuple[int, ...]
    led: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairStep:
    """The lists after a step, the leader first, and the proof that no smaller step is enough."""

    rows: Rows
    proof: Proof


def demand_on(topology: Topology, up: Sequence[bool], *, partitions: int, rule: Rule) -> Demand:
    """Return the demand on the nodes that are up and do not drain; refuse a demand that a strict rule cannot place.

    Raises `NoNodes`, `NotEnoughNodes`.
    """
    eligible = [node for node, is_up in zip(topology, up, strict=True) if is_up and node.weight > 0]
    zones = {node.fault_domain(rule.spread_level): node.id for node in eligible}
    if not eligible:
        raise NoNodes("an assignment", among="the topology" if all(up) else "live")
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
    # A zone has at most one replica more than any zone that still has an unused node.
    fits = (sum(min(each, count) for count in members) <= replicas for each in range(1, replicas + 1))
    everywhere = sum(takewhile(bool, fits))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The owners of each partition before, as indexes of the current topology.

    `lost[p]` is the number of owners of partition p that are gone, and so are not in `rows`. `leaders[p]` is its
    leader, or `NOBODY` if the leader is gone or there was none. `unled` is the number of partitions that had no leader.
    `is_first` means that no node held anything and the rows are only a start.
    """

    rows: Rows
    lost: "array[int]"
    leaders: "array[int]"
    unled: int
    is_first: bool = False

    @classmethod
    def of(cls, rows: Rows) -> "Before":
        """Return these rows as the current lists, with no owner gone."""
        leaders = rows.buffer[:: rows.width]
        return cls(rows=rows, lost=array("I", bytes(4 * len(rows))), leaders=leaders, unled=leaders.count(NOBODY))

    @classmethod
    def first(cls, rows: Rows) -> "Before":
        """Return these rows as a start only: no node holds anything yet."""
        nobody = array("I", [NOBODY]) * len(rows)
        return replace(cls.of(rows), leaders=nobody, unled=len(rows), is_first=True)

    @classmethod
    def translated(cls, rows: Rows, to: Sequence[int]) -> "Before":
        """Return rows in which `to[i]` stands for index i, without indexes that map to `NOBODY`. O(size)."""
        was, width = cls.of(rows), rows.width
        new = _mapped(rows.buffer, to)
        leaders = new[::width]
        if NOBODY in new:
            for partition in {place // width for place, index in enumerate(new) if index == NOBODY}:
                start, end = partition * width, (partition + 1) * width
                row = [index for index in new[start:end] if index != NOBODY]
                was.lost[partition] = len(rows[partition]) - len(row)
                new[start:end] = array("I", [*row, *[NOBODY] * (width - len(row))])
        return replace(was, rows=Rows(new, width=width), leaders=leaders)


def _mapped(buffer: "array[int]", to: Sequence[int]) -> "array[int]":
    if NOBODY in buffer:
        return array("I", (index if index == NOBODY else to[index] for index in buffer))
    return array("I", map(to.__getitem__, buffer))


def repair(before: Before, demand: Demand, elsewhere: Elsewhere | None = None) -> RepairStep:
    """Return the smallest repair of the earlier lists. O(size) for each of a few rounds; see `flow`."""
    stays = [index if weight else NOBODY for index, weight in enumerate(demand.weights)]
    kept = before.rows if NOBODY not in stays else Before.translated(before.rows, stays).rows
    led_before = _mapped(before.leaders, stays)
    bounds = load_bounds(demand)
    if before.is_first and elsewhere is not None:
        bounds = settled(bounds, demand, elsewhere.held)
    held, led = (None, None) if elsewhere is None else (elsewhere.held, elsewhere.led)
    flow = solve(FlowNetwork(demand=demand, bounds=bounds, before=kept, elsewhere=held))
    leaders, leader_prices = choose_leaders(
        flow.rows, [-1 if leader == NOBODY else leader for leader in led_before], len(demand.weights), led
    )
    rows = _led(flow.rows, leaders)
    return RepairStep(
        rows=rows,
        proof=Proof(
            moves=_moves(before, flow.rows),
            prices=flow.prices,
            least=bounds.least,
            most=bounds.most,
            leader_changes=sum(map(ne, before.leaders, rows.buffer[:: rows.width])) - before.unled,
            leader_prices=leader_prices,
        ),
    )


def _moves(before: Before, after: Rows) -> int:
    """Return how many replicas moved. Replicas that only made a list longer do not count. O(size)."""
    moves = 0
    if before.rows.width == after.width:
        laid = (zip(*[iter(rows.buffer)] * after.width, strict=True) for rows in (before.rows, after))
        differing = [place for place, differs in enumerate(map(ne, *laid)) if differs]
    else:
        differing = list(range(len(after)))
    for place in differing:
        old, new = before.rows[place], after[place]
        moves += len(set(new).difference(old)) - max(0, len(new) - len(old) - before.lost[place])
    return moves


def _led(rows: Rows, leaders: Sequence[int]) -> Rows:
    """Return rows in which each leader stands first; the other nodes keep their order."""
    ordered, width = array("I", rows.buffer), rows.width
    for partition, (first, leader) in enumerate(zip(rows.buffer[::width], leaders, strict=True)):
        if first != leader:
            row = ordered[partition * width : (partition + 1) * width]
            row.remove(leader)
            row.insert(0, leader)
            ordered[partition * width : (partition + 1) * width] = row
    return Rows(ordered, width=width)
