"""Schedule: a change of an assignment as waves of steps, with their costs.

The steps of a wave may run at the same time and in any order. The next wave begins when all of them are done.
`balance.schedule` makes a schedule and states its promises.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from apportion.errors import shown
from apportion.errors.brief import brief
from apportion.model.epoch import Epoch
from apportion.model.throttle import Throttle


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A node gets a whole replica from a live node that holds one. Without a source, the replica starts empty.

    The copy is a recovery if the partition has fewer live replicas than it should have. `size_bytes` is None if
    unknown.
    """

    partition: str
    source: str | None
    target: str
    size_bytes: int | None
    is_recovery: bool

    def __str__(self) -> str:
        why = " (recovery)" if self.is_recovery else ""
        return f"{shown(self.partition)} copy {self.source or '(new)'} -> {self.target}{why}"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """A node that holds a whole replica becomes the leader. `was` is the leader before, None if no live node led."""

    partition: str
    node: str
    was: str | None

    def __str__(self) -> str:
        return f"{shown(self.partition)} lead {self.was or '(nobody)'} -> {self.node}"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A node gives up the replica that it holds."""

    partition: str
    node: str
    size_bytes: int | None

    def __str__(self) -> str:
        return f"{shown(self.partition)} drop {self.node}"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The effect of steps on one node: replicas received and sent, and their bytes (None if any size is unknown).

    `most_extra` is the largest number of replicas that the node holds in addition to those at the start. It assumes
    that the copies of a wave are done before its drops. `most_extra_bytes` is the free space that these replicas need.
    """

    received: int = 0
    sent: int = 0
    most_extra: int = 0
    received_bytes: int | None = 0
    sent_bytes: int | None = 0
    most_extra_bytes: int | None = 0


# No `slots=True`: a cached property keeps its value in the object's own dictionary.
@brief
@dataclass(frozen=True, kw_only=True)
class Wave:
    """Steps to do at the same time: copies (the most urgent first), changes of leader, drops."""

    copies: tuple[Copy, ...] = ()
    leads: tuple[Lead, ...] = ()
    drops: tuple[Drop, ...] = ()

    @property
    def steps(self) -> tuple[Copy | Lead | Drop, ...]:
        """All steps of the wave."""
        return (*self.copies, *self.leads, *self.drops)

    @cached_property
    def per_node(self) -> Mapping[str, Traffic]:
        """The effect of the wave on each node that it touches, by id."""
        return traffic([self])

    def __str__(self) -> str:
        return ", ".join(map(str, self.steps))


@brief
@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Waves that lead from one assignment to another.

    `before` and `after` are the epochs that the schedule leads from and to. `throttle` is the throttle in force when
    the schedule was made. Once its `expires_at` has passed, make a new schedule from the state at that time. `floor`
    is the promised number of live replicas. `below_floor` lists the partitions that begin with fewer. `lost` lists
    those with none at all; no step touches them.
    """

    before: Epoch
    after: Epoch
    waves: tuple[Wave, ...] = field(repr=False)
    throttle: Throttle
    floor: int
    below_floor: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @cached_property
    def copies(self) -> tuple[Copy, ...]:
        """Every copy, in the order of the waves."""
        return tuple(copy for wave in self.waves for copy in wave.copies)

    @cached_property
    def leads(self) -> tuple[Lead, ...]:
        """Every change of leader, in the order of the waves."""
        return tuple(lead for wave in self.waves for lead in wave.leads)

    @cached_property
    def drops(self) -> tuple[Drop, ...]:
        """Every drop, in the order of the waves."""
        return tuple(drop for wave in self.waves for drop in wave.drops)

    @cached_property
    def copied_bytes(self) -> int | None:
        """The bytes of all copies, None if any size is unknown."""
        return _summed(copy.size_bytes for copy in self.copies)

    @cached_property
    def per_node(self) -> Mapping[str, Traffic]:
        """The effect of the schedule on each node that it touches, by id. O(steps)."""
        return traffic(self.waves)

    def __str__(self) -> str:
        recoveries = sum(copy.is_recovery for copy in self.copies)
        size = "" if self.copied_bytes is None else f" of {self.copied_bytes} bytes"
        below = f" ({len(self.below_floor)} begin below)" if self.below_floor else ""
        lost = f", {len(self.lost)} lost" if self.lost else ""
        return (
            f"schedule: {len(self.waves)} waves, {len(self.copies)} copies{size} ({recoveries} recovery), "
            f"{len(self.leads)} leader changes, {len(self.drops)} drops, floor {self.floor}{below}{lost}, "
            f"{self.throttle}"
        )


def traffic(waves: Iterable[Wave]) -> Mapping[str, Traffic]:
    """Return the effect of waves on each node that they touch, sorted by id. O(steps)."""
    ledgers: dict[str, _Ledger] = {}
    for wave in waves:
        for copy in wave.copies:
            ledgers.setdefault(copy.target, _Ledger()).receive(copy.size_bytes)
            if copy.source is not None:
                ledgers.setdefault(copy.source, _Ledger()).sent.append(copy.size_bytes)
        for drop in wave.drops:
            ledgers.setdefault(drop.node, _Ledger()).drop(drop.size_bytes)
    return {node_id: ledgers[node_id].traffic() for node_id in sorted(ledgers)}


class _Ledger:
    """The sums for one node so far: sizes received and sent, and the replicas held in addition to the start."""

    def __init__(self) -> None:
        self.received: list[int | None] = []
        self.sent: list[int | None] = []
        self.extra = self.most_extra = 0
        self.extra_bytes = self.most_extra_bytes = 0
        self.knows_sizes = True

    def receive(self, size_bytes: int | None) -> None:
        """Count a copy to the node."""
        self.received.append(size_bytes)
        self._hold(1, size_bytes)

    def drop(self, size_bytes: int | None) -> None:
        """Count a replica that the node gives up."""
        self._hold(-1, None if size_bytes is None else -size_bytes)

    def _hold(self, replicas: int, size_bytes: int | None) -> None:
        self.extra += replicas
        self.most_extra = max(self.most_extra, self.extra)
        self.knows_sizes &= size_bytes is not None
        self.extra_bytes += size_bytes or 0
        self.most_extra_bytes = max(self.most_extra_bytes, self.extra_bytes)

    def traffic(self) -> Traffic:
        """Return the sums of the ledger."""
        return Traffic(
            received=len(self.received),
            sent=len(self.sent),
            most_extra=self.most_extra,
            received_bytes=_summed(self.received),
            sent_bytes=_summed(self.sent),
            most_extra_bytes=self.most_extra_bytes if self.knows_sizes else None,
        )


def _summed(sizes: Iterable[int | None]) -> int | None:
    known = list(sizes)
    return None if None in known else sum(size or 0 for size in known)
