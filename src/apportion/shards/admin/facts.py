"""Facts of a set: the newest table with the weights of the records, the sizes of the slots, and the moves under way.

Also the revision of Alembic that each of its databases names, and the newest migration.

Promises: the weights come from the records, so a shard that was added and owns nothing yet is included.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

from apportion.model.assignment import Assignment
from apportion.model.topology import Node, Topology
from apportion.runtime.clock import SystemClock
from apportion.shards.migration.record import VERSION_TABLE, MigrationRecord
from apportion.shards.migration.revision import revision_of
from apportion.shards.mover.book import KnownMoves, MoveBook
from apportion.shards.mover.sites import ShardSites
from apportion.shards.place import DatabasePlace
from apportion.shards.plan import SetFacts
from apportion.shards.records import ShardRecord
from apportion.shards.router import FollowedSet, table_of
from apportion.shards.shard import SlotSize
from apportion.shards.slots import SlotTable, partition_of
from apportion.shards.takeover.takeover import within
from apportion.stores import api


async def set_facts(followed: FollowedSet, sites: ShardSites) -> SetFacts:
    """Return the facts of a followed set. `StoreUnavailable` if a shard does not answer."""
    table = table_of(followed.follower.routes)
    moves = await moves_of(followed)
    return SetFacts(
        name=followed.keys.name,
        version=table.version,
        assignment=assignment_of(table, {shard: each.node(shard) for shard, each in followed.shards.items()}),
        sizes=await sizes_of(followed, sites),
        moving={slot: move for move, slots in moves.moving.items() for slot in slots},
    )


async def moves_of(followed: FollowedSet, *, needs_list: bool = True) -> KnownMoves:
    """Return the moves of a set that are not over. `needs_list` is as in `MoveBook.read`."""
    return await MoveBook(followed.store, followed.keys.name, SystemClock()).read(needs_list=needs_list)


async def sizes_of(followed: FollowedSet, sites: ShardSites) -> dict[str, Mapping[int, SlotSize]]:
    """Return the sizes of the slots on each shard."""
    return {shard: await (await sites.shard(shard)).sizes() for shard in sorted(followed.shards)}


def assignment_of(table: SlotTable, nodes: Mapping[str, Node]) -> Assignment:
    """Return a table as an assignment to these nodes. A shard without a record gets weight 0."""
    gone = {owner for owner in table.owners.values() if owner is not None} - nodes.keys()
    topology = Topology([*nodes.values(), *(Node(shard, weight=0) for shard in sorted(gone))])
    keys = {slot: key for key, slot in table.pinned.items()}
    bounds = {} if table.ranges is None else table.ranges.bounds
    slots = sorted(table.owners)
    return Assignment(
        topology=topology,
        rows=tuple((topology.index(table.shard(slot)),) for slot in slots),
        names=tuple(partition_of(slot, keys.get(slot), bounds.get(slot)) for slot in slots),
    )


async def set_revisions(
    followed: FollowedSet, shards: Iterable[str], migration: MigrationRecord | None
) -> dict[str, str]:
    """Return the revision of each of some shards, "" for a database without one.

    `StoreUnavailable` for a silent database.
    """
    table = VERSION_TABLE if migration is None else migration.version_table
    return {shard: await asyncio.to_thread(_revision, shard, followed.shards[shard], table) for shard in sorted(shards)}


async def newest_migration(followed: FollowedSet) -> tuple[MigrationRecord | None, api.Compare]:
    """Return the record of the newest migration of a set, and the compare that holds while it is the newest."""
    return await MoveBook(followed.store, followed.keys.name, SystemClock()).migration()


async def ended_migration(followed: FollowedSet) -> tuple[MigrationRecord | None, api.Compare]:
    """Do the same. `Conflict` if the migration has not ended."""
    return await MoveBook(followed.store, followed.keys.name, SystemClock()).ended_migration()


def _revision(shard: str, record: ShardRecord, table: str) -> str:
    with DatabasePlace(record.address()).reader() as engine:
        return within(engine, shard, partial(revision_of, version_table=table))
