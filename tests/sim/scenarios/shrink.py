"""Shrinking: the fewest faults, counted from the first, after which a failing seed still fails.

Faults are drawn in one order, whatever happens with them. So a run with N faults equals the failing run up to the
N-th fault, and is quiet after it. N is found by halving. When fewer faults can fail and more can pass, any such N is
found.
"""

from collections.abc import Callable

from tests.sim.scenarios.scenario import Report


def shortest(failed: Report, again: Callable[[int], Report]) -> Report:
    """Return the report of the shortest failing prefix; `again` plays the seed with a given number of faults."""
    best, passes, fails = failed, -1, failed.injected.total()
    while fails - passes > 1:
        middle = (passes + fails) // 2
        report = again(middle)
        if report.violations:
            best, fails = report, middle
        else:
            passes = middle
    return best
