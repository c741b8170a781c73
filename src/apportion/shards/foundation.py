"""Founding: makes a set of shards out of databases that are empty, or that have the tables of the models without rows.

Each shard is prepared first: tables, triggers, and a row for each slot that it owns. Then the control store gets the
records, and last the table of the slots is published. So nobody routes to a shard that is not ready.

Promises: a founding that was cut off is finished by the same call again; a finished one is left as it is.
Refuses: another number of slots, other shards, and a database that is a shard of another set.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase

from apportion.balance.slots import slots as even_slots
from apportion.errors import InvalidInput, StoreUnavailable
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology
from apportion.placement.hashers import DEFAULT
from apportion.shards.dialects import address_of, fence_of
from apportion.shards.forms import sync_form
from apportion.shards.meta import ShardMeta
from apportion.shards.models import check_models, tables_of
from apportion.shards.records import FORMAT, SetKeys, SetRecord, ShardRecord
from apportion.shards.slots import DEFAULT_SLOTS, check_hash_slots
from apportion.stores import api
from apportion.stores.catalog import connect
from apportion.tables.publisher import Publisher


async def found(
    url: str, name: str, shards: Mapping[str, ShardRecord], base: type[DeclarativeBase], slots: int = DEFAULT_SLOTS
) -> None:
    """Make a set; return when its table is published. The paths of files are stored whole."""
    check_models(base)
    check_hash_slots(slots)
    keys, record = SetKeys(name), SetRecord(hash_slots=slots, hasher=DEFAULT)
    if not shards:
        raise InvalidInput("shards", dict(shards), "at least one shard", "Pass --shard ID=URL.")
    placed = {shard: _whole(each) for shard, each in shards.items()}
    table = even_slots(Topology([each.node(shard) for shard, each in placed.items()]), count=slots)
    store = await connect(url)
    try:
        await _write_records(store, keys, record, placed)
        for shard, each in placed.items():
            meta = ShardMeta(set_id=name, shard=shard, slots=slots, hasher=record.hasher, format=FORMAT)
            await asyncio.to_thread(_prepare, each.address(), base, meta, _owned(table, shard))
        await Publisher(store, name).publish(table)
    finally:
        await store.close()


def _whole(record: ShardRecord) -> ShardRecord:
    """Return a record with a URL that means the same file from every folder."""
    scheme, mark, path = record.url.partition(":///")
    if not scheme.startswith("sqlite") or not path:
        return record
    whole = quote(f"{Path(path).absolute()}", safe="/")
    return ShardRecord(url=f"{scheme}{mark}{whole}", weight=record.weight, zone=record.zone)


def _owned(table: Assignment, shard: str) -> list[int]:
    place = table.topology.index(shard)
    return [slot for slot, row in enumerate(table.rows) if row == (place,)]


async def _write_records(
    store: api.CoordinationStore, keys: SetKeys, record: SetRecord, shards: Mapping[str, ShardRecord]
) -> None:
    """Write the records of a set, or compare them with those that are there."""
    wanted = {keys.set: record.encode(), **{keys.shard(shard): each.encode() for shard, each in shards.items()}}
    outcome = await store.commit(
        when=[api.Absent(key=key) for key in wanted],
        puts=[api.Put(key=key, value=value) for key, value in wanted.items()],
    )
    found = {item.key: item.value for item in (await store.scan(keys.prefix)).items}
    if found == wanted:
        return
    if not found:
        raise StoreUnavailable("the control store", f"it answered {outcome}")
    there = sorted(shard for key in found if (shard := keys.shard_of(key)))
    hint = "Take another name, or go on with: apportion shards status URL SET"
    raise InvalidInput(f"set {keys.name}", f"there already, with shards {there}", "a set that is not there", hint)


def _prepare(address: str, base: type[DeclarativeBase], meta: ShardMeta, slots: Sequence[int]) -> None:
    """Make the tables, the triggers and the rows of the slots in one database; all or nothing."""
    url = address_of(address, sync_form.drivers)
    fence = fence_of(url)
    engine = create_engine(url)
    fence.prepare(engine)
    try:
        with engine.begin() as connection:
            base.metadata.create_all(connection)
            fence.found(connection, meta, tables_of(base), slots)
    finally:
        engine.dispose()
