"""Isolation: gives a key that has rows a slot of its own, with all its rows, while programs write.

The rows go to another shard by a move with a log of keys, or stay on their shard and change their slots in one
transaction. Other keys of the hash slot stay where they are.

Promises: the same call again finishes a call that was cut off. Until the table names the new slot, `abort` leaves the
rows where they are.
Refuses: a key without rows, and a key if the database takes other rows for its rows than a router does.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Dialect, String, Uuid
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import Conflict, InvalidInput, UnknownOption
from apportion.runtime.events import checked_observer
from apportion.shards.admin.carrier import Carrier, MoveObserved, carried
from apportion.shards.admin.keys.key_share import AskedShare, share_of
from apportion.shards.admin.keys.pinned_keys import check_keys
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.book import KnownMoves
from apportion.shards.mover.own_slots import PinnedKey
from apportion.shards.pins.isolated_key import IsolatedKey, KeyCondition
from apportion.shards.pins.key_kinds import fits
from apportion.shards.shard import check_few
from apportion.shards.slots import ShardKey, SlotTable, free_slot, shard_key_bytes
from apportion.shards.takeover.sharded_table import ShardedTable


async def isolate(
    url: str,
    name: str,
    key: ShardKey,
    *,
    base: type[DeclarativeBase],
    to: str | None = None,
    observer: MoveObserved | None = None,
) -> PinnedKey:
    """Give a key that has rows a slot of its own, with all its rows, and return the slot and its shard.

    - `to`: the shard that gets the rows, however many they are. Default: they stay on their shard, up to 5 000 rows.
    - `observer`: a function that is called with each `MoveEvent`, in the I/O thread.

    Moves that have begun are made first. Writers of the hash slot wait for a moment during the switch, as in any move.
    Then the old rows are deleted at once. Until then, reports over all shards raise `StaleRoute`.

    The same call again finishes a call that was cut off. Nothing changes for a key that has a slot of its own on the
    shard already. `InvalidInput` for a key without rows, with too many rows to stay, or with a slot of its own on
    another shard. `Conflict` if its hash slot is moving, or if another process paused or aborted the move.
    """
    (checked,) = check_keys([key], base)
    observer = checked_observer(observer, "isolate(…")
    return await carried(url, name, lambda carrier: _isolated(carrier, checked, base, to), observer)


async def _isolated(carrier: Carrier, key: ShardKey, base: type[DeclarativeBase], to: str | None) -> PinnedKey:
    followed = carrier.followed
    if to is not None and to not in followed.shards:
        raise UnknownOption("shard", to, followed.shards)
    begun = _isolations(await carrier.mover.book.read())
    await made_before(carrier)
    data = shard_key_bytes(key)
    table, _ = await carrier.mover.book.table()
    if data in table.pinned:
        return _found(table, key, to, is_new=data in begun)
    hashed = table.slot(key)
    shard = table.shard(hashed)
    asked = AskedShare(
        shard=shard,
        slot=hashed,
        conditions=lambda tables, dialect: key_conditions(tables, key, dialect),
        has=lambda each: shard_key_bytes(each) == data,
    )
    share = await share_of(carrier, base, asked)
    if not share.rows:
        hint = "Give a key without rows its slot: apportion shards pin URL SET KEY"
        raise InvalidInput("key to isolate", key, f"one with rows; slot {hashed} of shard {shard} has none of it", hint)
    if to in (None, shard):
        check_few(hashed, rows=share.rows, command="isolate URL SET KEY --to ID")
        carrier.mover.check()
        return await carrier.own_slots.take(key, share.conditions)
    slot = free_slot(table, (await carrier.mover.book.read()).taken)
    isolated = IsolatedKey(key=data, slot=slot, conditions=share.conditions)
    group = MoveGroup(move=f"key-{slot}", source=shard, target=f"{to}", slots=(hashed,), isolated=isolated)
    carrier.mover.check()
    return _found(await moved_out(carrier, group, f"key {key!r}", rows=share.rows), key, to, is_new=True)


async def made_before(carrier: Carrier) -> None:
    """Make the moves that have begun. `Conflict` if one of them has not ended."""
    made = await carrier.apply(None)
    if not made.is_whole:
        hint = "Run apportion shards apply URL SET, or abort those moves: apportion shards abort URL SET"
        raise Conflict(f"moves that began before have not ended. {made.why}".rstrip(), hint)


async def moved_out(carrier: Carrier, group: MoveGroup, name: str, *, rows: int) -> SlotTable:
    """Move the rows of a group with an isolated key, and return the table after it. `Conflict` for a move not ended."""
    await carrier.mover.begin(group)
    entry = await carrier.mover.run(group.move, carrier.token, rows=rows)
    table, _ = await carrier.mover.book.table()
    if entry is not None or group.isolated is None or not group.isolated.is_placed(table):
        said = carrier.mover.reasons.get(group.move) or "another process paused or aborted it"
        raise Conflict(f"move {group.move} of {name} has not ended: {said}.", "Run the same call again.")
    return table


def _isolations(moves: KnownMoves) -> set[bytes]:
    """Return the keys with an isolation that has begun."""
    groups = [kept.entry.group for kept in moves.kept.values()]
    return {group.isolated.key for group in groups if group.isolated is not None}


def _found(table: SlotTable, key: ShardKey, to: str | None, *, is_new: bool) -> PinnedKey:
    """Return the own slot of a key. `InvalidInput` if it is on another shard than the wanted one."""
    slot = table.slot(key)
    shard = table.shard(slot)
    if to not in (None, shard):
        hint = f"Move its slot: apportion shards plan URL SET --move {slot} --to {to}"
        raise InvalidInput("key to isolate", key, f"one without a slot of its own; it has slot {slot} on {shard}", hint)
    return PinnedKey(key=key, slot=slot, shard=shard, is_new=is_new)


def key_conditions(tables: Sequence[ShardedTable], key: ShardKey, dialect: Dialect) -> tuple[KeyCondition, ...]:
    """Return the condition of each table for the rows of a key."""
    parts = key if isinstance(key, tuple) else (key,)
    found = []
    for table in tables:
        own = [table.mapped.c[name] for name in table.key]
        if table.parent is not None:
            parent = table.parent
            found.append(
                KeyCondition(table=table.name, columns=(parent.column,), parent=parent.table, target=parent.target)
            )
        elif fits(key, [each.type for each in own]):
            values = tuple(_stored(table, each, part, dialect) for each, part in zip(own, parts, strict=True))
            found.append(KeyCondition(table=table.name, columns=table.key, values=values))
        else:
            found.append(KeyCondition(table=table.name))
    return tuple(found)


def _stored(table: ShardedTable, column: Column[Any], part: Any, dialect: Dialect) -> int | str:  # noqa: ANN401 - a key
    """Return a part of a key as the database stores it."""
    kind, value = column.type, part
    if isinstance(kind, Uuid) and kind.as_uuid and isinstance(part, str):
        value = UUID(part)
    elif isinstance(kind, Uuid | String) and isinstance(part, UUID) and not getattr(kind, "as_uuid", False):
        value = str(part)
    process = kind.dialect_impl(dialect).bind_processor(dialect)
    stored = value if process is None else process(value)
    if dialect.name == "postgresql":
        stored = f"{stored}"
    if type(stored) not in (int, str) or "\0" in f"{stored}":
        hint = "Give the table a shard key of text, integers or UUIDs."
        raise InvalidInput(f"shard key {column.name} of {table.name}", part, "one stored as text or as integer", hint)
    kept: int | str = stored
    return kept
