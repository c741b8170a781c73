"""The catalog of balancers: every file of this room that ends in a `SPEC`, and the specs of other packages.

A name leads to its file: `kafka.sticky` is `kafka/sticky.py`. Other packages add balancers through the entry point
group `apportion.balancers`: an entry `name = "module:SPEC"`. Entry points are read only when a name is unknown here
or when all names are listed. An entry point cannot take over a name of this room.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from apportion.balance.api import BalancerSpec
from apportion.errors import UnknownOption

ENTRY_POINTS = "apportion.balancers"
_ROOM = "apportion.balance"


def names() -> tuple[str, ...]:
    """Return the name of every balancer, sorted. Imports this room's files and lists entry points."""
    return tuple(sorted({spec.name for spec in _own()} | _foreign().keys()))


def get(name: str) -> BalancerSpec:
    """Return a balancer's spec by name; calling the spec assigns. `UnknownOption` names the nearest known name.

    >>> from apportion.model.topology import Topology
    >>> get("optimal")(6, 1, Topology(["a", "b"])).loads
    {'a': 3, 'b': 3}
    """
    spec = _in_file(name) or _foreign().get(name) if isinstance(name, str) else None
    if spec is None:
        raise UnknownOption("balancer", name, names())
    return spec


@cache
def _in_file(name: str) -> BalancerSpec | None:
    """Return the spec from the file of this name, without importing any other file."""
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        spec = getattr(import_module(f"{_ROOM}.{name}"), "SPEC", None)
    except ModuleNotFoundError as error:
        if not f"{_ROOM}.{name}".startswith(f"{error.name}"):
            raise
        return None
    return spec if isinstance(spec, BalancerSpec) and spec.name == name else None


def _own() -> Iterator[BalancerSpec]:
    room = import_module(_ROOM)
    for module in walk_packages(room.__path__, f"{_ROOM}."):
        spec = getattr(import_module(module.name), "SPEC", None)
        if isinstance(spec, BalancerSpec):
            yield spec


def _foreign() -> dict[str, BalancerSpec]:
    from apportion.runtime.entry_points import added  # noqa: PLC0415 - slow to import, and rarely asked for

    return {spec.name: spec for spec in added(ENTRY_POINTS, BalancerSpec)}
