"""Rescue: ends the fence of slots after the death of their mover, so that writers go on.

A router that has waited too long for a switch stands for election as the mover of the set. Once it is elected, no other
mover lives. Then it settles a switch that was made, or opens the source again. It leaves the rest of the move to later
movers. It also finishes or takes back a pin that was cut off.

Promises: a live mover is not disturbed, because it stays elected.
Refuses: to copy rows, and to wait for longer than half a minute. A router that still waits begins another rescue.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from apportion.errors import InvalidInput
from apportion.groups.leader import leader
from apportion.runtime.simulated import clock_here
from apportion.shards.channel import KEYS, ChannelWish
from apportion.shards.mover.mover import Mover
from apportion.shards.mover.own_slots import OwnSlots
from apportion.shards.mover.sites import ShardSites
from apportion.shards.records import ShardRecord
from apportion.shards.shard_url import parsed
from apportion.shards.sqlite.sites import SqliteSites
from apportion.stores.catalog import opened

MOVER_TTL = timedelta(seconds=4)
"""The time for which a mover stays elected after its death."""

RESCUE_SECONDS = 30.0


async def rescued(url: str, name: str, shards: Mapping[str, ShardRecord], slots: Sequence[int]) -> None:
    """End the fence of slots, on the I/O thread. Give up after `RESCUE_SECONDS`, without an error."""
    async with opened(url) as store:
        sites = sites_of(name, shards)
        nodes = {shard: record.node(shard) for shard, record in shards.items()}
        mover = Mover(store, name, sites, nodes, clock=clock_here(), wall=time.time)
        try:
            async with asyncio.timeout(RESCUE_SECONDS), leader(url, f"{name}.mover", lease_ttl=MOVER_TTL) as election:
                token = await election.wait_until_elected()
                await OwnSlots(store, name, sites, mover.book, token).settle(slots)
                moving = (await mover.book.read()).moving
                for move in sorted(move for move, listed in moving.items() if set(slots) & set(listed)):
                    await mover.run(move, token, is_rescue=True)
                await sites.close()
        except TimeoutError:
            return
        finally:
            await sites.close()


def sites_of(name: str, shards: Mapping[str, ShardRecord], wish: ChannelWish = KEYS) -> ShardSites:
    """Return the shards of a set for a mover. `wish` is the wish for the channel of moves that begin.

    `InvalidInput` if rows cannot move between two of the databases, or if they cannot have the channel.
    """
    urls = {shard: parsed(record.address()) for shard, record in shards.items()}
    kinds = {url.get_backend_name() for url in urls.values()}
    if kinds == {"postgresql"}:
        from apportion.shards.postgres.sites import PostgresSites  # noqa: PLC0415 - needs the driver

        return PostgresSites(name, shards, wish)
    if wish.kind == "native":
        raise InvalidInput("channel", wish.kind, "keys", "Only databases of PostgreSQL replicate to each other.")
    paths = {}
    for shard, url in urls.items():
        if url.get_backend_name() != "sqlite" or not url.database:
            hint = "Rows move between files of SQLite, or between databases of PostgreSQL."
            raise InvalidInput(f"database of shard {shard}", url.get_backend_name(), "one of the set's kind", hint)
        paths[shard] = Path(url.database)
    return SqliteSites(name, paths)
