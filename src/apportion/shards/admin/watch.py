"""Watch: a set of shards, read again and again, with the pace of its moves.

Promises: a reading waits for no count. The rows of the shards are counted once, in the background, so the first
readings lack the number of rows of each move. A silent shard costs only the facts that it alone knows.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from apportion.errors import ApportionError
from apportion.runtime.clock import SystemClock
from apportion.runtime.endings import uncancelled
from apportion.runtime.io_thread import io_thread
from apportion.shards.admin.pace import MovePace, paced
from apportion.shards.admin.status import SetStatus, ShardSizes, set_sizes, set_status


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedSet:
    """One reading: the set, and the pace of each of its moves, in the order of the moves."""

    status: SetStatus
    paces: tuple[MovePace, ...]


class SetWatch:
    """Reads a set again and again. Each reading opens the control store, and closes it at the end."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name, self._clock = url, name, SystemClock()
        self._paces: Mapping[str, MovePace] = {}
        self._sizes: Mapping[str, ShardSizes] = {}
        self._count: asyncio.Task[None] | None = None

    async def read(self) -> WatchedSet:
        """Return the set now, with the pace since the readings before. Errors are those of `admin.status`."""
        found = await io_thread().hop(self._read())
        self._paces = paced(self._paces, found.moves, self._clock.elapsed())
        return WatchedSet(status=found, paces=tuple(self._paces.values()))

    async def _read(self) -> SetStatus:
        found = await set_status(self._url, self._name, has_progress=True, counted=self._sizes)
        if found.moves and self._count is None:
            self._count = uncancelled(self._counted())
        return found

    async def _counted(self) -> None:
        try:
            self._sizes = await set_sizes(self._url, self._name)
        except ApportionError:
            self._count = None  # The next reading tells the error, or counts again.
