"""Facts of a set: the newest table with the weights of the records, the sizes of the slots, and the moves under way.

Promises: the weights come from the records, so a shard that was added and owns nothing yet is included.
"""

from collections.abc import Mapping

from apportion.model.assignment import Assignment
from apportion.model.topology import Node, Topology
from apportion.runtime.clock import SystemClock
from apportion.shards.mover.book import KnownMoves, MoveBook
from apportion.shards.mover.sites import ShardSites
from apportion.shards.plan import SetFacts
from apportion.shards.router import FollowedSet, table_of
from apportion.shards.shard import SlotSize
from apportion.shards.slots import SlotTable, partition_of


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
    slots = sorted(table.owners)
    return Assignment(
        topology=topology,
        rows=tuple((topology.index(table.shard(slot)),) for slot in slots),
        names=tuple(partition_of(slot, keys.get(slot)) for slot in slots),
    )
