"""The figures: each file here has `rows()`, which measures and returns its rows. Adding a figure is adding a file."""

from pkgutil import iter_modules


def names() -> list[str]:
    """Return the name of every figure, sorted."""
    return sorted(module.name for module in iter_modules(__path__))
