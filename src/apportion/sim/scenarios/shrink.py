"""Shrinking: the fewest faults, counted from the first, after which a failing seed still fails.

Faults are drawn in one order whatever becomes of them, so a run whose faults end after N is the failing run up to
there, and then a quiet one. N is found by halving; where fewer faults fail and more do not, some such N is found.
"""

from collections.abc import Callable

from apportion.sim.scenarios.scenario import Report


def shortest(failed: Report, again: Callable[[int], Report]) -> Report:
    """Return the report of the shortest failing prefix; `again` plays the seed with so many faults."""
    best, passes, fails = failed, -1, failed.injected.total()
    while fails - passes > 1:
        middle = (passes + fails) // 2
        report = again(middle)
        if report.violations:
            best, fails = report, middle
        else:
            passes = middle
    return best
