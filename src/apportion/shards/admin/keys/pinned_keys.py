"""Pinned keys: asks the databases for rows of a key, before and while the key gets a slot of its own."""

import asyncio
from collections.abc import Sequence
from functools import partial

from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.shards.admin.carrier import Carrier
from apportion.shards.models import check_models
from apportion.shards.mover.own_slots import PinnedKey
from apportion.shards.pins.key_kinds import KeyKinds
from apportion.shards.place import DatabasePlace
from apportion.shards.slots import ShardKey, check_pinnable
from apportion.shards.takeover.takeover import tables_there, within


def check_keys(keys: Sequence[ShardKey], base: type[DeclarativeBase]) -> tuple[ShardKey, ...]:
    """Check each key to pin, and return the keys once each. A key that is too long, or cannot be routed, is refused."""
    check_models(base)
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence) or not keys:
        raise InvalidInput("keys", keys, "a list of at least one key", 'Write ["FR"], or apportion shards pin … FR')
    kinds = KeyKinds(base)
    for key in keys:
        check_pinnable(kinds.checked(key))
    return tuple(dict.fromkeys(keys))


async def pinned(carrier: Carrier, keys: Sequence[ShardKey], base: type[DeclarativeBase]) -> tuple[PinnedKey, ...]:
    """Pin one key after another, as the elected mover of the set."""

    async def _asked(shard: str, slot: int, key: bytes) -> bool:
        return await asyncio.to_thread(_has_rows, carrier, base, shard, slot, key)

    made = []
    for key in keys:
        carrier.mover.check()
        made.append(await carrier.own_slots.pin(key, _asked))
    return tuple(made)


def _has_rows(carrier: Carrier, base: type[DeclarativeBase], shard: str, slot: int, key: bytes) -> bool:
    followed = carrier.followed
    with DatabasePlace(followed.shards[shard].address()).reader() as reader:
        tables = within(reader, shard, partial(tables_there, base=base, slots=followed.record.hash_slots))
        return within(reader, shard, partial(tables.has_key, slot=slot, key=key))
