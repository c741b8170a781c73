"""Leases that this process keeps alive in one store. They bound the wait for each reply.

Promises: while a lease is held, no wait for a reply is longer than a quarter of its time to live. So a renewal over a
half-open connection leaves time for a new connection. Each bound has a minimum, because a busy server needs it.
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
        """The ids of the leases. The view follows later changes."""
        return self._ttl_seconds.keys()

    @property
    def shortest_seconds(self) -> float:
        """The shortest time to live; the usual time to live if there are no leases."""
        return min(self._ttl_seconds.values(), default=_USUAL_TTL_SECONDS)

    @property
    def lock_milliseconds(self) -> int:
        """The longest time that the server may wait for a lock."""
        return int(1000 * _LOCK_RATIO * self.commit_patience())

    def patience(self) -> float:
        """Return the longest wait for the reply of a read or a renewal."""
        return min(
            [REQUEST_SECONDS, *(max(_LEAST_SECONDS, _PATIENCE_RATIO * ttl) for ttl in self._ttl_seconds.values())]
        )

    def commit_patience(self) -> float:
        """Return the longest wait for the reply of a commit or a scan."""
        return max(_LEAST_COMMIT_SECONDS, self.patience())

    def add(self, lease: int, ttl_seconds: float) -> None:
        """Note a lease that was granted."""
        self._ttl_seconds[lease] = ttl_seconds

    def forget(self, leases: Collection[int]) -> None:
        """Note that leases have ended."""
        for lease in leases:
            self._ttl_seconds.pop(lease, None)
