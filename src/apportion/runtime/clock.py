"""Clock: how much time has passed, for whatever waits or holds a lease.

No wall clock decides who owns: those step, and differ from host to host. What counts is elapsed time of one machine:
CLOCK_BOOTTIME where there is one. It runs on while the machine sleeps, or a laptop that wakes would believe in leases
that ended hours ago.
"""

import time
from typing import Protocol

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Elapsed time of one machine."""

    def elapsed(self) -> float:
        """Return seconds since some start; never less than before, and running on through suspend."""
        ...


class SystemClock:
    """Elapsed seconds of this machine, since it was started."""

    def elapsed(self) -> float:
        """Return seconds; a step of the wall clock does not show, a suspended hour does."""
        return time.clock_gettime(_CLOCK)
