"""Clock: how much time has passed, for whatever waits or holds a lease.

No wall clock decides who owns: those step, and differ from host to host. What counts is elapsed time of one machine,
and it must run on while the machine sleeps, or a laptop that wakes would believe in leases that ended hours ago.
"""

from typing import Protocol


class Clock(Protocol):
    """Elapsed time of one machine."""

    def elapsed(self) -> float:
        """Return seconds since some start; never less than before, and running on through suspend."""
        ...
