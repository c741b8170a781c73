"""The clock of the machine: CLOCK_BOOTTIME where there is one, which runs on through suspend."""

import time

from apportion.model.clock import Clock
from apportion.stores.machine import simulated

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Elapsed seconds of this machine, since it was started."""

    def elapsed(self) -> float:
        """Return seconds; a step of the wall clock does not show, a suspended hour does."""
        return time.clock_gettime(_CLOCK)


def clock_here() -> Clock:
    """Return the clock of the machine that this process runs on, be it a simulated one."""
    machine = simulated()
    return SystemClock() if machine is None else machine.clock
