"""Status: a set as the control store has it, the shards with their weights and numbers of slots."""

from collections import Counter
from dataclasses import dataclass

from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left, table_of
from apportion.shards.slots import SlotTable
from apportion.tables.layout import Version

_WITHIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStatus:
    """One shard: its id, its URL as the control store has it, its weight, and its number of slots."""

    id: str
    url: str
    weight: float
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatus:
    """A set: its name, the version of its table, its number of hash slots, its shards, and the table itself."""

    name: str
    version: Version
    hash_slots: int
    shards: tuple[ShardStatus, ...]
    table: SlotTable


async def set_status(url: str, name: str) -> SetStatus:
    """Return a set as the control store has it; errors are those of `open_shards`."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        table = table_of(followed.follower.routes)
    finally:
        await set_left(followed)
    counts = Counter(table.owners.values())
    shards = tuple(
        ShardStatus(id=shard, url=record.url, weight=record.weight, slots=counts[shard])
        for shard, record in sorted(followed.shards.items())
    )
    return SetStatus(name=name, version=table.version, hash_slots=table.hash_slots, shards=shards, table=table)
