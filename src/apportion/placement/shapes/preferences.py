"""Preferences: the preference lists of `router` and `range_router`, one key or many at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from apportion.model.plan import Key
from apportion.placement.keys.key_bytes import check_threads, listed
from apportion.placement.spread import Spread


class Preferences(ABC):
    """The part that `ReferenceRouter` and `ReferenceRangeRouter` have in common."""

    __slots__ = ()

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return `count` distinct nodes for a key, its owner first; see `Placement`."""
        return self._preferred(key, count, spread_level=spread_level, spread=spread)

    def preference_many(
        self,
        keys: Iterable[Key],
        count: int,
        *,
        spread_level: int | None = None,
        spread: Spread = "strict",
        threads: int = 1,
    ) -> list[tuple[str, ...]]:
        """Return the preference list of each key, in the order of the keys."""
        check_threads(threads)
        return [self._preferred(key, count, spread_level=spread_level, spread=spread) for key in listed(keys)]

    @abstractmethod
    def _preferred(self, key: Key, count: int, *, spread_level: int | None, spread: Spread) -> tuple[str, ...]:
        """Return the preference list; the twin calls this only for lists that it does not find by itself."""
