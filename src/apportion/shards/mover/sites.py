"""Sites: give a mover the shards of a set, and the channel of each group."""

from typing import Protocol

from apportion.shards.channel import Channel, KeptLog
from apportion.shards.move_group import MoveGroup
from apportion.shards.shard import Shard


class ShardSites(Protocol):
    """The shards of one set. Each shard is opened once, and `close` closes all of them."""

    async def shard(self, shard_id: str) -> Shard:
        """Return a shard. `StoreUnavailable` if it does not answer."""

    async def channel(self, group: MoveGroup) -> Channel:
        """Return the channel of a group. `StoreUnavailable` if one of its shards does not answer."""

    async def kept_log(self, group: MoveGroup) -> KeptLog | None:
        """Return the log of transactions that a server may keep for a group, None for databases that keep none."""

    async def close(self) -> None:
        """Close all shards and channels."""
