"""Fence time: the time for which the writers of a move have waited behind its fence, and the time that is left.

Promises: while a fence stands, no wait for a reply of a shard is longer than the time that is left for its writers.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apportion.errors import StoreUnavailable
from apportion.runtime.clock import Clock

FENCE_SECONDS = 0.5
"""The longest wait of writers for the last logged changes. After it, the mover opens the source again."""

SILENT_SECONDS = 15.0
"""The longest wait for a reply of a shard without a fence."""


class FenceTime:
    """The time since one mover has found the fence of a move, or has made it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    @property
    def stands(self) -> bool:
        """Whether a fence may stand, as far as this mover knows."""
        return self._since is not None

    @property
    def is_late(self) -> bool:
        """Whether the fence has stood for longer than writers should wait."""
        return self._since is not None and self._clock.elapsed() - self._since > FENCE_SECONDS

    def begin(self) -> None:
        """A fence may stand from now on."""
        self._since = self._clock.elapsed()

    def end(self) -> None:
        """Forget the fence. If it still stands, the next reading notes it again."""
        self._since = None

    def found(self, *, stands: bool) -> None:
        """Note a reading. The time of a fence counts from the first reading that has found it."""
        if not stands:
            self.end()
        elif self._since is None:
            self.begin()

    @asynccontextmanager
    async def hurry(self, shard: str, longest: float | None = SILENT_SECONDS) -> AsyncIterator[None]:
        """Limit the time for replies of a shard in the block. The limit is short while writers wait behind a fence.

        `StoreUnavailable` when the limit is over.
        """
        limit = longest
        if self._since is not None:
            limit = max(0.0, self._since + FENCE_SECONDS - self._clock.elapsed())
        try:
            async with asyncio.timeout(limit):
                yield
        except TimeoutError as error:
            raise StoreUnavailable(f"shard {shard}", f"no reply within {limit:g} s") from error
