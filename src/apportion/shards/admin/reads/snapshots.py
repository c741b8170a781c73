"""Snapshots: a transaction on each shard of a set that only reads, and the slots for which the shard answers in it."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, create_engine

from apportion.shards.dialects import address_of, fence_of
from apportion.shards.forms import sync_form
from apportion.shards.pin import Fence
from apportion.shards.router import FollowedSet
from apportion.shards.slot_rows import owners_of
from apportion.shards.slots import SlotTable
from apportion.shards.takeover.takeover import reached


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The transaction of one shard, and the slots for which the shard answers."""

    connection: Connection
    fence: Fence
    owned: frozenset[int]


def begun_snapshots(stack: ExitStack, table: SlotTable, followed: FollowedSet) -> Mapping[str, Snapshot] | None:
    """Begin a transaction on every shard. Return None while a slot has no shard that answers for it, or two.

    `stack` ends the transactions. A database that is not the shard of the set is refused.
    """
    begun = {shard: reached(shard, partial(_connected, stack, followed, shard)) for shard in followed.shards}
    states = {shard: fence.states(connection) for shard, (connection, fence) in begun.items()}
    owners = owners_of(states, table.owners)
    if None in owners.values() or owners.keys() != table.owners.keys():
        return None
    return {
        shard: Snapshot(
            connection=connection,
            fence=fence,
            owned=frozenset(slot for slot, owner in owners.items() if owner == shard),
        )
        for shard, (connection, fence) in begun.items()
    }


def _connected(stack: ExitStack, followed: FollowedSet, shard: str) -> tuple[Connection, Fence]:
    url = address_of(followed.shards[shard].address(), sync_form.drivers)
    engine, fence = create_engine(url), fence_of(url)
    stack.callback(engine.dispose)
    fence.prepare(engine)
    connection = stack.enter_context(engine.connect()).execution_options(**fence.snapshot)
    connection.begin()
    fence.check(connection, followed.meta(shard))
    return connection, fence
