"""Channel: how the rows of a move group follow from the source to the target while they are written to.

Capture logs the key of each row that a writer changes on the source. Then chunks of rows are copied, and the log is
applied: the row of a logged key is read again and written to the target; an absent row is deleted there. A chunk is
read and written in one lane with the log, so no older row is written over a newer one.

Promises: the cursor of a chunk, or of the log, is written in the transaction that writes the rows. So a mover that
was killed copies at most one chunk again. Writers of the source wait for a lock of the channel 20 ms at most.
Refuses: to say that rows are equal when it compared none, though the source has some.
"""

from dataclasses import dataclass
from typing import Protocol

from apportion.model.epoch import FencingToken


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelState:
    """All that a channel can say. `lag` is the number of logged changes that the target has not got.

    - `is_captured`: each write of the source is logged.
    - `is_copied`: every chunk has been copied.
    - `is_drained`: the target has all that the log of the source says.
    - `is_verified`: the rows of both shards were compared in the attempt that was asked for, and were equal; keys
      that were logged since then were compared when they were applied.
    """

    is_captured: bool = False
    is_copied: bool = False
    is_drained: bool = False
    is_verified: bool = False
    copied: int = 0
    lag: int = 0


class Channel(Protocol):
    """The way of one move group between its two shards."""

    async def check(self, size: int, /) -> None:
        """Raise for anything that would stop the move; nothing is written. `size` is that of the rows, in bytes."""

    async def state(self, attempt: int) -> ChannelState:
        """Return how far the rows have come, read from both shards."""

    async def capture(self, token: FencingToken) -> None:
        """Log the keys of rows that change from now on."""

    async def copy(self, token: FencingToken) -> None:
        """Copy the next chunk."""

    async def apply(self, token: FencingToken) -> None:
        """Apply the next part of the log, and forget it on the source after the target has it."""

    async def verify(self, attempt: int, token: FencingToken) -> None:
        """Compare all rows of the group; equal ones are marked for this attempt, differing ones are copied again.

        `Unequal` if rows differ that no log names: something else than a writer changed the target.
        """

    async def uncapture(self, token: FencingToken) -> None:
        """Stop the log, and delete it."""

    async def close(self) -> None:
        """Close the connections."""
