"""Run over the shards of a set: makes, detaches, archives and drops partitions, one shard after another.

Promises: a shard that is silent, or has a move, is left out with the reason. An act is begun only while this process
is the elected mover.
"""

from collections.abc import Callable

from sqlalchemy.engine import make_url

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.shards.admin.carrier import check_records
from apportion.shards.admin.facts import moves_of
from apportion.shards.admin.retention.file_run import run_in_file
from apportion.shards.admin.retention.values import (
    PartitionObserved,
    PartitionTask,
    PartitionWish,
    SetPartitions,
    ShardPartitions,
)
from apportion.shards.periods.records import timed_tables
from apportion.shards.router import FollowedSet


async def run_on_set(
    followed: FollowedSet,
    wish: PartitionWish,
    told: PartitionObserved,
    token: FencingToken | None = None,
    check: Callable[[], None] = lambda: None,
) -> SetPartitions:
    """Do the work on each shard, and return the partitions of all. Without a token, only read."""
    tables, _ = await timed_tables(followed.store, followed.keys)
    if not tables:
        hint = 'Write __shard_time__ = "created_at" and __shard_period__ = "month" in a model, before init or add.'
        raise InvalidInput(f"set {followed.keys.name}", "without a table that has a time", "one with such", hint)
    moving = {} if token is None else await moving_shards(followed)
    found = []
    for shard, record in sorted(followed.shards.items()):
        if shard in moving:
            why = f"move {moving[shard]} is not over; let it end, then run shards clean --soak 0s"
            found.append(ShardPartitions(shard=shard, why=why))
            continue
        task = PartitionTask(
            followed=followed,
            shard=shard,
            record=record,
            tables=tables,
            wish=wish,
            told=told,
            check=check,
            token=token,
        )
        try:
            found.append(await _run(task))
        except StoreUnavailable as error:
            found.append(ShardPartitions(shard=shard, why=f"{error}"))
    return SetPartitions(shards=tuple(found))


async def moving_shards(followed: FollowedSet) -> dict[str, str]:
    """Return the shards with a move that is not over, or waits for `clean`, each with the move."""
    moves = await moves_of(followed)
    check_records(moves)
    groups = [kept.entry.group for _, kept in sorted(moves.kept.items())]
    return {shard: group.move for group in groups for shard in (group.source, group.target)}


async def _run(task: PartitionTask) -> ShardPartitions:
    if make_url(task.record.address()).get_backend_name() == "postgresql":
        from apportion.shards.admin.retention.server_run import run_on_server  # noqa: PLC0415 - needs the driver

        return await run_on_server(task)
    return await run_in_file(task)
