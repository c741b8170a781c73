"""The pytest plug-in: a world for each test, by `pytest_plugins = ["apportion.sim.plugin"]` in a conftest.

    @pytest.mark.seeds(20)
    def test_my_handler(world):
        world.spawn("a", handler(world.store("a")))
        world.pause("a", 3.0)
        world.run(until=10.0)

A test that takes `world` runs once for each seed; one that fails is run again by its id, or by `--sim-seed=N` alone.
"""

from collections.abc import Iterator

import pytest

from apportion.sim.world import World

SEEDS = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names one seed."""
    parser.addoption("--sim-seed", type=int, default=None, help="run simulated worlds with this seed only")


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line("markers", f"seeds(count): run a test of a simulated world with so many seeds ({SEEDS})")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of a world with several seeds."""
    if "world_seed" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("seeds")
        only = metafunc.config.getoption("--sim-seed")
        seeds = range(marker.args[0] if marker else SEEDS) if only is None else [only]
        metafunc.parametrize("world_seed", seeds, ids=lambda seed: f"seed{seed}")


@pytest.fixture
def world(world_seed: int) -> Iterator[World]:
    """Return a world that ends with the test."""
    with World(world_seed) as made:
        yield made
