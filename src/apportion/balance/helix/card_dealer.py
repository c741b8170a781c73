"""Card dealing: nodes give back the partitions beyond their share, and nodes with room get them.

Promises: the hands that Helix deals, with its order of players, its seeds and its floats of 32 bits. It reports
failure when there are more replicas than zones, or when a card is left that no node may take.
Source: `CardDealingAdjustmentAlgorithmV2` of Helix, in the mode that minimizes movement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from apportion.balance.helix.heap import Heap
from apportion.balance.helix.shuffle import shuffle
from apportion.balance.helix.tree import FaultZone
from apportion.balance.java.hashmap import in_order
from apportion.balance.java.values import float32, signed, string_hash, string_order

Held = dict[str, list[str]]
"""The partitions that each node holds, nodes in the order in which they came into Java's map."""

MOST_BEYOND = 2


def deal(zones: Sequence[FaultZone], held: Held, *, replicas: int, seed: int) -> bool:
    """Even out the held partitions, in place; return success. O(replicas · log nodes), unless cards fit badly."""
    total = sum(map(len, held.values()))
    if not total or replicas > len(zones):
        return False
    table = CardTable.of(zones, replicas=replicas, total=total, seed=seed)
    pending = Pending(table.cut(held, total))
    for beyond in range(MOST_BEYOND + 1):
        table.deal_out(pending, held, beyond)
    return not pending.counts


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTable:
    """The players: every node with its zone and its target, a float; and the partitions that each zone has."""

    zones: Sequence[FaultZone]
    zone_of: Mapping[str, str]
    targets: Mapping[str, float]
    present: Mapping[str, set[str]]
    seed: int

    @classmethod
    def of(cls, zones: Sequence[FaultZone], *, replicas: int, total: int, seed: int) -> "CardTable":
        """Return the table before anything is cut or dealt."""
        return cls(
            zones=zones,
            zone_of={node: zone.name for zone in zones for node in zone.nodes},
            targets=_targets(zones, replicas, total),
            present={zone.name: set() for zone in zones},
            seed=seed,
        )

    def cut(self, held: Held, total: int) -> list[str]:
        """Let each node keep its floor, and some their ceiling; return the partitions that were cut off."""
        spikes = total % len(self.zone_of)
        quotas = _spikes_of_zones(self.zones, spikes)
        players = in_order(self.zone_of)
        shuffle(players, self.seed)
        cut: list[str] = []
        for node in players:
            if node not in held:
                continue
            zone, keep = self.zone_of[node], int(self.targets[node])
            if len(held[node]) > keep:
                if quotas[zone] > 0 and spikes > 0:
                    keep, quotas[zone], spikes = ceil(self.targets[node]), quotas[zone] - 1, spikes - 1
                # Shuffled even when nothing is cut off: the order of the held partitions decides later on.
                shuffle(held[node], signed(string_hash(node) * 31 + self.seed))
                cut += held[node][keep:]
                del held[node][keep:]
            self.present[zone].update(held[node])
        return cut

    def deal_out(self, pending: "Pending", held: Held, beyond: int) -> None:
        """Deal to the least loaded nodes first, until each is `beyond` cards above its floor or may take none."""
        words = {node: string_hash(f"{node}{self.seed}") for node in self.zone_of}
        queue = Heap(in_order(self.zone_of), lambda node: (len(held.get(node, ())), words[node]))
        while pending.counts and len(queue):
            node = queue.pop()
            present = self.present[self.zone_of[node]]
            has_room = len(held.get(node, ())) < int(self.targets[node]) + beyond
            card = pending.first_not_in(present) if has_room else None
            if card is not None:
                pending.take(card)
                present.add(card)
                held.setdefault(node, []).append(card)
                queue.push(node)


@dataclass(slots=True)
class Pending:
    """Cards to be dealt, in order of their names; a card can be there several times."""

    counts: Counter[str]
    _sorted: list[str] = field(init=False)

    def __init__(self, cards: Iterable[str]) -> None:
        self.counts = Counter(cards)
        self._sorted = sorted(self.counts, key=string_order)

    def first_not_in(self, present: set[str]) -> str | None:
        """Return the first card that a zone lacks, None if it has all."""
        return next((card for card in self._sorted if card not in present), None)

    def take(self, card: str) -> None:
        """Remove one card of a name."""
        self.counts[card] -= 1
        if not self.counts[card]:
            del self.counts[card]
            self._sorted.remove(card)


def _targets(zones: Sequence[FaultZone], replicas: int, total: int) -> dict[str, float]:
    weight = float32(sum(zone.weight for zone in zones))
    targets = {}
    for zone in zones:
        own = float32(zone.weight)
        # With as many replicas as zones, each zone gets one of every partition, whatever its weight.
        share = float32(float32(total) / len(zones))
        if replicas != len(zones):
            share = float32(float32(float32(total) * own) / weight)
        for node, node_weight in zip(zone.nodes, zone.weights, strict=True):
            targets[node] = float32(float32(float32(node_weight) / own) * share)
    return targets


def _spikes_of_zones(zones: Sequence[FaultZone], spikes: int) -> dict[str, int]:
    """Return how many nodes of each zone may keep their ceiling, by weight, rounded up."""
    weight = float32(sum(zone.weight for zone in zones))
    shares = {zone.name: float32(float32(float32(spikes) * float32(zone.weight)) / weight) for zone in zones}
    return {name: ceil(share) for name, share in shares.items()}
