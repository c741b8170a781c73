"""Shard: one database of a set, as a mover sees it.

Every call that writes is one durable transaction. Its first statement checks the mover's token with `SqlGuard`, under
the resource of the move. From then on no older mover writes for this move. A refused token raises `Fenced`, and a lock
that is not free soon raises `StoreUnavailable`. Both have written nothing.

Promises: a call may be made again after a lost reply. It finds its work done, and changes nothing.
Refuses: to decide. The machine of `reshard` says which act is next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from apportion.errors import InvalidInput
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup, RowChange
from apportion.shards.slot_rows import SlotRow

CLEAN_ROWS = 500
"""The most rows that one call of `clean` deletes, so that writers wait for 20 ms at most."""

MOST_IN_PLACE = 5_000
"""The most rows that get another slot of their own shard in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSize:
    """The rows of one slot in all sharded tables, and their size in bytes as the database estimates it."""

    rows: int
    bytes: int


class Shard(Protocol):
    """A database of the set."""

    async def guard(self, group: MoveGroup, token: FencingToken) -> None:
        """From now on, refuse each mover of the group with an older token."""

    async def rows(self, group: MoveGroup) -> Sequence[SlotRow | None]:
        """Return the rows of the group's slots from one read, in the order of the slots."""

    async def change(self, group: MoveGroup, change: RowChange, token: FencingToken) -> None:
        """Change the rows with one of the states `before`, and mark them with the group's move.

        With `takes`, the rows of an isolated key get their slot too. With `joins`, the rows of that slot get the other
        slot of the group. `InvalidInput` for more than `MOST_IN_PLACE` rows.
        """

    async def sizes(self) -> Mapping[int, SlotSize]:
        """Return the size of each slot that has rows here, even if the shard does not own the slot."""

    async def clean(self, group: MoveGroup, token: FencingToken) -> int:
        """Delete at most `CLEAN_ROWS` rows of slots that are `moved` here. Return their number, 0 if none is left.

        The state of each slot is read again in the transaction that deletes.
        """

    async def drop(self, group: MoveGroup, token: FencingToken) -> None:
        """Delete everything that an aborted move brought here: rows of tables, cursors, marks, and slot rows.

        The slot row of a slot that was `moved` before the move stays, and is `moved` again.
        """

    async def left_behind(self, move: str) -> Sequence[str]:
        """Return the names of the tables, triggers and rows of a move that are still here."""

    async def close(self) -> None:
        """Close the connections."""


def check_few(slot: int, *, rows: int, command: str = "") -> None:
    """Raise `InvalidInput` for more rows than those that may get another slot in one transaction.

    `command` is the command that moves them to another shard.
    """
    if rows > MOST_IN_PLACE:
        hint = "Let the two slots be. They cost nothing beside each other."
        if command:
            hint = f"Move them to another shard, while programs write: apportion shards {command}"
        field = f"rows of the key in slot {slot}" if command.startswith("isolate") else f"rows to change in slot {slot}"
        raise InvalidInput(field, rows, f"at most {MOST_IN_PLACE} to stay", hint)
