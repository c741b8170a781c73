"""Throttle: limits on the copies that run at once, and the time at which these limits end.

A throttle that was set for maintenance and then forgotten slows every later recovery. Therefore a throttle can have
a time at which it ends, and a throttle that follows it.

Refuses: to read a clock. The caller passes times as numbers of seconds. Use `time.time()` on every machine, or any
other clock, as long as `expires_at` and `now` come from the same clock.
"""

from dataclasses import dataclass

from apportion.errors import InvalidInput
from apportion.errors.brief import brief


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Limits on the copies at once: per node (as source or as target), per zone, and in total.

    `per_node_bytes` limits the sum of the bytes that a node sends and receives at once. None means no limit. A copy
    within a zone counts once for that zone. From `expires_at` (seconds) on, `then` applies; without `then`, there is no
    limit.

    >>> night = Throttle(per_node=8, expires_at=1000.0, then=Throttle(per_node=2))
    >>> night.at(999.0).per_node, night.at(1000.0).per_node
    (8, 2)
    >>> print(night)
    at most 8 copies per node, until 1000.0
    """

    per_node: int | None = None
    per_zone: int | None = None
    per_cluster: int | None = None
    per_node_bytes: int | None = None
    expires_at: float | None = None
    then: "Throttle | None" = None

    def __post_init__(self) -> None:
        for name in ("per_node", "per_zone", "per_cluster", "per_node_bytes"):
            limit = getattr(self, name)
            if limit is not None and (type(limit) is not int or limit < 1):
                hint = "Nothing would ever move; use None for no limit."
                raise InvalidInput(f"{name} of the throttle", limit, "an int of at least 1, or None", hint)
        if self.expires_at is not None:
            check_seconds("expires_at of the throttle", self.expires_at)
        if self.then is not None:
            _check_successor(self.expires_at, self.then)

    def at(self, now: float | None) -> "Throttle":
        """Return the throttle that applies at a time: this one, or its successor once it has expired.

        `now` may be None if nothing expires; otherwise None raises `InvalidInput`.
        """
        if now is not None:
            check_seconds("now", now)
        if self.expires_at is None:
            return self
        if now is None:
            hint = "Pass now=time.time(), or the time of the clock that gave expires_at."
            raise InvalidInput("now", None, "the time in seconds, because the throttle expires", hint)
        return self if now < self.expires_at else (self.then or Throttle()).at(now)

    def __str__(self) -> str:
        limits = (
            (self.per_node, "copies per node"),
            (self.per_zone, "copies per zone"),
            (self.per_cluster, "copies in all"),
            (self.per_node_bytes, "bytes per node"),
        )
        said = ", ".join(f"{limit} {of_what}" for limit, of_what in limits if limit is not None)
        until = "" if self.expires_at is None else f", until {self.expires_at}"
        return (f"at most {said}" if said else "no limit") + until


def check_seconds(field: str, seconds: float) -> None:
    """Raise `InvalidInput` for a value that is not a finite number of seconds."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not abs(seconds) < float("inf"):
        raise InvalidInput(field, seconds, "a finite number of seconds", "Use time.time(), or datetime.timestamp().")


def _check_successor(expires_at: float | None, then: Throttle) -> None:
    if not isinstance(then, Throttle):
        raise InvalidInput("then of the throttle", then, "a Throttle, or None for no limit", "Write Throttle(...).")
    if expires_at is None:
        raise InvalidInput(
            "expires_at of the throttle", None, "a time, because `then` follows it", "Pass expires_at=, or drop then=."
        )
    if then.expires_at is not None and then.expires_at <= expires_at:
        expected = f"later than {expires_at}, when the one before it ends"
        raise InvalidInput("expires_at of the throttle in then", then.expires_at, expected, "Put them in order.")
