"""Addition: an empty database becomes a shard of an existing set. It owns no slot until a plan moves slots to it.

Promises: a database joins only with the tables that the other shards have, with the rows of their reference tables, and
at their revision of Alembic. None joins before the end of a migration. The same call again finishes a call that was cut
off. A database that names itself this shard of this set joins with its rows and slots. A control store from an old copy
may not know such a shard. A shard that is there gets another replication URL if one is given.
Refuses: another database with rows, a database of another shard or of another set, and an id that another database
has. All databases of a call are looked at before one of them is changed.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from sqlalchemy.orm import DeclarativeBase

from apportion.errors import Conflict, InvalidInput, StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.shards.foundation import Founded, note_timeline, untold
from apportion.shards.migration.record import VERSION_TABLE, MigrationRecord
from apportion.shards.migration.revision import share_revision
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.failover import record_of
from apportion.shards.numbers import check_given, give_stride
from apportion.shards.periods.records import note_tables
from apportion.shards.place import DatabasePlace, check_apart, one_database
from apportion.shards.postgres.partitions.first import note_first
from apportion.shards.records import SetKeys, ShardRecord
from apportion.shards.references import copy_references
from apportion.shards.router import FollowedSet, set_followed, set_left
from apportion.shards.schema import Schema, schema_of
from apportion.shards.takeover.takeover import within
from apportion.stores import api

_WITHIN_SECONDS = 5.0


async def added(
    url: str, name: str, shards: Mapping[str, ShardRecord], base: type[DeclarativeBase], *, is_strided: bool = False
) -> None:
    """Make databases shards of a set, each with the weight of its record. Return when their records are written."""
    founded = Founded.checked("", shards, base)
    check_given(shards, base, is_strided=is_strided)
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        for shard, record in founded.shards.items():
            there = followed.shards.get(shard)
            if there is not None and there.url != record.url:
                hint = "Give the new shard an id of its own."
                raise InvalidInput(f"URL of shard {shard}", record.url, f"{there.url}, as the set has it", hint)
        check_apart(url, {**followed.shards, **founded.shards})
        await note_tables(followed.store, followed.keys, base.metadata)
        migration = await MoveBook(followed.store, followed.keys.name, SystemClock()).ended_migration()
        like = await asyncio.to_thread(_tables, followed, base)
        joining = Founded(name=name, record=followed.record, shards=founded.shards, base=base, like=like)
        await asyncio.to_thread(_require_free, followed, joining)
        for shard in founded.shards:
            await _joined(followed, joining, shard, migration)
            await _reached(followed, shard, joining.shards[shard].replication_url)
        if is_strided:
            await asyncio.to_thread(give_stride, {**followed.shards, **founded.shards}, base)
    finally:
        await set_left(followed)


def _tables(followed: FollowedSet, base: type[DeclarativeBase]) -> tuple[str, Schema]:
    """Return the tables of the first shard of a set."""
    shard, record = min(followed.shards.items())
    with DatabasePlace(record.address()).reader() as reader:
        return shard, within(reader, shard, partial(schema_of, base=base))


def _require_free(followed: FollowedSet, joining: Founded) -> None:
    """Refuse one database for two shards, a database of another shard, and a database with rows."""
    joining.check_apart()
    for shard, record in joining.shards.items():
        made = joining.made_as(shard)
        if made is not None and made.set_id == joining.name and made.shard != shard:
            raise _refusal(shard, made.shard, record, is_known=made.shard in followed.shards)
        is_new = shard not in followed.shards and made != joining.meta(shard)
        if is_new and joining.has_rows(shard):
            hint = "Begin with an empty database; slots move to it with their rows."
            raise InvalidInput(f"database of shard {shard}", "one with rows", "an empty one", hint)


def _refusal(shard: str, other: str, record: ShardRecord, *, is_known: bool) -> InvalidInput:
    """Return the error for a database that names itself another shard of this set."""
    if is_known:
        return one_database(shard, DatabasePlace(record.address()).url, f"shard {other}")
    hint = f"Add it under its own id: apportion shards add URL SET {other}=URL. Nothing was written."
    return InvalidInput(f"database of shard {shard}", f"shard {other} of this set", "an empty one", hint)


async def _joined(
    followed: FollowedSet, joining: Founded, shard: str, migration: tuple[MigrationRecord | None, api.Compare]
) -> None:
    ended, same = migration
    await joining.prepare(shard, (), untold)
    first, record = min(followed.shards.items())
    if first != shard:
        await asyncio.to_thread(copy_references, (first, record), (shard, joining.shards[shard]), joining.base)
        table = VERSION_TABLE if ended is None else ended.version_table
        await asyncio.to_thread(share_revision, {first: record, shard: joining.shards[shard]}, table)
    key, value = followed.keys.shard(shard), joining.shards[shard].encode()
    if shard in followed.shards:
        await note_first(followed.store, followed.keys, shard, joining.shards[shard])
        return
    outcome = await followed.store.commit(when=[api.Absent(key=key), same], puts=[api.Put(key=key, value=value)])
    found = {item.key: item.value for item in (await followed.store.scan(key)).items}
    if found.get(key) != value:
        raise StoreUnavailable("the control store", f"it answered {outcome}")
    await note_timeline(followed.store, followed.keys, shard, joining.shards[shard])
    await note_first(followed.store, followed.keys, shard, joining.shards[shard])


async def _reached(followed: FollowedSet, shard: str, replication_url: str) -> None:
    """Write the replication URL of a shard that is there already. Without a URL, the record stays as it is."""
    if not replication_url:
        return
    kept = await record_of(followed.store, followed.keys, shard)
    if kept.record.replication_url == replication_url:
        return
    put = api.Put(key=kept.key, value=replace(kept.record, replication_url=replication_url).encode())
    same = api.Unchanged(key=kept.key, revision=kept.revision)
    outcome = await followed.store.commit(when=[same], puts=[put])
    if isinstance(outcome, api.Unknown):
        raise StoreUnavailable("the control store", outcome.reason)
    if isinstance(outcome, api.Refused):
        hint = "The URL was not written. Run the same call again."
        raise Conflict(f"the record of shard {shard} changed while its replication URL was written.", hint)
