"""Chosen channel: the channel of a move group, native or by a log of keys.

The source knows the channel of a move that has begun to capture. Before that, the wish of the caller decides, together
with the facts of both servers. So after a kill, the next mover goes on with the same channel. A way back always has a
log of keys. So has an isolated key: replication would look for the former slot of a row, and change nothing.
"""

from apportion.errors import InvalidInput
from apportion.model.epoch import FencingToken
from apportion.shards.channel import Channel, ChannelState, ChannelWish
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.channel import PostgresChannel
from apportion.shards.postgres.replication.channel import NativeChannel
from apportion.shards.postgres.replication.choice import ChannelChoice, chosen
from apportion.shards.postgres.server import ServerPlace


class ChosenChannel:
    """See `Channel`."""

    def __init__(self, group: MoveGroup, source: ServerPlace, target: ServerPlace, wish: ChannelWish) -> None:
        self._group, self._wish = group, wish
        self._native, self._keys = NativeChannel(group, source, target), PostgresChannel(group, source, target)
        self._begun: Channel | None = None

    async def choice(self) -> ChannelChoice:
        """Return the channel that a move would begin with, and the reason."""
        return chosen(self._wish.kind, await self._native.obstacle(self._wish), await self._native.warning())

    async def check(self, size: int, /) -> None:
        """See `Channel`. `InvalidInput` if a native channel was asked for, and is impossible."""
        await (await self._chosen()).check(size)

    async def state(self, attempt: int) -> ChannelState:
        """See `Channel`."""
        return await (await self._current()).state(attempt)

    async def capture(self, token: FencingToken) -> None:
        """See `Channel`. From then on, the channel of the move is settled."""
        if await self._found() is None:
            await (await self._chosen()).capture(token)
        else:
            await (await self._current()).capture(token)

    async def copy(self, token: FencingToken) -> None:
        """See `Channel`."""
        await (await self._current()).copy(token)

    async def apply(self, token: FencingToken) -> None:
        """See `Channel`."""
        await (await self._current()).apply(token)

    async def verify(self, attempt: int, token: FencingToken) -> None:
        """See `Channel`."""
        await (await self._current()).verify(attempt, token)

    async def uncapture(self, token: FencingToken) -> None:
        """See `Channel`."""
        await (await self._current()).uncapture(token)

    async def close(self) -> None:
        """See `Channel`."""
        await self._native.close()
        await self._keys.close()

    async def _current(self) -> Channel:
        """Return the channel that has begun. Until then, return the log of keys, which reports no capture."""
        return await self._found() or self._keys

    async def _found(self) -> Channel | None:
        if self._begun is None and await self._keys.has_begun():
            self._begun = self._keys
        if self._begun is None and await self._native.has_begun():
            self._begun = self._native
        return self._begun

    async def _chosen(self) -> Channel:
        is_isolated = self._group.isolated is not None
        if self._wish.kind == "keys" or is_isolated or await self._native.is_way_back():
            return self._keys
        choice = await self.choice()
        if self._wish.kind == "native" and choice.kind != "native":
            subject = f"native channel from shard {self._group.source} to {self._group.target}"
            hint = f"The reason: {choice.reason}. Remove this obstacle, or ask for the log of keys: --channel keys"
            raise InvalidInput(subject, "impossible", "servers that replicate", hint)
        return self._native if choice.kind == "native" else self._keys
