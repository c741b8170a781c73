"""Copy rate: keeps the copy of rows below a number of bytes per second, so that writers keep the disk and the network.

A bucket holds the bytes that may be copied at once, at most those of one second. A chunk may leave it in debt. Then no
chunk is copied until the debt is paid.

Promises: a wait lasts a quarter of a second at most. Then the mover reads the wish of the operator, and calls again.
Refuses: to delay logged changes. They have to reach the target before a switch.
"""

import asyncio

from apportion.model.epoch import FencingToken
from apportion.runtime.clock import Clock
from apportion.shards.channel import Channel
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.sites import ShardSites
from apportion.shards.shard import SlotSize

_LONGEST_WAIT_SECONDS = 0.25


class ByteBucket:
    """The bytes that may be copied now. Pure: the elapsed time is an argument.

    >>> bucket = ByteBucket(100.0, 0.0)
    >>> bucket.take(250.0, 0.0)
    >>> bucket.wait_seconds(0.0), bucket.wait_seconds(1.0), bucket.wait_seconds(9.0)
    (1.5, 0.5, 0.0)
    """

    def __init__(self, bytes_per_second: float, now: float) -> None:
        self._rate, self._left, self._at = bytes_per_second, bytes_per_second, now

    def take(self, size: float, now: float) -> None:
        """Take bytes out, even more than are left: the rest is a debt."""
        self._left, self._at = self._filled(now) - size, now

    def wait_seconds(self, now: float) -> float:
        """Return the time until the debt is paid, 0 without a debt."""
        return max(0.0, -self._filled(now) / self._rate)

    def _filled(self, now: float) -> float:
        return min(self._rate, self._left + (now - self._at) * self._rate)


class CopyRate:
    """Copies the chunks of the moves of one call at a rate. The size of a row is the mean of its group."""

    def __init__(self, bytes_per_second: float, sites: ShardSites, clock: Clock) -> None:
        self._bucket, self._sites, self._clock = ByteBucket(bytes_per_second, clock.elapsed()), sites, clock
        self._row_bytes: dict[str, float] = {}

    async def copy(self, channel: Channel, entry: MoveEntry, token: FencingToken) -> None:
        """Copy the next chunk, or wait for a moment and copy nothing."""
        left = self._bucket.wait_seconds(self._clock.elapsed())
        if left > 0:
            await asyncio.sleep(min(left, _LONGEST_WAIT_SECONDS))
            return
        row_bytes, attempt = await self._mean(entry), entry.record.attempt
        before = (await channel.state(attempt)).copied
        await channel.copy(token)
        rows = (await channel.state(attempt)).copied - before
        self._bucket.take(max(0, rows) * row_bytes, self._clock.elapsed())

    async def _mean(self, entry: MoveEntry) -> float:
        """Return the mean bytes of a row of a group. It is read once: O(rows of the source)."""
        group = entry.group
        if group.move not in self._row_bytes:
            sizes = await (await self._sites.shard(group.source)).sizes()
            found = [sizes.get(slot, SlotSize(rows=0, bytes=0)) for slot in group.slots]
            self._row_bytes[group.move] = sum(each.bytes for each in found) / max(1, sum(each.rows for each in found))
        return self._row_bytes[group.move]
