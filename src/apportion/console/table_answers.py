"""The answers of a table as it is, whoever made it: which node has a key, and what the table says of why.

Promises: the owners that the table lists. Refuses: to guess who would come after them, which takes the placement.
"""

from dataclasses import dataclass, field

from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import Digest, Hasher, position_of
from apportion.placement.keys import key_bytes


@dataclass(frozen=True, slots=True)
class TableAnswers:
    """A table, and the hasher that makes positions in it. Lookup: O(log stretches)."""

    table: Table
    hasher: Hasher
    _position: Digest = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_position", position_of(self.hasher))

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        return self.table.owners(self._position(key_bytes(key)))[0]

    def explain(self, key: Key) -> Explanation:
        """Return the range that a key lies in, and its owners in their order."""
        data = key_bytes(key)
        position = self._position(data)
        owner, *others = self.table.owners(position)
        return Explanation(
            key=key,
            placement="table",
            hasher=self.hasher.label,
            hash=self.hasher(data),
            range=self.table.range_at(position),
            owner=owner,
            why=f"the table gives the range to {owner}; it does not say who would come after its owners",
            next=tuple(others),
            if_owner_left=None,
        )
