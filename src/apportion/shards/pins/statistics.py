"""Statistics: a router's counts of its sessions since it was opened, and of their waits for switches; for metrics.

Also a sample of the keys of its sessions, for `shards hot`.

Promises: any thread may count. A count costs a lock, and no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Self

from apportion.errors.brief import brief
from apportion.runtime.buckets import Buckets
from apportion.shards.pins.key_sample import KeySample, LoadWindow
from apportion.shards.slots import ShardKey


@brief
@dataclass(slots=True, kw_only=True)
class RouterStatistics:
    """Counts of one router.

    - `sessions`: the sessions that it has made.
    - `stale_routes`: the sessions that got `StaleRoute`.
    - `fences`: the waits of transactions for a fenced slot, from the first refusal to the entry, or to the error.
    """

    sessions: int = 0
    stale_routes: int = 0
    fences: Buckets = field(default_factory=Buckets)
    _sample: KeySample = field(default_factory=KeySample, repr=False, compare=False)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def made(self, keys: Sequence[ShardKey]) -> LoadWindow | None:
        """Count a session that is pinned to keys. Return the window of sampled keys that has ended, if one has."""
        with self._lock:
            self.sessions += 1
            return None if self.sessions < self._sample.due else self._sample.take(keys, self.sessions)

    def rest(self) -> LoadWindow | None:
        """Return the window of sampled keys that has not ended. None without a key."""
        with self._lock:
            return self._sample.rest(self.sessions)

    def refused(self) -> None:
        """Count a session that got `StaleRoute`."""
        with self._lock:
            self.stale_routes += 1

    def waited(self, seconds: float) -> None:
        """Count the wait of one transaction."""
        with self._lock:
            self.fences.add(seconds)


class FenceWait:
    """A block in which a transaction may wait for a fenced slot. At its end, the wait is counted if there was one."""

    __slots__ = ("_since", "_statistics")

    def __init__(self, statistics: RouterStatistics) -> None:
        self._statistics = statistics
        self._since: float | None = None

    def begins(self) -> None:
        """Note a refusal by a fenced slot. Only the first one counts."""
        if self._since is None:
            self._since = monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._since is not None:
            self._statistics.waited(monotonic() - self._since)
