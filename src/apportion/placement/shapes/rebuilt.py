"""Rebuilt: the base of placements that can be made again from their topology and their options.

Pickles and `on` call the class with the same options; the printed form shows them.
"""

from functools import partial
from typing import ClassVar, Self

from apportion.model.topology import Topology
from apportion.placement.hashers import Hasher


class Rebuilt:
    """The shared half of these placements: `_OPTIONS` are the options of the class, each kept under its name."""

    __slots__ = ()
    _OPTIONS: ClassVar[tuple[str, ...]] = ()
    topology: Topology
    hasher: Hasher

    def on(self, topology: Topology) -> Self:
        """Return the placement of another topology, with the same options."""
        return self._make()(topology)

    def _make(self) -> "partial[Self]":
        return partial(type(self), **{name: getattr(self, name) for name in self._OPTIONS})

    def __reduce__(self) -> "tuple[partial[Self], tuple[Topology]]":
        return self._make(), (self.topology,)

    def __repr__(self) -> str:
        options = "".join(f", {name}={getattr(self, name)!r}" for name in self._OPTIONS if name != "hasher")
        return f"{type(self).__name__}({self.topology!r}{options}, hasher={self.hasher.label!r})"
