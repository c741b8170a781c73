"""Entry points: the specs that other packages add to a catalog of this package."""

from functools import cache
from importlib import metadata
from typing import TypeVar

from apportion.errors import InvalidInput

Spec = TypeVar("Spec")


@cache
def installed(group: str) -> tuple[metadata.EntryPoint, ...]:
    """Return the entry points of a group; the folders of all installed packages are read once per process."""
    return tuple(metadata.entry_points(group=group))


def added(group: str, kind: type[Spec]) -> list[Spec]:
    """Return the spec of each entry point of a group. Raise `InvalidInput` for one that fails to load or is no spec."""
    specs = []
    for entry in installed(group):
        what, hint = f"entry point {entry.name!r} of {group}", "Fix or uninstall the package that adds it."
        try:
            spec = entry.load()
        except (ImportError, AttributeError) as error:
            raise InvalidInput(what, str(error), "one that can be imported", hint) from error
        if not isinstance(spec, kind):
            raise InvalidInput(what, spec, f"a {kind.__name__}", hint)
        specs.append(spec)
    return specs
