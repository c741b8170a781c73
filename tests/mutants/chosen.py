"""Plugin of pytest: of the files that it is given, only the tests of a list run, in its order.

The list names tests or whole files. A mutant may change the parameters of a test, and so its name: then all tests of
that function run, as the last ones.
"""

from pathlib import Path


def pytest_addoption(parser):
    """Take the file with the names, one per line."""
    parser.addoption("--chosen", type=Path, required=True)


def pytest_collection_modifyitems(config, items):
    """Keep the chosen tests."""
    places = {name: place for place, name in enumerate(config.getoption("chosen").read_text().splitlines())}
    gone = places.keys() - {item.nodeid for item in items}
    wanted = places.keys() | {_function(name) for name in gone}
    kept = [item for item in items if wanted & {item.nodeid, _function(item.nodeid), item.nodeid.partition("::")[0]}]
    items[:] = sorted(kept, key=lambda item: places.get(item.nodeid, len(places)))


def _function(name):
    return name.partition("[")[0]
