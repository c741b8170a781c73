"""Shard: one database of a set, as a mover sees it.

Every call that writes is one durable transaction. Its first statement checks the mover's token by the landed
`SqlGuard`, under the resource of the move: from then on no older mover writes for this move. `Fenced` has written
nothing. A transaction that cannot have the lock soon gives up with `StoreUnavailable`, and has written nothing.

Promises: a call that is made again after its reply was lost finds its work done, and changes nothing.
Refuses: to decide. The machine of `reshard` says which act is next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup, RowChange
from apportion.shards.slot_rows import SlotRow

CLEAN_ROWS = 500
"""The rows that one call of `clean` deletes at most, so that writers wait for 20 ms at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSize:
    """The rows of one slot in all sharded tables, and their size in bytes as the database estimates it."""

    rows: int
    bytes: int


class Shard(Protocol):
    """A database of the set."""

    async def guard(self, group: MoveGroup, token: FencingToken) -> None:
        """Let nothing older than the token write for the group from now on."""

    async def rows(self, group: MoveGroup) -> Sequence[SlotRow | None]:
        """Return the rows of the group's slots, in their order, as one read saw them."""

    async def change(self, group: MoveGroup, change: RowChange, token: FencingToken) -> None:
        """Change the rows that are in one of the states `before`, and mark them with the group's move."""

    async def sizes(self) -> Mapping[int, SlotSize]:
        """Return the size of each slot that has rows here, also of slots that the shard does not own."""

    async def clean(self, group: MoveGroup, token: FencingToken) -> int:
        """Delete at most `CLEAN_ROWS` rows of slots that are `moved` here; return how many. 0 means that none is left.

        The state of each slot is read again in the transaction that deletes.
        """

    async def drop(self, group: MoveGroup, token: FencingToken) -> None:
        """Delete all that an aborted move brought here: rows, rows of slots, cursors, marks. A tombstone comes back."""

    async def left_behind(self, move: str) -> Sequence[str]:
        """Return the names of the tables, triggers and rows of a move that are still here."""

    async def close(self) -> None:
        """Close the connections."""
