"""First partitions: notes those of a database that has just become a shard, in the control store."""

import time
from dataclasses import replace

from apportion.shards.periods.records import note_partitions, timed_tables
from apportion.shards.records import SetKeys, ShardRecord
from apportion.stores import api


async def note_first(store: api.CoordinationStore, keys: SetKeys, shard: str, record: ShardRecord) -> None:
    """Note the partitions of a shard. A set without timed tables has none, nor has a file."""
    tables, _ = await timed_tables(store, keys)
    if not tables or not record.url.startswith("postgresql"):
        return
    from apportion.shards.postgres.partitions.server import PartitionServer  # noqa: PLC0415 - needs the driver
    from apportion.shards.postgres.server import ServerPlace  # noqa: PLC0415 - the same

    server = PartitionServer(ServerPlace(set_name=keys.name, shard=shard, address=record.address()))
    try:
        layouts = [await server.layout(each) for each in tables.values()]
    finally:
        await server.close()
    now = int(time.time())
    await note_partitions(
        store, keys, shard, [replace(each, made=now) for found in layouts for each in found.partitions]
    )
