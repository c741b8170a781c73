"""Copies: the source and the wave of each new replica.

Copies that recover a partition are placed first; among them, partitions with the fewest live replicas come first.
All other copies move load, and come in later waves. Each copy takes the first wave in which its target and a source
have room.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from apportion.balance.waves.capacity import Room
from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.schedule import Copy
from apportion.model.throttle import Throttle


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One partition's change: its owners before, the live ones, and its owners after; the leader first."""

    partition: str
    owners: tuple[str, ...]
    held: tuple[str, ...]
    wanted: tuple[str, ...]
    size_bytes: int | None

    @property
    def leader(self) -> str | None:
        """The leader at the start, None if that node is not live."""
        return next((node for node in self.owners[:1] if node in self.held), None)

    @property
    def missing(self) -> list[str]:
        """The nodes that are to hold the partition and do not."""
        return [node for node in self.wanted if node not in self.held]

    @property
    def unwanted(self) -> list[str]:
        """The nodes that hold the partition and are not to."""
        return [node for node in self.held if node not in self.wanted]


class Copying:
    """Copies by wave. `waves_of` gives per partition the wave in which each target gets its copy."""

    def __init__(self, after: Assignment, throttle: Throttle) -> None:
        self.copies: dict[int, list[Copy]] = defaultdict(list)
        self.waves_of: dict[str, dict[str, int]] = defaultdict(dict)
        level = None if after.rule is None else after.rule.spread_level
        self._zones = {node.id: node.fault_domain(level) for node in after.topology}
        self._room = Room(throttle, self._zones)
        self._most_bytes = throttle.per_node_bytes
        self._sent: Counter[str | None] = Counter()

    def place(self, turns: Sequence[Turn]) -> int:
        """Give every copy its wave; return the first wave in which load may move. O(copies · waves) at worst."""
        recoveries: list[tuple[int, Turn, str]] = []
        others: list[tuple[bool, Turn, str]] = []
        for turn in turns:
            for live, target in enumerate(self._targets(turn), len(turn.held)):
                if turn.held and live < len(turn.wanted):
                    recoveries.append((live, turn, target))
                else:
                    others.append((bool(turn.held), turn, target))
        for _, turn, target in sorted(recoveries, key=itemgetter(0)):
            self._copy(turn, target, start=0, is_recovery=True)
        load_start = len(self.copies)  # waves fill up from the first; none stays empty
        for _, turn, target in sorted(others, key=itemgetter(0)):
            self._copy(turn, target, start=load_start, is_recovery=False)
        return load_start

    def _targets(self, turn: Turn) -> list[str]:
        """Return the nodes that are to get a partition, in order; nodes in zones without a live replica come first."""
        zones: set[Hashable] = {self._zones[node] for node in turn.held}
        return sorted(turn.missing, key=lambda node: self._zones[node] in zones)

    def _copy(self, turn: Turn, target: str, *, start: int, is_recovery: bool) -> None:
        """Choose a copy's wave and source: the source with the earliest wave, then the fewest bytes sent, then id."""
        size = self._checked_size(turn)
        choices = []
        for source in turn.held or (None,):
            uses = self._room.uses([target] if source is None else [target, source], size_bytes=size or 0)
            choices.append((self._room.first_wave(uses, start=start), self._sent[source], source, uses))
        wave, _, source, uses = min(choices, key=itemgetter(0, 1, 2))
        self._room.take(uses, wave)
        self._sent[source] += size or 1
        self.waves_of[turn.partition][target] = wave
        self.copies[wave].append(
            Copy(partition=turn.partition, source=source, target=target, size_bytes=size, is_recovery=is_recovery)
        )

    def _checked_size(self, turn: Turn) -> int | None:
        """Return the bytes of a copy; no bytes are sent where a replica is made empty."""
        size, most = turn.size_bytes, self._most_bytes
        if not turn.held:
            return None if size is None else 0
        if most is not None and size is None:
            expected = "known, because the throttle limits bytes"
            raise InvalidInput(f"size of partition {turn.partition!r}", None, expected, "Pass sizes= to the balancer.")
        if most is not None and size is not None and size > most:
            expected = f"at least the {size} bytes of partition {turn.partition!r}"
            hint = "Partitions are copied whole: raise the limit."
            raise InvalidInput("per_node_bytes of the throttle", most, expected, hint)
        return size
