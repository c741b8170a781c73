"""How the tests run: Hypothesis repeats the same examples everywhere, unless it is asked to explore."""

import fcntl
import gc
import os
import signal
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("few", settings.get_profile("ci"), max_examples=10)
settings.register_profile("unshrunk", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell ignores SIGINT in its background, nohup ignores SIGHUP, and the processes that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

pytest_plugins = ["apportion.sim.conformance.plugin"]


def imported_in_turn(config):
    """Import all tests, each worker from another one on: it compiles its share, and reads what the others compiled."""
    if not hasattr(config, "workerinput") or config.args != config.getini("testpaths"):
        return
    number, workers = int(config.workerinput["workerid"][2:]), config.workerinput["workercount"]
    tests = Path(__file__).parent
    names = [
        ".".join(path.relative_to(tests.parent).with_suffix("").parts) for path in sorted(tests.rglob("test_*.py"))
    ]
    start = len(names) * number // workers
    for name in (*names[start:], *names[:start]):
        with suppress(Exception, pytest.skip.Exception):  # the collection tells it
            import_module(name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Let no collection of garbage look at the thousands of tests, which stay until the end."""
    gc.disable()
    try:
        imported_in_turn(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Let a crowded test wait, before its time begins, until no other crowded one runs in any worker."""
    if item.get_closest_marker("crowded") is None:
        return (yield)
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return (yield)


class WithoutDoctests:
    """Skips the search for doctests in the many files that have none: each worker would search all of them."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path):
        collectors = yield
        if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
            return [each for each in collectors if not isinstance(each, DoctestModule)]
        return collectors


def pytest_configure(config):
    """Look at files outside of this folder too."""
    config.pluginmanager.register(WithoutDoctests())


@pytest.fixture
def uncollected():
    """Let nothing be collected meanwhile: CPython 3.11's parser fails where the end of another test's task runs."""
    gc.disable()
    yield
    gc.enable()


def pytest_terminal_summary(terminalreporter):
    """Print the figures that tests have measured."""
    reports = [each for reports in terminalreporter.stats.values() for each in reports]
    for report in reports:
        for name, said in getattr(report, "user_properties", ()):
            if name == "figures" and report.when == "call":
                terminalreporter.write_line(said)
