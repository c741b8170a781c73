"""Split: divides the range of a slot at a key. The keys from there on get a slot of their own, while programs write.

Their rows go to another shard by a move with a log of keys, or stay on their shard and change their slots in one
transaction. The keys before that one keep their slot, and their rows are not touched.

Promises: the same call again finishes a call that was cut off. Until the table names the new slot, `abort` leaves the
rows where they are.
Refuses: sets by hash, a bound outside of the range, and more than 5 000 rows that would stay.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection, Dialect
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import BadRange, UnknownOption
from apportion.runtime.events import checked_observer
from apportion.shards.admin.carrier import Carrier, MoveObserved, carried
from apportion.shards.admin.keys.isolation import made_before, moved_out
from apportion.shards.admin.keys.key_order import check_at, check_encoding
from apportion.shards.admin.keys.key_share import AskedShare, share_of
from apportion.shards.models import check_models
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.own_slots import RangeSlot
from apportion.shards.pins.isolated_key import IsolatedKey, KeyCondition
from apportion.shards.place import DatabasePlace
from apportion.shards.ranges.range_map import Bound
from apportion.shards.shard import check_few
from apportion.shards.slots import ShardKey, SlotTable, checked_ranges, free_slot, shard_key_bytes
from apportion.shards.takeover.sharded_table import ShardedTable
from apportion.shards.takeover.takeover import within

_OWN = -1
"""Stands for the new slot, before it has a number."""


async def split(
    url: str,
    name: str,
    slot: int,
    at: Bound,
    *,
    base: type[DeclarativeBase],
    to: str | None = None,
    observer: MoveObserved | None = None,
) -> RangeSlot:
    """Divide the range of a slot at a key. Return the new slot, with the keys from `at` on, and its shard.

    - `at`: the first key of the new slot.
    - `to`: the shard that gets the rows, however many they are. Default: they stay on their shard, up to 5 000 rows.
    - `observer`: a function that is called with each `MoveEvent`, in the I/O thread.

    Moves that have begun are made first. Writers of the slot wait for a moment during the switch, as in any move. Then
    the old rows are deleted at once. Until then, reports over all shards raise `StaleRoute`.

    The same call again finishes a call that was cut off. Nothing changes if the slot ends at `at` already. `BadRange`
    for another bound of a range, a bound outside of the range, and an unknown slot. `InvalidInput` for a set by hash,
    and for too many rows to stay. `Conflict` if the slot is moving, or if another process paused or aborted the move.
    """
    check_models(base)
    checked = check_at(base, at)
    observer = checked_observer(observer, "split(…")
    return await carried(url, name, lambda carrier: _split(carrier, slot, checked, base, to), observer)


async def _split(carrier: Carrier, slot: int, at: Bound, base: type[DeclarativeBase], to: str | None) -> RangeSlot:
    book, shards = carrier.mover.book, carrier.followed.shards
    if to is not None and to not in shards:
        raise UnknownOption("shard", to, shards)
    checked_ranges((await book.table())[0].ranges)
    await made_before(carrier)
    table, _ = await book.table()
    ranges = checked_ranges(table.ranges)
    if ranges.checked(slot).end == at:
        return _found(table, table.slot(at), to, is_new=False)
    ranges.checked_split(slot, at)
    shard = table.shard(slot)
    for each in {shard, to or shard}:
        await asyncio.to_thread(_check_place, carrier, each)
    divided = ranges.split(slot, at, _OWN)

    def _is_from(key: ShardKey) -> bool:
        return divided.slot(key, shard_key_bytes(key)) == _OWN

    asked = AskedShare(shard=shard, slot=slot, conditions=partial(_conditions, at=at), has=_is_from)
    share = await share_of(carrier, base, asked)
    own = free_slot(table, (await book.read()).taken)
    isolated = IsolatedKey(key=b"", slot=own, conditions=share.conditions, at=at)
    if to in (None, shard):
        check_few(slot, rows=share.rows, command=isolated.command)
        carrier.mover.check()
        return await carrier.own_slots.split(slot, at, share.conditions)
    group = MoveGroup(move=f"range-{own}", source=shard, target=f"{to}", slots=(slot,), isolated=isolated)
    carrier.mover.check()
    return _found(await moved_out(carrier, group, f"slot {slot}", rows=share.rows), own, to, is_new=True)


def _found(table: SlotTable, slot: int, to: str | None, *, is_new: bool) -> RangeSlot:
    """Return the new slot. `InvalidInput` if it is on another shard than the wanted one."""
    found = RangeSlot.of(table, slot, is_new=is_new)
    if to not in (None, found.shard):
        hint = f"Move the slot: apportion shards plan URL SET --move {slot} --to {to}"
        expected = f"a key at which no slot begins; slot {slot} on {found.shard} does"
        raise BadRange("boundary of the split", found.start, expected, hint)
    return found


def _conditions(tables: Sequence[ShardedTable], _: Dialect, at: Bound) -> tuple[KeyCondition, ...]:
    """Return the condition of each table for the rows with keys from a bound on."""
    found = []
    for table in tables:
        if (parent := table.parent) is not None:
            condition = KeyCondition(
                table=table.name, columns=(parent.column,), parent=parent.table, target=parent.target, is_from=True
            )
        else:
            condition = KeyCondition(table=table.name, columns=table.key, values=(at,), is_from=True)
        found.append(condition)
    return tuple(found)


def _check_place(carrier: Carrier, shard: str) -> None:
    def _check(connection: Connection) -> None:
        check_encoding(connection, shard)

    with DatabasePlace(carrier.followed.shards[shard].address()).reader() as reader:
        within(reader, shard, _check)
