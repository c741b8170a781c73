"""The planners of ranges: splits until a Zipf load is even, and changes that were undone in two replayed days.

Simulated, with Zipf's law of exponent 0.99 over 20 000 keys. In the first rows, hot keys are neighbours, so one range
has most of the load; or they lie scattered. A node bears its mean share, and no key has more. With 8 nodes, even a
perfect planner must cut the hot range more than three times, so that row has no goal.

In the other rows, two regions reach their peaks at 14 and 22 hours, and fall to a tenth of it. The first day is new to
the planners. The last row has six windows of one minute instead of four hours, and shows their worth.
"""

from itertools import pairwise
from math import ceil
from random import Random

from apportion.balance.ranges import RangeLimits
from bench.range_fleet import DAY, RangeFleet, day, even_fleet, zipf
from bench.row import Row

KEYS, EXPONENT = 20_000, 0.99
PER_NODE = 1000
MOST_RATIO, MOST_SPLITS = 1.3, 3
SEEDS = range(5)
TURNS = 60
MINUTE = 60
HOURS = (14, 22)
REGION = 10_000


def rows() -> list[Row]:
    """Run every fleet."""
    return [
        _split_row("hot keys scattered", 4, are_ordered=False, is_judged=True),
        _split_row("hot keys scattered", 8, are_ordered=False, is_judged=True),
        _split_row("hot keys neighbours", 4, are_ordered=True, is_judged=True),
        _split_row("hot keys neighbours", 8, are_ordered=True, is_judged=False),
        _day_row("six windows of 4 h", 4 * 3600, is_judged=True),
        _day_row("six windows of 1 min", MINUTE, is_judged=False),
    ]


def even_after(nodes: int, *, are_ordered: bool, seed: int) -> tuple[float, int, int, int, float]:
    """Return the ratio of the hottest node at first, the splits, moves and turns, and the ratio after them.

    The turns end as soon as the hottest node has at most 1.3 of the mean.
    """
    sums = zipf(KEYS, EXPONENT, Random(seed), are_ordered=are_ordered)
    fleet = even_fleet(nodes, 4 * nodes, [sums], RangeLimits(split_requests=PER_NODE), seed=seed)
    first = _even_ratio(fleet, sums)
    for turn in range(TURNS):
        fleet.turn(turn * MINUTE, [PER_NODE * nodes])
        if fleet.hottest() <= MOST_RATIO * fleet.mean():
            break
    return first, fleet.counts.splits, fleet.counts.moves, turn + 1, fleet.hottest() / fleet.mean()


def replayed(window_seconds: int, *, days: int, seed: int, turn_seconds: int = MINUTE) -> tuple[RangeFleet, float]:
    """Return the fleet after some days, and its hottest moment of the last day over the mean of the busiest hour."""
    random = Random(seed)
    regions = [zipf(KEYS, EXPONENT, random, are_ordered=True), zipf(KEYS, EXPONENT, random)]
    limits = RangeLimits(split_requests=800)
    fleet = even_fleet(8, 64, regions, limits, seed=seed, window_seconds=window_seconds)
    hottest, busiest = 0, 0.0
    for now in range(0, days * DAY, turn_seconds):
        fleet.turn(now, [REGION * day(now, hour) for hour in HOURS])
        if now >= (days - 1) * DAY:
            hottest, busiest = max(hottest, fleet.hottest()), max(busiest, fleet.mean())
    return fleet, hottest / busiest


def _even_ratio(fleet: RangeFleet, sums: list[float]) -> float:
    """Return the share of the hottest range over the share of a node."""
    ranges = len(fleet.loads)
    bounds = [KEYS * number // ranges for number in range(ranges + 1)]
    return max(sums[last] - sums[first] for first, last in pairwise(bounds)) * len(fleet.topology)


def _split_row(name: str, nodes: int, *, are_ordered: bool, is_judged: bool) -> Row:
    results = [even_after(nodes, are_ordered=are_ordered, seed=seed) for seed in SEEDS]
    ratio = max(result[4] for result in results)
    splits, moves = max(result[1] for result in results), max(result[2] for result in results)
    first, turns = max(result[0] for result in results), max(result[3] for result in results)
    least = max(0, ceil(first / MOST_RATIO) - 1)
    return Row(
        name=f"ranges, Zipf, {nodes} nodes, {name}: hottest node / mean",
        value=ratio,
        shown=f"{ratio:.2f} after {splits} splits (at least {least} needed) and {moves} moves in {turns} min",
        goal=f"<= {MOST_RATIO:g} in <= {MOST_SPLITS} splits" if is_judged else None,
        met=ratio <= MOST_RATIO and splits <= MOST_SPLITS if is_judged else None,
    )


def _day_row(name: str, window_seconds: int, *, is_judged: bool) -> Row:
    fleet, ratio = replayed(window_seconds, days=2, seed=1)
    counts = fleet.counts
    undone = counts.undone + counts.returns
    done = f"{counts.splits} splits, {counts.merges} merges, {counts.moves} moves"
    return Row(
        name=f"ranges, 2 days and nights, {name}: changes undone within 24 h",
        value=undone,
        shown=f"{undone} of {done}; hottest moment {ratio:.2f} x mean",
        goal="= 0" if is_judged else None,
        met=undone == 0 if is_judged else None,
    )
