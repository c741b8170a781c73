"""Places: the shards of a set, opened for a mover until the end of a block."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from apportion.shards.channel import KEYS, ChannelWish
from apportion.shards.mover.rescue import sites_of
from apportion.shards.mover.sites import ShardSites
from apportion.shards.records import ShardRecord


@asynccontextmanager
async def open_sites(
    name: str, shards: Mapping[str, ShardRecord], wish: ChannelWish = KEYS, *, is_reader: bool = True
) -> AsyncIterator[ShardSites]:
    """Open the shards of a set, and close them at the end. `InvalidInput` for a database that cannot move rows yet.

    A reader accepts the servers on any timeline. A mover gets `StoreWentBack` for another timeline than the noted one.
    """
    known = {shard: replace(record, timeline=None) for shard, record in shards.items()} if is_reader else shards
    sites = sites_of(name, known, wish)
    try:
        yield sites
    finally:
        await sites.close()
