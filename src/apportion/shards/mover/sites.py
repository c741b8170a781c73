"""Sites: give a mover the shards of a set, and the channel of each group."""

from typing import Protocol

from apportion.shards.channel import Channel
from apportion.shards.move_group import MoveGroup
from apportion.shards.shard import Shard


class ShardSites(Protocol):
    """The shards of one set. Each shard is opened once, and `close` closes all of them."""

    async def shard(self, shard_id: str) -> Shard:
        """Return a shard. `StoreUnavailable` if it does not answer."""

    async def channel(self, group: MoveGroup) -> Channel:
        """Return the channel of a group. `StoreUnavailable` if one of its shards does not answer."""

    async def close(self) -> None:
        """Close all shards and channels."""
