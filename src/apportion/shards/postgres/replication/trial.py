"""Trial: writes rows of a group to the target as its subscription does, to learn why the subscription fails.

A server tells how many errors a subscription had. The words of the errors are in its log alone, which a mover cannot
read. So the mover writes the same rows itself, and the server answers it.

Promises: nothing of the trial stays. Its errors are those of a move by a log of keys.
Refuses: to write more than `MOST_ROWS` rows of a table. The reason of an error may lie behind them.
"""

from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.mover_transaction import REPLICA
from apportion.shards.postgres.script import script
from apportion.shards.postgres.server import ShardServer
from apportion.shards.postgres.tables import ServerTable, tables_of
from apportion.shards.postgres.transport import placed, slots_of, staged
from apportion.stores.postgres.driver import Connection

MOST_ROWS = 10_000


async def tried(group: MoveGroup, source: ShardServer, target: ShardServer) -> None:
    """Write rows of each table, and roll them back. `StoreUnavailable` if the target may take them later.

    Errors are also `Unequal` for a key of another slot, and `InvalidInput` for a row that the target refuses.
    """
    for table in await target.read(tables_of):
        await _written(group, source, target, table)


async def _written(group: MoveGroup, source: ShardServer, target: ShardServer, table: ServerTable) -> None:
    async def _both(here: Connection) -> None:
        async def _write(there: Connection) -> None:
            await script(there, REPLICA)
            await staged(here, there, table, f"{slots_of(group)} LIMIT {MOST_ROWS}")
            await placed(there, group, table)

        await target.rehearse(_write)

    await source.read(_both)
