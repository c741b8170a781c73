"""Clock: the elapsed time, for code that waits or holds a lease.

No wall clock decides ownership: wall clocks jump, and differ from host to host. Ownership depends on the elapsed time
of one machine. The clock is CLOCK_BOOTTIME where the system has it, because it also counts the time of a suspend. With
another clock, a laptop that wakes would trust leases that ended hours ago.
"""

import time
from typing import Protocol

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Elapsed time of one machine."""

    def elapsed(self) -> float:
        """Return seconds since a fixed start; they never decrease, and include the time of a suspend."""


class SystemClock:
    """Elapsed seconds of this machine, since it was started."""

    def elapsed(self) -> float:
        """Return seconds. The time of a suspend counts, and a step of the wall clock does not."""
        return time.clock_gettime(_CLOCK)
