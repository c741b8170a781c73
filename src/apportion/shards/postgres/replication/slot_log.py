"""Slot log: the log of transactions that a source keeps for the replication slots of one move.

It has a connection of its own, so that it answers while the channel of the move waits for a server.

Promises: the target is not asked. A replication slot that the target uses is dropped too, with its process.
"""

from apportion.model.epoch import FencingToken
from apportion.shards.channel import LogSize
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.replication import source as at_source
from apportion.shards.postgres.replication.names import object_name
from apportion.shards.postgres.server import ServerPlace, ShardServer
from apportion.stores.postgres.driver import Connection


class SlotLog:
    """See `KeptLog`."""

    def __init__(self, group: MoveGroup, source: ServerPlace) -> None:
        self._group, self._server = group, ShardServer(source)
        self._name = object_name(source.set_name, group.move)

    async def size(self) -> LogSize | None:
        """See `KeptLog`."""
        return await self._server.read(lambda base: at_source.kept_log(base, self._name, self._group.move))

    async def let_go(self, token: FencingToken) -> None:
        """See `KeptLog`."""
        group = self._group

        async def _dropped(connection: Connection) -> None:
            await at_source.drop_slots(connection, self._name, group.move, group.source)

        await self._server.write(group, token, _dropped)

    async def close(self) -> None:
        """Close the connection."""
        await self._server.close()
