"""The shards of a set in PostgreSQL, and the channels between them: each is opened once, and kept."""

from collections.abc import Mapping

from apportion.errors import UnknownOption
from apportion.shards.channel import KEYS, Channel, ChannelWish
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.chosen_channel import ChosenChannel
from apportion.shards.postgres.replication.choice import ChannelChoice
from apportion.shards.postgres.replication.slot_log import SlotLog
from apportion.shards.postgres.server import ServerPlace
from apportion.shards.postgres.shard import PostgresShard
from apportion.shards.records import ShardRecord
from apportion.shards.shard import Shard


class PostgresSites:
    """The places where a mover finds the shards of a set, by the ids of the shards.

    `wish` is the wish for the channel of moves that begin.
    """

    def __init__(self, set_name: str, shards: Mapping[str, ShardRecord], wish: ChannelWish = KEYS) -> None:
        self._wish = wish
        self._places = {
            shard: ServerPlace(
                set_name=set_name,
                shard=shard,
                address=record.address(),
                timeline=record.timeline,
                replication_url=record.replication_url,
            )
            for shard, record in shards.items()
        }
        self._shards: dict[str, PostgresShard] = {}
        self._channels: dict[MoveGroup, ChosenChannel] = {}
        self._logs: dict[MoveGroup, SlotLog] = {}

    async def shard(self, shard_id: str) -> Shard:
        """Return a shard; it is opened by its first call."""
        if shard_id not in self._shards:
            self._shards[shard_id] = PostgresShard(self._place(shard_id))
        return self._shards[shard_id]

    async def channel(self, group: MoveGroup) -> Channel:
        """Return the channel of a group; its connections are opened by its first call."""
        if group not in self._channels:
            source, target = self._place(group.source), self._place(group.target)
            self._channels[group] = ChosenChannel(group, source, target, self._wish)
        return self._channels[group]

    async def kept_log(self, group: MoveGroup) -> SlotLog:
        """Return the log that the source keeps for a group; its connection is opened by its first call."""
        if group not in self._logs:
            self._logs[group] = SlotLog(group, self._place(group.source))
        return self._logs[group]

    async def choice(self, group: MoveGroup) -> ChannelChoice:
        """Return the channel that "auto" takes for a group, with the reason."""
        wish = ChannelWish(kind="auto")
        channel = ChosenChannel(group, self._place(group.source), self._place(group.target), wish)
        try:
            return await channel.choice()
        finally:
            await channel.close()

    async def close(self) -> None:
        """Close all that was opened."""
        for channel in self._channels.values():
            await channel.close()
        for log in self._logs.values():
            await log.close()
        for shard in self._shards.values():
            await shard.close()
        self._channels.clear()
        self._logs.clear()
        self._shards.clear()

    def _place(self, shard_id: str) -> ServerPlace:
        if shard_id not in self._places:
            raise UnknownOption("shard", shard_id, self._places)
        return self._places[shard_id]
