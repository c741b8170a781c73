"""Plugin of pytest: each test is written down with what it ran, its seconds, and whether it passed."""

from time import monotonic

import pytest

from tests.mutants import seen

_failed: set[str] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Write down one test."""
    seen.clear()
    begin = monotonic()
    result = yield
    seen.write(item.nodeid, seconds=round(monotonic() - begin, 4), failed=item.nodeid in _failed)
    return result


def pytest_runtest_logreport(report):
    """Note which tests did not pass."""
    if not report.passed:
        _failed.add(report.nodeid)
