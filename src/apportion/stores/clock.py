"""The clock of the machine: CLOCK_BOOTTIME where there is one, which runs on through suspend."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Elapsed seconds of this machine, since it was started."""

    def elapsed(self) -> float:
        """Return seconds; a step of the wall clock does not show, a suspended hour does."""
        return time.clock_gettime(_CLOCK)
