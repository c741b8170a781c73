"""Leases that this process keeps alive in one store: they bound how long a request may be silent.

Promises: while a lease is held, no reply is awaited for longer than a quarter of its time to live. So a renewal
over a half-open connection still has time for a new connection. Each bound has a minimum that a busy server needs.
"""

from collections.abc import Collection, Set

from apportion.stores.postgres.door import REQUEST_SECONDS

_PATIENCE_RATIO = 0.25
_LEAST_SECONDS = 0.25
_LEAST_COMMIT_SECONDS = 0.5  # a flush of a busy disk
_USUAL_TTL_SECONDS = 10.0
_LOCK_RATIO = 0.8  # the wait for a lock ends before the connection is given up


class Leases:
    """The leases of this process, by their times to live."""

    def __init__(self) -> None:
        self._ttl_seconds: dict[int, float] = {}

    @property
    def ids(self) -> Set[int]:
        """The leases, as they are at each moment."""
        return self._ttl_seconds.keys()

    @property
    def shortest_seconds(self) -> float:
        """The shortest time to live; the usual time to live when there are no leases."""
        return min(self._ttl_seconds.values(), default=_USUAL_TTL_SECONDS)

    @property
    def lock_milliseconds(self) -> int:
        """How long the server may wait for a lock."""
        return int(1000 * _LOCK_RATIO * self.commit_patience())

    def patience(self) -> float:
        """Return how long a reply of a read or a renewal may be awaited."""
        return min(
            [REQUEST_SECONDS, *(max(_LEAST_SECONDS, _PATIENCE_RATIO * ttl) for ttl in self._ttl_seconds.values())]
        )

    def commit_patience(self) -> float:
        """Return how long a reply of a commit or a scan may be awaited."""
        return max(_LEAST_COMMIT_SECONDS, self.patience())

    def add(self, lease: int, ttl_seconds: float) -> None:
        """Note a lease that was granted."""
        self._ttl_seconds[lease] = ttl_seconds

    def forget(self, leases: Collection[int]) -> None:
        """Note that leases have ended."""
        for lease in leases:
            self._ttl_seconds.pop(lease, None)
