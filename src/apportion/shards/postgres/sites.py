"""The shards of a set in PostgreSQL, and the channels between them: each is opened once, and kept."""

from collections.abc import Mapping

from apportion.errors import UnknownOption
from apportion.shards.channel import Channel
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.channel import PostgresChannel
from apportion.shards.postgres.server import ServerPlace
from apportion.shards.postgres.shard import PostgresShard
from apportion.shards.shard import Shard


class PostgresSites:
    """The places where a mover finds the shards of a set; `addresses` are the URLs by the ids of the shards."""

    def __init__(self, set_name: str, addresses: Mapping[str, str]) -> None:
        self._places = {
            shard: ServerPlace(set_name=set_name, shard=shard, address=address) for shard, address in addresses.items()
        }
        self._shards: dict[str, PostgresShard] = {}
        self._channels: dict[MoveGroup, PostgresChannel] = {}

    async def shard(self, shard_id: str) -> Shard:
        """Return a shard; it is opened by its first call."""
        if shard_id not in self._shards:
            self._shards[shard_id] = PostgresShard(self._place(shard_id))
        return self._shards[shard_id]

    async def channel(self, group: MoveGroup) -> Channel:
        """Return the channel of a group; its connections are opened by its first call."""
        if group not in self._channels:
            self._channels[group] = PostgresChannel(group, self._place(group.source), self._place(group.target))
        return self._channels[group]

    async def close(self) -> None:
        """Close all that was opened."""
        for channel in self._channels.values():
            await channel.close()
        for shard in self._shards.values():
            await shard.close()
        self._channels.clear()
        self._shards.clear()

    def _place(self, shard_id: str) -> ServerPlace:
        if shard_id not in self._places:
            raise UnknownOption("shard", shard_id, self._places)
        return self._places[shard_id]
