"""The pytest plug-in: a world for each test, by `pytest_plugins = ["apportion.sim.plugin"]` in a conftest.

    @pytest.mark.seeds(20)
    def test_my_handler(world):
        world.spawn("a", handler(world.store("a")))
        world.pause("a", 3.0)
        world.run(until=10.0)

`handler` may be a whole program, which opens a group of `apportion`. A test that takes `world` runs once per seed. A
failing test prints the command that runs its seed again. A handler that iterates over a set of `str` repeats only
under the same PYTHONHASHSEED. If this variable was set, the printed command contains it.
"""

import os
import shlex
from collections.abc import Generator, Iterator

import pytest

from apportion.sim.world.world import World

SEEDS = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names one seed."""
    parser.addoption("--sim-seed", type=int, default=None, help="run simulated worlds with this seed only")


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line("markers", f"seeds(count): the number of seeds for a test of a world (default: {SEEDS})")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of a world with several seeds."""
    if "world_seed" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("seeds")
        only = metafunc.config.getoption("--sim-seed")
        count = SEEDS if marker is None else _count(marker, metafunc.definition.nodeid)
        seeds = range(count) if only is None else [only]
        metafunc.parametrize("world_seed", seeds, ids=lambda seed: f"seed{seed}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print the command that runs a failed seed again."""
    report = yield
    seed = item.callspec.params.get("world_seed") if hasattr(item, "callspec") else None
    if report.failed and seed is not None:
        report.sections.append(("simulated world", _again(item.nodeid, seed)))
    return report


@pytest.fixture
def world(world_seed: int) -> Iterator[World]:
    """Return a world that ends with the test."""
    with World(world_seed) as made:
        yield made


def _count(marker: pytest.Mark, test: str) -> int:
    given = [*marker.args, *marker.kwargs.values()]
    if len(given) == 1 and marker.kwargs.keys() <= {"count"} and type(given[0]) is int and given[0] > 0:
        return given[0]
    text = ", ".join([*map(repr, marker.args), *(f"{name}={value!r}" for name, value in marker.kwargs.items())])
    pytest.fail(f"{test}: seeds({text}) must be one number above 0. Write @pytest.mark.seeds(20).", pytrace=False)


def _again(test: str, seed: int) -> str:
    command = f"pytest {shlex.quote(test)} --sim-seed={seed}"
    hashes = os.environ.get("PYTHONHASHSEED") or "random"
    if hashes != "random":
        return f"Run it again: PYTHONHASHSEED={hashes} {command}"
    hint = "If it passes then, a set of str may have had another order: set PYTHONHASHSEED=0 for all runs."
    return f"Run it again: {command}\n{hint}"
