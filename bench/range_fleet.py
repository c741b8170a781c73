"""A simulated fleet whose ranges are measured, planned and changed, turn by turn; the time and the load are arguments.

Keys are requested by regions. Each region has its own Zipf law over the keys, and its own hour of the day. Splits,
merges and moves are done within the turn that plans them.
"""

from bisect import bisect, bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import cos, pi
from random import Random

from apportion import KeyRange, Topology
from apportion.balance.ranges import PeakWindows, RangeLimits, RangeLoad, plan_merge, plan_moves, plan_split
from apportion.model.token import Position

HOUR, DAY = 3600, 24 * 3600
SAMPLED = 256
KEY_BYTES = 1000
NOISE = 0.03


def zipf(keys: int, exponent: float, random: Random, *, are_ordered: bool = False) -> list[float]:
    """Return the sums of the shares of all keys before each key; ranks are shuffled, or those of the keys."""
    shares = [rank**-exponent for rank in range(1, keys + 1)]
    if not are_ordered:
        random.shuffle(shares)
    total = sum(shares)
    return [0.0, *accumulate(share / total for share in shares)]


def day(now: float, peak_hour: float) -> float:
    """Return the load of a region, as a part of its peak: 1 at its hour, 0.1 twelve hours later."""
    return 0.55 + 0.45 * cos(2 * pi * (now / HOUR - peak_hour) / 24)


@dataclass(slots=True)
class Counts:
    """Operations since the start.

    `undone` are splits and merges that undid each other within a day. `returns` are ranges that moved back to a node
    within a day.
    """

    splits: int = 0
    merges: int = 0
    moves: int = 0
    undone: int = 0
    returns: int = 0


@dataclass(slots=True, kw_only=True)
class RangeFleet:
    """Ranges of keys 0, 1, … (four bytes each) on nodes; `regions` are the sums of shares of each region."""

    topology: Topology
    regions: Sequence[Sequence[float]]
    limits: RangeLimits
    random: Random
    loads: list[RangeLoad]
    counts: Counts = field(default_factory=Counts)
    made: dict[Position, tuple[str, float]] = field(default_factory=dict)
    left: dict[tuple[Position, str], float] = field(default_factory=dict)

    def turn(self, now: float, rates: Sequence[float]) -> None:
        """Measure, plan, and carry out; `rates` are the requests per second of each region."""
        self.loads = [self._measured(load, now, rates) for load in self.loads]
        plan = plan_split(self.loads, now=now, limits=self.limits)
        for split in plan.splits:
            place = self._place(split.range.start)
            self._note(split.at, "split", now)
            self.loads[place : place + 1] = split.halves(self.loads[place], now=now)
            self.counts.splits += 1
        for merge in plan_merge(self.loads, now=now, limits=self.limits):
            place = self._place(merge.left.start)
            self._note(merge.right.start, "merge", now)
            self.loads[place : place + 2] = [merge.joined(*self.loads[place : place + 2], now=now)]
            self.counts.merges += 1
        for move in plan_moves(self.loads, self.topology, limits=self.limits):
            assert isinstance(move.item, KeyRange)
            assert move.target is not None
            place = self._place(move.item.start)
            self.counts.returns += now - self.left.get((move.item.start, move.target), -DAY) < DAY
            self.left[move.item.start, self.loads[place].owner] = now
            self.loads[place] = replace(self.loads[place], owner=move.target)
            self.counts.moves += 1

    def hottest(self) -> int:
        """Return the requests of the hottest node."""
        requests = dict.fromkeys(self.topology.ids, 0)
        for load in self.loads:
            requests[load.owner] += load.requests
        return max(requests.values())

    def mean(self) -> float:
        """Return the requests of a node in the mean."""
        return sum(load.requests for load in self.loads) / len(self.topology)

    def _measured(self, load: RangeLoad, now: float, rates: Sequence[float]) -> RangeLoad:
        first, last = _number(load.range.start), self._end(load.range)
        parts = [rate * (sums[last] - sums[first]) for rate, sums in zip(rates, self.regions, strict=True)]
        requests = round(sum(parts) * (1 + self.random.gauss(0, NOISE)))
        keys: tuple[bytes, ...] = ()
        if requests > self.limits.split_requests:
            drawn = self.random.choices(self.regions, parts, k=SAMPLED)
            keys = tuple(self._drawn(sums, first, last) for sums in drawn)
        return replace(
            load,
            requests=requests,
            size_bytes=(last - first) * KEY_BYTES,
            peaks=load.peaks.seen(requests, now=now),
            requested_keys=keys,
        )

    def _drawn(self, sums: Sequence[float], first: int, last: int) -> bytes:
        point = self.random.uniform(sums[first], sums[last])
        return _key(min(max(bisect(sums, point) - 1, first), last - 1))

    def _end(self, key_range: KeyRange) -> int:
        return len(self.regions[0]) - 1 if key_range.end is None else _number(key_range.end)

    def _place(self, start: Position) -> int:
        return bisect_left([load.range.start for load in self.loads], start)

    def _note(self, boundary: Position, act: str, now: float) -> None:
        """Count an act as undoing if the other act was done at this boundary within a day."""
        before, at = self.made.get(boundary, (act, now))
        self.counts.undone += before != act and now - at < DAY
        self.made[boundary] = act, now


def even_fleet(
    nodes: int,
    ranges: int,
    regions: Sequence[Sequence[float]],
    limits: RangeLimits,
    *,
    seed: int,
    window_seconds: int = 4 * HOUR,
) -> RangeFleet:
    """Return a fleet with the same number of keys in each range; neighbours are on different nodes."""
    topology = Topology([f"node-{number}" for number in range(nodes)])
    keys = len(regions[0]) - 1
    starts = [b"", *(_key(keys * number // ranges) for number in range(1, ranges))]
    peaks = PeakWindows(window_seconds=window_seconds)
    loads = [
        RangeLoad(range=KeyRange(start, end), owner=topology.ids[place % nodes], size_bytes=0, requests=0, peaks=peaks)
        for place, (start, end) in enumerate(zip(starts, [*starts[1:], None], strict=True))
    ]
    return RangeFleet(topology=topology, regions=regions, limits=limits, random=Random(seed), loads=loads)


def _key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _number(position: Position) -> int:
    assert isinstance(position, bytes)
    return int.from_bytes(position.ljust(4, b"\0"), "big")
