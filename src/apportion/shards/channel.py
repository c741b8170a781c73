"""Channel: brings the rows of a move group from the source to the target while programs write to them.

Capture logs the key of each row that a writer changes on the source. Then chunks of rows are copied, and the log is
applied. To apply a logged key is to read its row again and to write the row to the target. A row that is absent on the
source is deleted on the target. The channel never copies a chunk while it applies the log, so no older row is written
over a newer one.

Promises: the cursor of a chunk, or of the log, is written in the transaction that writes the rows. So after a kill, the
next mover copies at most one chunk again. A writer of the source waits at most 20 ms for a lock of the channel.
Refuses: to call rows equal if the source has rows and none of them was compared.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from apportion.model.epoch import FencingToken

ChannelKind: TypeAlias = Literal["keys", "native", "auto"]
"""The channel that a caller asks for: "keys" is a log of keys, and "native" is logical replication.

"auto" is "native" wherever that is possible, and otherwise "keys".
"""

CHANNEL_KINDS: tuple[ChannelKind, ...] = ("keys", "native", "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelWish:
    """The wish of a caller for the channel of moves that begin.

    - `allows_unbounded_wal`: a native channel may begin on a server that keeps any amount of its log for it.
    - `at_once`: the number of moves that the caller runs at once.
    """

    kind: ChannelKind = "keys"
    allows_unbounded_wal: bool = False
    at_once: int = 1


KEYS = ChannelWish()
"""The default wish: a log of keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelState:
    """The progress of a channel. `lag` is the number of logged changes that the target does not have yet.

    A native channel has no log. There, `lag` counts the raised markers that the target does not have yet.

    - `is_captured`: each write of the source is logged.
    - `has_log`: a part of the log is there, perhaps without the rest. An abort removes it.
    - `is_captured_back`: the target has a log too. The channel of the reversed group reads it.
    - `is_copied`: every chunk has been copied.
    - `is_near`: changes reach the target fast enough for a fence. A channel with a log leaves it True, because there
      `lag` alone decides.
    - `is_drained`: the target has every logged change of the source.
    - `is_verified`: the rows of both shards were compared in the named attempt, and were equal. Rows of keys that were
      logged later were compared when they were applied.
    """

    is_captured: bool = False
    has_log: bool = False
    is_captured_back: bool = False
    is_copied: bool = False
    is_near: bool = True
    is_drained: bool = False
    is_verified: bool = False
    copied: int = 0
    lag: int = 0


class Channel(Protocol):
    """The path of one move group between its two shards."""

    async def check(self, size: int, /) -> None:
        """Raise an error if something would stop the move; write nothing. `size` is the size of the rows, in bytes."""

    async def state(self, attempt: int) -> ChannelState:
        """Return the progress of the rows, read from both shards."""

    async def capture(self, token: FencingToken) -> None:
        """Log the keys of rows that change from now on."""

    async def copy(self, token: FencingToken) -> None:
        """Copy the next chunk."""

    async def apply(self, token: FencingToken) -> None:
        """Apply the next part of the log, and delete it on the source after the target has it."""

    async def verify(self, attempt: int, token: FencingToken) -> None:
        """Compare all rows of the group: mark equal rows for this attempt, and copy differing rows again.

        `Unequal` if a row differs without a log entry: something other than a writer changed the target.
        """

    async def uncapture(self, token: FencingToken) -> None:
        """Stop the log, and delete it."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSize:
    """The size of a kept log. `is_lost`: the server has deleted a part that the target still needs."""

    bytes: int
    is_lost: bool = False


class KeptLog(Protocol):
    """The log of transactions (WAL) that the source of one move keeps until the target has read it.

    It grows while the target is away or slow, and while the move is paused. No call asks the target.
    """

    async def size(self) -> LogSize | None:
        """Return its size, None if the server keeps nothing for this move. `StoreUnavailable` if it is silent."""

    async def let_go(self, token: FencingToken) -> None:
        """Let the server delete the log. After it, the move cannot go on."""
