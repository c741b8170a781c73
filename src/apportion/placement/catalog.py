"""Catalog: every file of this package that ends in a `SPEC`, and the placements of other packages.

Other packages add placements through the entry point group `apportion.placements`, with an entry
`name = "module:SPEC"`. Entry points are read only if a name is unknown here or all names are listed. No entry point
can take over a name of this package.

If a layout prescribes a hash that `hashers` does not have, its file has the hash as `HASHER`. The function `hasher`
finds that hash by the label that tables contain.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from apportion.errors import InvalidInput, UnknownOption
from apportion.placement import hashers
from apportion.placement.api import PlacementSpec
from apportion.placement.hashers import Hasher

ENTRY_POINTS = "apportion.placements"


def names() -> tuple[str, ...]:
    """Return the name of every placement, sorted. Imports the files of this package and reads entry points."""
    return tuple(sorted({*_own(), *_foreign()}))


def get(name: str) -> PlacementSpec:
    """Return the spec of a placement by name; `UnknownOption` names the nearest.

    A call of the spec builds the placement.

    >>> get("ring").source, get("ring")(["a"]).route("k")
    ('Karger et al. 1997', 'a')
    """
    spec = _own().get(name) if isinstance(name, str) else None
    if spec is None:
        spec = _foreign().get(name) if isinstance(name, str) else None
    if spec is None:
        raise UnknownOption("placement", name, names())
    return spec


def hasher(label: str, *, key: bytes | None = None) -> Hasher:
    """Return the hasher for the label of a table: a hash function by name, or the hash of a layout.

    An unknown label raises `UnknownOption`, which names the nearest. `key` is the secret of `siphash-2-4`.

    >>> hasher("redis-slot")(b"{user1}.name"), hasher("md5").bits
    (8106, 64)
    """
    if not isinstance(label, str) or label in hashers.names():
        return hashers.get(label, key=key)
    found = (getattr(module, "HASHER", None) for module in _modules())
    prescribed: dict[str, Hasher] = {each.label: each for each in found if each is not None}
    if label not in prescribed:
        raise UnknownOption("hasher", label, (*hashers.names(), *prescribed))
    if key is not None:
        raise InvalidInput("hasher key", "(a secret)", f"none: {label} takes no secret", "Leave it out.")
    return prescribed[label]


def _own() -> dict[str, PlacementSpec]:
    specs = (getattr(module, "SPEC", None) for module in _modules())
    return {spec.name: spec for spec in specs if isinstance(spec, PlacementSpec)}


def _modules() -> Iterator[ModuleType]:
    room = import_module("apportion.placement")
    return (import_module(module.name) for module in walk_packages(room.__path__, "apportion.placement."))


def _foreign() -> dict[str, PlacementSpec]:
    from apportion.runtime.entry_points import added  # noqa: PLC0415 - slow to import, and rarely needed

    return {spec.name: spec for spec in added(ENTRY_POINTS, PlacementSpec)}
