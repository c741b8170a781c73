"""Timelines of a set: compares the servers of all shards with their records before a command writes to them.

A new timeline without objections is noted, as a session notes it. A server that is silent, or on a timeline that nobody
has accepted, is left alone: the acts that need it raise.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from apportion.errors import ApportionError
from apportion.shards.mover.failover import admitted, record_of
from apportion.shards.place import DatabasePlace
from apportion.shards.records import ShardRecord
from apportion.shards.router import FollowedSet
from apportion.shards.slot_rows import SlotRow
from apportion.shards.timeline.timeline import Timeline


async def noticed(followed: FollowedSet, trusts: Callable[[str], bool]) -> None:
    """Bring the timelines in the known records of a set up to date. `trusts` picks shards that may be on any timeline.

    The timeline of a trusted shard is not noted in the control store.
    """
    await asyncio.gather(*(_noticed(followed, shard, trusts) for shard in sorted(followed.shards)))


async def _noticed(followed: FollowedSet, shard: str, trusts: Callable[[str], bool]) -> None:
    record = followed.shards[shard]
    try:
        seen = await state_of_server(followed.keys.name, shard, record)
        if seen is None:
            return
        found, rows = seen
        if trusts(shard):
            followed.shards[shard] = replace(record, timeline=found)
        elif not found.is_part_of(record.timeline):
            followed.shards[shard] = await admitted(followed.store, (followed.keys.name, shard), found, rows)
    except ApportionError:
        return  # The acts that need this shard raise the error again.


async def state_of_server(name: str, shard: str, record: ShardRecord) -> tuple[Timeline, Mapping[int, SlotRow]] | None:
    """Return the timeline and the slot rows of a shard's server. Return None for a file, which has no timeline."""
    if DatabasePlace(record.address()).url.get_backend_name() != "postgresql":
        return None
    from apportion.shards.postgres.server import ServerPlace  # noqa: PLC0415 - needs the driver
    from apportion.shards.postgres.shard import server_state  # noqa: PLC0415 - needs the driver

    return await server_state(ServerPlace(set_name=name, shard=shard, address=record.address()))


async def note_all(followed: FollowedSet) -> None:
    """Write the timeline of each known record into the control store, if the store has another one."""
    for shard, record in sorted(followed.shards.items()):
        kept = await record_of(followed.store, followed.keys, shard)
        if record.timeline is not None and kept.record.timeline != record.timeline:
            await kept.note(followed.store, record.timeline)
