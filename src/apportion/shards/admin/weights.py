"""Weights of a set: one commit writes all of them into the records of the shards, and compares the records."""

from collections.abc import Mapping
from dataclasses import replace

from apportion.errors import Conflict, StoreUnavailable
from apportion.shards.records import ShardRecord, read_record
from apportion.shards.router import FollowedSet
from apportion.stores import api


async def set_weights(followed: FollowedSet, weights: Mapping[str, float]) -> None:
    """Write other weights of shards.

    `Conflict` if another process changed a record meanwhile; then nothing is written.
    """
    keys = followed.keys
    found = {item.key: item for item in (await followed.store.scan(keys.shard(""))).items}
    when: list[api.Compare] = []
    puts: list[api.Put] = []
    for shard, weight in sorted(weights.items()):
        item = found.get(keys.shard(shard))
        record = None if item is None else read_record(item.key, item.value, ShardRecord.decode)
        if item is None or record is None or record.weight == weight:
            continue
        when.append(api.Unchanged(key=item.key, revision=item.revision))
        puts.append(api.Put(key=item.key, value=replace(record, weight=weight).encode()))
    outcome = await followed.store.commit(when=when, puts=puts) if puts else None
    if isinstance(outcome, api.Unknown):
        raise StoreUnavailable("the control store", outcome.reason)
    if isinstance(outcome, api.Refused):
        hint = "Nothing was moved. Check the status of the set, and apply the plan again."
        raise Conflict("the records of the shards changed while the weights were written.", hint)
