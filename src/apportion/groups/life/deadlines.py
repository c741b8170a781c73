"""Deadlines: the time limits of work that other members wait for.

A lost partition is given away once its work has ended. After the drain's time, that work is cancelled. If it still
lasts one `lease_ttl` later, the session must be given up. The same holds if any work makes no progress for too long.
Then the store lets others take over, and only guards protect against work that still goes on here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from apportion.groups.opening import Options


@dataclass(slots=True)
class Deadlines:
    """The partitions with work that others wait for, and its limits. Times are elapsed seconds."""

    options: Options
    _cancel_at: dict[int, float] = field(default_factory=dict)
    _force_at: dict[int, float] = field(default_factory=dict)
    _is_over: bool = False

    def lost(self, partitions: Iterable[int], now: float) -> None:
        """Begin to wait for the work on some partitions."""
        new = [each for each in partitions if each not in self._cancel_at and each not in self._force_at]
        self._cancel_at.update((partition, now + self.options.drain_seconds) for partition in new)

    def ended(self, partitions: Iterable[int]) -> None:
        """Note that the work on some partitions has ended."""
        for partition in partitions:
            self._cancel_at.pop(partition, None)
            self._force_at.pop(partition, None)

    def renew(self) -> None:
        """Begin anew with another session: work left from the former session must not end the new session too."""
        self._is_over = False
        self._cancel_at.clear()
        self._force_at.clear()

    def to_cancel(self, now: float) -> tuple[int, ...]:
        """Return the partitions with work to cancel now, each once."""
        late = tuple(sorted(partition for partition, at in self._cancel_at.items() if at <= now))
        for partition in late:
            del self._cancel_at[partition]
            self._force_at[partition] = now + self.options.ttl_seconds
        return late

    def verdict(self, oldest: tuple[float, int] | None, now: float) -> str | None:
        """Return the reason to give up the session, at most once; else None. `oldest` is the longest-working hold."""
        if self._is_over:
            return None
        forced = sorted(partition for partition, at in self._force_at.items() if at <= now)
        self._is_over = bool(forced)
        if forced:
            return f"forced: work on partition {forced[0]} goes on after its drain"
        if oldest is not None and now >= oldest[0] + self.options.progress_seconds:
            self._is_over = True
            return f"stuck: work on partition {oldest[1]} makes no progress"
        return None

    def wakes_at(self, oldest: tuple[float, int] | None) -> float:
        """Return when to look again."""
        if self._is_over:
            return float("inf")
        progress = float("inf") if oldest is None else oldest[0] + self.options.progress_seconds
        return min(progress, *self._cancel_at.values(), *self._force_at.values(), float("inf"))
