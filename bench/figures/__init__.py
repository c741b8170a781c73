"""The figures: each file here has `rows()`, which measures and returns its rows. Adding a figure is adding a file."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from bench.row import Row


def names() -> list[str]:
    """Return the name of every figure, sorted."""
    return sorted(module.name for module in iter_modules(__path__))


def measured(name: str) -> list[Row]:
    """Measure one figure in this process."""
    rows: Callable[[], list[Row]] = import_module(f"bench.figures.{name}").rows
    return rows()
