"""The shards of a set in SQLite files, and the channels between them. Each is opened once, and kept open."""

from collections.abc import Mapping
from pathlib import Path

from apportion.errors import UnknownOption
from apportion.shards.channel import Channel
from apportion.shards.move_group import MoveGroup
from apportion.shards.shard import Shard
from apportion.shards.sqlite.channel import SqliteChannel
from apportion.shards.sqlite.file import ShardPath
from apportion.shards.sqlite.shard import SqliteShard


class SqliteSites:
    """Gives a mover the shards of a set. `paths` maps the id of each shard to its file."""

    def __init__(self, set_name: str, paths: Mapping[str, Path]) -> None:
        self._places = {
            shard: ShardPath(set_name=set_name, shard=shard, path=Path(path)) for shard, path in paths.items()
        }
        self._shards: dict[str, SqliteShard] = {}
        self._channels: dict[MoveGroup, SqliteChannel] = {}

    async def shard(self, shard_id: str) -> Shard:
        """Return a shard. Its first call opens the file."""
        if shard_id not in self._shards:
            self._shards[shard_id] = SqliteShard(self._place(shard_id))
        return self._shards[shard_id]

    async def channel(self, group: MoveGroup) -> Channel:
        """Return the channel of a group. Its first call opens the files."""
        if group not in self._channels:
            self._channels[group] = SqliteChannel(group, self._place(group.source), self._place(group.target))
        return self._channels[group]

    async def kept_log(self, group: MoveGroup) -> None:
        """Return None: no file keeps a log for a move by replication."""

    async def close(self) -> None:
        """Close all shards and channels."""
        for channel in self._channels.values():
            await channel.close()
        for shard in self._shards.values():
            await shard.close()
        self._channels.clear()
        self._shards.clear()

    def _place(self, shard_id: str) -> ShardPath:
        if shard_id not in self._places:
            raise UnknownOption("shard", shard_id, self._places)
        return self._places[shard_id]
