"""Ranked: the base of computed placements in which the hash of a key ranks every node that owns something.

The base of `rendezvous`, `multiprobe` and `choose_k`. Each of these adds the ranking.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from apportion.model.plan import Key
from apportion.placement.explanation import Explanation
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.computed import Computed
from apportion.placement.spread import Spread, spread_rule


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Ranked(Computed):
    """The shared half of these placements: the ranking is the preference list."""

    _NAME: ClassVar[str]

    @abstractmethod
    def _ranking(self, key_hash: int) -> Iterator[int]:
        """Yield the index of each node that owns something, exactly once.

        The owner of the keys with this hash comes first.
        """

    @abstractmethod
    def _why(self, key_hash: int, owner: str) -> str:
        """Return the reason why a node owns the keys with a hash."""

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return the first `count` nodes of the key's ranking, each zone once. See the class for the cost."""
        rule = spread_rule(self.topology, count, level=spread_level, spread=spread)
        return tuple(self.topology.ids[index] for index in rule.pick(self._ranking(self._hash(key_bytes(key)))))

    def explain(self, key: Key) -> Explanation:
        """Return the reason for the owner of a key, and the next nodes of the ranking."""
        key_hash = self._hash(key_bytes(key))
        owner, *others = (self.topology.ids[index] for index in self._ranking(key_hash))
        return Explanation(
            key=key,
            placement=self._NAME,
            hasher=self.hasher.label,
            hash=key_hash,
            owner=owner,
            why=self._why(key_hash, owner),
            next=self.preference(key, min(3, len(others) + 1), spread="best-effort")[1:],
            if_owner_left=others[0] if others else None,
        )
