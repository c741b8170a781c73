"""Evenness: how much more than its share the fullest of 100 equal nodes gets (max over mean).

By the table, exact: what the default for new users promises by construction. By a million random keys: what anyone will
count, which even a perfectly fair placement cannot bring to 1. That floor, the expectation for keys thrown at nodes
with equal odds, is simulated and printed beside.
"""

from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from random import Random
from statistics import fmean

from apportion import Ring, Slots, balance
from bench.fleet import SEED, equal_fleet
from bench.row import Row

NODES = 100
KEYS = 1_000_000
TRIALS = 20
GOAL = Fraction(105, 100)


def rows() -> list[Row]:
    """Measure slots (the default) and, for comparison, the ring; each by its table and by keys."""
    fleet, random = equal_fleet(NODES), Random(SEED)
    keys = [f"{random.getrandbits(64):016x}" for _ in range(KEYS)]
    floor = _floor(random)
    slots, ring = Slots(balance.slots(fleet)), Ring(fleet)
    exact = _max_over_mean(slots.table().widths().values())
    return [
        Row(
            name=f"max/mean, {NODES} equal nodes, slots: exact",
            value=float(exact),
            shown=f"{float(exact):.4f} (table widths)",
            goal=f"<= {float(GOAL)}",
            met=exact <= GOAL,
        ),
        _sampled("slots", slots, keys, floor),
        _information("ring, 150 vnodes: exact", _max_over_mean(ring.table().widths().values()), "table widths"),
        _sampled("ring, 150 vnodes", ring, keys, floor),
    ]


def _sampled(name: str, placement: Slots | Ring, keys: list[str], floor: float) -> Row:
    counts = Counter(placement.route_many(keys))
    loads = [counts[node_id] for node_id in placement.topology.ids]
    return _information(f"{name}: {KEYS} random keys", _max_over_mean(loads), f"sampling floor {floor:.4f}")


def _information(name: str, value: Fraction, note: str) -> Row:
    return Row(name=f"max/mean, {NODES} equal nodes, {name}", value=float(value), shown=f"{float(value):.4f} ({note})")


def _floor(random: Random) -> float:
    """Return the mean result of a perfectly fair draw of as many keys, over some trials."""
    draws = (Counter(random.choices(range(NODES), k=KEYS)) for _ in range(TRIALS))
    return fmean(float(_max_over_mean([draw[node] for node in range(NODES)])) for draw in draws)


def _max_over_mean(loads: Collection[int]) -> Fraction:
    return Fraction(max(loads) * len(loads), sum(loads))
