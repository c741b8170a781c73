"""Slot plan: the next owners of the slots, for other weights, by size, or for named slots.

The hash slots are shared in proportion to the weights. The slot of a pinned key, or of a range, stays on its shard
until the shard is drained. Then it goes to the shard with the fewest such slots for its weight. By rows or bytes, every
slot counts by its size.

Promises: no plan for the same weights moves fewer hash slots. The lower bound is computed by another rule than the
plan.
Refuses: slots that a move has already, and a set without a shard that may own slots.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from apportion.balance.by_size import by_size, larger_than_a_share, least_bytes
from apportion.balance.slots import slots as even_slots
from apportion.balance.solver.fair_loads import fair_shares
from apportion.errors import InvalidInput, NoNodes, UnknownOption
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology
from apportion.shards.move_group import MOST_SLOTS
from apportion.shards.plan.shard_plan import Measure, PlannedGroup, ShardPlan, check_free
from apportion.shards.shard import SlotSize
from apportion.shards.slots import SlotTable
from apportion.tables.layout import Version

_NOTHING = SlotSize(rows=0, bytes=0)
_MOST_NAMED = 3


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetFacts:
    """The input of a plan: the newest table of a set, the sizes of its slots, and the moves under way.

    `sizes` maps each shard to the sizes of its slots. `moving` maps each moving slot to the id of its move.
    """

    name: str
    version: Version
    assignment: Assignment
    sizes: Mapping[str, Mapping[int, SlotSize]]
    moving: Mapping[int, str]

    @property
    def topology(self) -> Topology:
        """The shards with their weights."""
        return self.assignment.topology

    @property
    def table(self) -> SlotTable:
        """The table in the form that routers use."""
        return SlotTable.of(self.version, self.assignment)

    def amounts(self, measure: Measure) -> dict[int, int]:
        """Return the amount of each slot, ascending by slot, on the shard that owns it."""
        table = self.table
        found = {slot: self.sizes.get(table.shard(slot), {}).get(slot, _NOTHING) for slot in sorted(table.owners)}
        return {slot: {"slots": 1, "rows": each.rows, "bytes": each.bytes}[measure] for slot, each in found.items()}

    def skew(self, measure: Measure) -> float:
        """Return the coefficient of variation of the shards with weight: each amount is divided by the share first."""
        table, loads = self.table, Counter[str]()
        for slot, amount in self.amounts(measure).items():
            loads[table.shard(slot)] += amount
        filled = [loads[node.id] / node.weight for node in self.topology if node.weight]
        return pstdev(filled) / fmean(filled) if any(filled) else 0.0


def plan_weights(facts: SetFacts, weights: Mapping[str, float]) -> ShardPlan:
    """Return the plan for other weights of some shards. A weight of 0 drains a shard.

    `NoNodes` if no shard may own slots after the change. `PlanRefused` if a move has one of the slots.
    """
    topology, table = _reweighted(facts, weights), facts.table
    hashed = [table.shard(slot) for slot in range(table.hash_slots)]
    rows = tuple((facts.topology.index(owner),) for owner in hashed)
    after = even_slots(topology, previous=Assignment(topology=facts.topology, rows=rows))
    changed = {
        slot: topology.ids[row[0]] for slot, row in enumerate(after.rows) if topology.ids[row[0]] != hashed[slot]
    }
    homeless = _homeless(table, topology)
    least = _least(hashed, topology) + len(homeless)
    return _planned(facts, topology, changed | homeless, least, _words(facts.topology, topology))


def plan_sizes(facts: SetFacts, weights: Mapping[str, float], measure: Measure, tolerance: float) -> ShardPlan:
    """Return the plan that gives each shard its share of the rows or bytes, within a tolerance; see `balance.by_size`.

    The words of the plan name slots that are larger than a share. Errors are those of `plan_weights`.
    """
    topology, table, before = _reweighted(facts, weights), facts.table, facts.assignment
    slots, sizes = map(list, zip(*facts.amounts(measure).items(), strict=True))
    after = by_size(before, topology, sizes, tolerance=tolerance)
    owners = dict(zip(slots, (topology.ids[row[0]] for row in after.rows), strict=True))
    changed = {slot: owner for slot, owner in owners.items() if owner != table.shard(slot)}
    least = least_bytes(before, topology, sizes, tolerance=tolerance)
    words = f"balancing {measure} within {tolerance:.0%}"
    names = list(after.preference_lists)
    for index in map(names.index, larger_than_a_share(after, sizes)[:_MOST_NAMED]):
        words += f", with {sizes[index] / sum(sizes):.0%} of them in slot {slots[index]} alone,"
    return _planned(facts, topology, changed, least, words, measure=measure)


def plan_slots(facts: SetFacts, slots: Sequence[int], target: str) -> ShardPlan:
    """Return the plan that brings slots to a shard. Slots that the shard owns already stay.

    The weights stay too, so the next plan of weights may move the slots again.
    """
    table = facts.table
    _known(facts, target)
    if unknown := [slot for slot in slots if slot not in table.owners]:
        expected = f"a slot of the set: 0 .. {table.hash_slots - 1}, or one of a pinned key or a range"
        raise InvalidInput("slot", unknown[0], expected, "See the slot of a key: apportion shards route URL SET KEY")
    changed = {slot: target for slot in sorted(set(slots)) if table.shard(slot) != target}
    return _planned(facts, facts.topology, changed, len(changed), f"moving slots to {target}")


def _reweighted(facts: SetFacts, weights: Mapping[str, float]) -> Topology:
    topology = facts.topology
    for shard, weight in weights.items():
        topology = topology.reweight(_known(facts, shard), weight)
    if not any(node.weight for node in topology):
        raise NoNodes("a plan of slots")
    return topology


def _planned(
    facts: SetFacts,
    topology: Topology,
    changed: Mapping[int, str],
    least: int,
    words: str,
    *,
    measure: Measure = "slots",
) -> ShardPlan:
    check_free([facts.moving[slot] for slot in changed if slot in facts.moving])
    table = facts.table
    return ShardPlan(
        name=facts.name,
        version=facts.version,
        words=words,
        weights={node.id: node.weight for node in topology},
        groups=tuple(_groups(table, facts.sizes, changed)),
        least=least,
        total=len(table.owners),
        measure=measure,
    )


def _groups(
    table: SlotTable, sizes: Mapping[str, Mapping[int, SlotSize]], changed: Mapping[int, str]
) -> Iterator[PlannedGroup]:
    """Yield the groups of each pair of shards. A group has at most as many slots as one transaction may fence."""
    pairs: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for slot, target in sorted(changed.items()):
        pairs[table.shard(slot), target].append(slot)
    for (source, target), slots in sorted(pairs.items()):
        for first in range(0, len(slots), MOST_SLOTS):
            part = tuple(slots[first : first + MOST_SLOTS])
            found = [sizes.get(source, {}).get(slot, _NOTHING) for slot in part]
            rows, size = sum(each.rows for each in found), sum(each.bytes for each in found)
            yield PlannedGroup(source=source, target=target, slots=part, rows=rows, bytes=size)


def _homeless(table: SlotTable, topology: Topology) -> dict[int, str]:
    """Return the next shard of each slot of a key or range that cannot stay, because its shard is drained."""
    open_to = [node for node in topology if node.weight]
    own = [slot for slot in sorted(table.owners) if slot >= table.hash_slots]
    held = Counter(table.shard(slot) for slot in own)
    found = {}
    for slot in own:
        if topology[table.shard(slot)].weight == 0:
            taker = min(open_to, key=lambda node: ((held[node.id] + 1) / node.weight, node.id))
            found[slot] = taker.id
            held[taker.id] += 1
    return found


def _least(owners: Sequence[str], topology: Topology) -> int:
    """Return the fewest moves to an even distribution. Any shards may get the slots that rounding leaves over.

    Each shard gives away the slots above its rounded-down share. Rounding leaves some slots over. For each of these
    slots, one shard may keep one more slot.
    """
    total = len(owners)
    shares = fair_shares({node.id: node.millionths for node in topology if node.weight}, partitions=total, total=total)
    floors = {each: int(share) for each, share in shares.items()}
    held = Counter(owners)
    above = sum(max(0, count - floors.get(each, 0)) for each, count in held.items())
    keepers = sum(floors[each] < share and floors[each] < held[each] for each, share in shares.items())
    return above - min(keepers, total - sum(floors.values()))


def _known(facts: SetFacts, shard: str) -> str:
    if shard not in facts.topology:
        raise UnknownOption("shard", shard, facts.topology.ids)
    return shard


def _words(before: Topology, after: Topology) -> str:
    changed = [node for node in after if node.weight != before[node.id].weight]
    drained = [node.id for node in changed if not node.weight]
    weighed = [f"{node.id} to {node.weight:g}" for node in changed if node.weight]
    said = [f"draining {', '.join(drained)}"] if drained else []
    said += [f"weighing {', '.join(weighed)}"] if weighed else []
    return " and ".join(said) or "balancing"
