"""The plug-in for pytest that runs the suite: a rig and one line make a class of tests, one test per case.

    pytest_plugins = ["apportion.sim.conformance.plugin"]  # in conftest.py
    TestMyStore = certify(MyRig)                           # in a file of tests

At the end it prints a line for each store: how many cases ran, failed and were skipped, and the missing capabilities.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator

import pytest

from apportion.sim.conformance.case import Case
from apportion.sim.conformance.rig import Rig
from apportion.sim.conformance.suite import cases, check

_STORE, _LACKS = "conformance store", "conformance lacks"


def certify(rig: Callable[[], Rig], *, slow: Collection[str] = ()) -> type:
    """Return a class of tests that runs every case against one rig, made before the first test.

    `slow`: the names of cases that get the marker `slow`, so that a quick run of pytest can leave them out.
    """
    every = [
        pytest.param(each, marks=[pytest.mark.slow] if each.name in slow else [], id=each.name.replace(" ", "_"))
        for each in cases()
    ]

    class Conformance:
        """All cases against one store."""

        @pytest.fixture(scope="class")
        @classmethod
        def rig(cls) -> Iterator[Rig]:
            """The rig of the store."""
            made = rig()
            yield made
            asyncio.run(made.close())

        @pytest.mark.parametrize("case", every)
        def test(self, case: Case, rig: Rig, record_property: Callable[[str, object], None]) -> None:
            """Run one case."""
            record_property(_STORE, rig.name)
            lacks = check(case, rig)
            if lacks is not None:
                record_property(_LACKS, lacks)
                pytest.skip(f"{rig.name} does not promise it: {lacks}")

    return Conformance


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each store."""
    ran: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    lacks: dict[str, Counter[str]] = {}
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        told = dict(getattr(report, "user_properties", ()))
        if _STORE not in told or report.when != "call":
            continue
        store = str(told[_STORE])
        lacking = lacks.setdefault(store, Counter())
        ran[store] += not report.skipped
        failed[store] += report.failed
        lacking.update([str(told[_LACKS])] if report.skipped and _LACKS in told else [])
    for store, lacking in sorted(lacks.items()):
        fields = ", ".join(f"{field} {count}" for field, count in sorted(lacking.items()))
        skipped = f"{lacking.total()} skipped ({fields})" if lacking else "none skipped"
        terminalreporter.write_line(f"conformance of {store}: {ran[store]} run, {failed[store]} failed, {skipped}")
