"""Identifiers: UUIDs of version 8 that carry the time at which they were made, and a slot.

    48 bits of milliseconds since 1970 | 14 bits of the slot | 60 random bits

The bits between them name the version and the variant of a UUID.

Promises: identifiers sort by their milliseconds. Those that one process makes for one slot grow from call to call, also
if the clock goes back.
Refuses: a slot that no set can have, and UUIDs of other versions. Nothing tells those of version 8 from another program
apart.
Source: RFC 9562, sections 5.8 and 6.2 (method 2).
"""

import os
import time
from collections.abc import Callable
from secrets import randbits
from threading import Lock
from uuid import RFC_4122, UUID

from apportion.errors import InvalidInput
from apportion.shards.slots import MOST_SLOTS

_VERSION, _VARIANT = 8, 0b10
_TAIL_BITS, _STEP_BITS = 60, 32


class Identifiers:
    """Makes identifiers. `milliseconds` is a clock, and `randbits` returns a number of so many random bits."""

    def __init__(self, milliseconds: Callable[[], int], randbits: Callable[[int], int]) -> None:
        self._milliseconds, self._randbits = milliseconds, randbits
        self._time, self._tail = 0, randbits(_TAIL_BITS)
        self._lock = Lock()

    def new(self, slot: int) -> UUID:
        """Return an identifier. `InvalidInput` for a slot that no set can have."""
        if type(slot) is not int or not 0 <= slot < MOST_SLOTS:
            hint = "Take router.slot(key), the slot of the key that the row belongs to."
            raise InvalidInput("slot", slot, f"an int in 0 .. {MOST_SLOTS - 1}", hint)
        with self._lock:
            made, tail = self._next()
        high = made << 16 | _VERSION << 12 | slot >> 2
        return UUID(int=high << 64 | _VARIANT << 62 | (slot & 3) << _TAIL_BITS | tail)

    def _next(self) -> tuple[int, int]:
        """Return the time and the random bits. Within one millisecond, the bits grow by a random step."""
        now = self._milliseconds()
        tail = self._tail + 1 + self._randbits(_STEP_BITS)
        if now <= self._time and not tail >> _TAIL_BITS:
            self._tail = tail
        else:
            self._time, self._tail = max(now, self._time + 1), self._randbits(_TAIL_BITS)
        return self._time, self._tail


def new_id(slot: int) -> UUID:
    """Return a fresh UUID that carries the present time and a slot. It takes some microseconds. Any thread may call.

    `InvalidInput` for a slot that no set can have.

    >>> slot_of(new_id(4094))
    4094
    """
    return _of_process[0].new(slot)


def slot_of(identifier: UUID) -> int:
    """Return the slot that an identifier of `new_id` carries. `InvalidInput` for a UUID of another version.

    >>> slot_of(UUID("0193754a-1c00-83ff-a123-456789abcdef"))
    4094
    """
    if not isinstance(identifier, UUID) or (identifier.variant, identifier.version) != (RFC_4122, _VERSION):
        hint = "Pass an identifier of new_id. Make a UUID of its text first: uuid.UUID(text)."
        found = f"{identifier}" if isinstance(identifier, UUID) else identifier
        raise InvalidInput("identifier", found, "a UUID of version 8", hint)
    return (identifier.int >> 64 & 0xFFF) << 2 | identifier.int >> _TAIL_BITS & 3


def _made() -> Identifiers:
    return Identifiers(lambda: time.time_ns() // 1_000_000, randbits)


def _after_fork() -> None:
    """Give a child random bits of its own, and a lock that no thread of its parent holds."""
    _of_process[0] = _made()


_of_process: list[Identifiers] = [_made()]
os.register_at_fork(after_in_child=_after_fork)
