"""Recover: brings a control store that was restored from an old copy up to the state of its shards.

    read       the slot rows of every shard, and the remains that moves have left there
    close      a move that is taken back: the slot rows on its target lose their version, and accept nobody
    publish    the table of the owners, and in the same commit a record of each move to end
    end        the moves, one after another, as any mover does

The shards may be on any timeline: their rows decide, and their timelines are noted.

Promises: nothing is written before every slot has one owner. The rows are read again after the slots were closed. The
same call again resumes a call that was cut off.
Refuses: to go on without the answer of a shard, and in a store that does not know of its restore.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from apportion.errors import Conflict, InvalidInput, StoreUnavailable, StoreWentBack
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.shards.admin.carrier import Carrier, check_records
from apportion.shards.admin.remains import remains_of
from apportion.shards.admin.timelines import note_all
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.mover.book import KnownMoves
from apportion.shards.mover.records import MoveEntry, encode_moving, slot_of_pin
from apportion.shards.mover.recovery import Rows, moves_to_end, owners_in
from apportion.shards.place import DatabasePlace
from apportion.shards.router import FollowedSet, table_of
from apportion.shards.slot_rows import SlotRow
from apportion.shards.slots import SlotTable, shifted
from apportion.shards.takeover.takeover import within
from apportion.stores import api
from apportion.tables.layout import Version
from apportion.tables.publisher import Publisher

MOST_DOUBTS = 20
"""The most slots without an owner that are described. All are counted."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The result of a recovery. `version` is the version of the table after it.

    `slots` counts the slots that the old table gave to another shard, and `moves` names the moves that were ended.
    `doubts` describes the first 20 slots that nobody can place, and `doubtful` counts all of them. If there is one,
    nothing was written.
    """

    version: Version
    slots: int = 0
    moves: tuple[str, ...] = ()
    doubtful: int = 0
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The state of the shards: the slot rows, the owners that they show, and a sentence for each other slot."""

    rows: Rows
    owners: Mapping[int, str]
    doubts: tuple[str, ...]


async def recovered(carrier: Carrier, *, is_check: bool) -> Recovery:
    """Recover a set, as its elected mover. With `is_check`, only read."""
    followed, book = carrier.followed, carrier.mover.book
    moves = await book.read()
    check_records(moves)
    table = table_of(followed.follower.routes)
    found = await _found(carrier, table, moves)
    _check_life(followed.keys.name, table.version, found.rows)
    moved = sum(table.owners.get(slot) != owner for slot, owner in found.owners.items())
    told = Recovery(
        version=table.version, slots=moved, doubtful=len(found.doubts), doubts=tuple(found.doubts[:MOST_DOUBTS])
    )
    if found.doubts:
        return told
    kept = {move: each.entry for move, each in moves.kept.items()}
    remains = await remains_of({shard: followed.shards[shard] for shard in found.rows}, carrier.mover.sites)
    due = tuple(moves_to_end(found.owners, found.rows, remains, kept))
    if is_check:
        return replace(told, moves=tuple(each.group.move for each in due))
    if not (moved or due):
        await note_all(followed)
        return told
    await _close(carrier, found.rows, due)
    if (await _found(carrier, table, moves)).owners != found.owners:
        raise Conflict("a slot got another owner meanwhile.", "Nothing was published. Run the same call again.")
    version = await _published(carrier, table, found.owners, moves, due)
    await note_all(followed)
    await carrier.own_slots.settle()
    for entry in due:
        carrier.mover.check()
        await _ended(carrier, found.rows, entry)
    return replace(told, version=version, moves=tuple(each.group.move for each in due))


def _check_life(name: str, version: Version, rows: Rows) -> None:
    """Raise `StoreWentBack` if a shard has a number above the version of the table. Incoming slots do not count."""
    known = (row.number for each in rows.values() for row in each.values() if row.state != "incoming")
    newest = max((number for number in known if number is not None), default=version)
    if newest > version:
        raise StoreWentBack(f"the table of set {name}", f"version {newest}", f"version {version}")


async def _found(carrier: Carrier, table: SlotTable, moves: KnownMoves) -> _Found:
    """Read the slot rows of all shards. The slot of a pin that was cut off may have no row.

    A shard without the tables of the set was removed after the copy, or its URL leads to a wrong database. The right
    database may then own a slot that is fenced elsewhere. So a fenced slot that is incoming nowhere is a doubt.
    """
    followed = carrier.followed
    read = {shard: await asyncio.to_thread(_rows, followed, shard) for shard in sorted(followed.shards)}
    rows = {shard: each for shard, each in read.items() if each is not None}
    pins = {slot_of_pin(move) for move in moves.moving}
    owners, doubts = owners_in(rows, (slot for slot in table.owners if slot not in pins))
    for entry in (each.entry for each in moves.kept.values()):
        _leave_out(owners, table, rows, entry)
    unknown = [slot for slot in owners if slot not in table.owners]
    lost = "a pinned key, and the table has no such key"
    lost = lost if table.ranges is None else "a key or a range, and the table has none for it"
    doubts += tuple(f"slot {slot}: it belongs to {lost}" for slot in unknown)
    if left := ", ".join(read.keys() - rows.keys()):
        alone = [slot for slot, owner in owners.items() if _is_alone(slot, owner, rows)]
        doubts += tuple(f"slot {slot}: fenced on {owners[slot]}, and {left} has no table of the set" for slot in alone)
    return _Found(rows=rows, owners=owners, doubts=doubts)


def _leave_out(owners: dict[int, str], table: SlotTable, rows: Rows, entry: MoveEntry) -> None:
    """Leave out the own slot of an isolated key that no program has written to: its source is still fenced."""
    group, isolated = entry.group, entry.group.isolated
    if isolated is None or isolated.slot in table.owners or not _is_there(rows, group):
        return
    source, target = rows[group.source].get(group.slots[0]), rows[group.target].get(isolated.slot)
    if source is not None and target is not None and (source.state, target.state) == ("fenced", "incoming"):
        owners.pop(isolated.slot, None)


def _is_alone(slot: int, owner: str, rows: Rows) -> bool:
    """Whether a slot is fenced on its owner, and incoming on no other shard."""
    others = (each[slot].state for shard, each in rows.items() if shard != owner and slot in each)
    return rows[owner][slot].state == "fenced" and "incoming" not in others


def _rows(followed: FollowedSet, shard: str) -> dict[int, SlotRow] | None:
    """Return the slot rows of a shard, None if its database is no shard any more. Refuse the shard of another set."""
    database = DatabasePlace(followed.shards[shard].address())
    if not database.is_there():
        hint = "Restore the file. If the shard was removed from the set, make an empty file. Nothing was written."
        raise StoreUnavailable(f"shard {shard}", f"no file at {database.path}", hint)

    def _read(connection: Connection) -> dict[int, SlotRow] | None:
        if database.meta(connection) is None:
            return None
        database.fence.check(connection, followed.meta(shard))
        return database.slot_rows(connection)

    with database.reader() as reader:
        return within(reader, shard, _read)


def _is_there(rows: Rows, group: MoveGroup) -> bool:
    """Whether both shards of a move are still in the set."""
    return group.source in rows and group.target in rows


async def _ended(carrier: Carrier, rows: Rows, entry: MoveEntry) -> None:
    """End a move. The old rows of a shard that has left the set are gone with it."""
    book, move = carrier.mover.book, entry.group.move
    if _is_there(rows, entry.group):
        await carrier.mover.run(move, carrier.token)
    elif (kept := (await book.read()).kept.get(move)) is not None and not await book.release(kept):
        raise Conflict(f"move {move} changed while it was ended.", "Run the same call again.")


async def _close(carrier: Carrier, rows: Rows, due: Sequence[MoveEntry]) -> None:
    """Refuse older movers on both shards of each move. Slots of aborted moves lose their version on the target."""
    for group, entry in ((each.group, each) for each in due if _is_there(rows, each.group)):
        token = replace(carrier.token, resource=carrier.mover.book.keys.move(group.move))
        source, target = [await carrier.mover.sites.shard(each) for each in (group.source, group.target)]
        await source.guard(group, token)
        await target.guard(group, token)
        if entry.record.state == "aborted":
            await target.change(group.arriving, ROW_CHANGES["withdraw"], token)


async def _published(
    carrier: Carrier, table: SlotTable, owners: Mapping[int, str], moves: KnownMoves, due: Sequence[MoveEntry]
) -> Version:
    """Publish the table of the owners. The same commit writes a record of each move to end, and lists its slots."""
    followed, book = carrier.followed, carrier.mover.book
    publisher = Publisher(followed.store, followed.keys.name, incarnation=table.version.incarnation)
    value = await publisher.newest()
    if not isinstance(value, Assignment):
        raise InvalidInput("table of the set", "a table", "an assignment of slots", "Publish the set's table again.")
    for shard, record in sorted(followed.shards.items()):
        wrong = [slot for slot, owner in owners.items() if owner == shard != table.owners.get(slot)]
        value = shifted(value, wrong, record.node(shard)) if wrong else value
    pins = {move: slots for move, slots in moves.moving.items() if slot_of_pin(move) is not None}
    listed = encode_moving({**pins, **{each.group.move: each.group.listed for each in due}})
    fresh = [api.Absent(key=book.keys.move(each.group.move)) for each in due if each.group.move not in moves.kept]
    published = await publisher.publish(
        value,
        when=[book.list_compare(moves), *map(book.compare, moves.kept.values()), *fresh],
        puts=[api.Put(key=book.keys.moving, value=listed), *map(book.put, due)],
    )
    return published.version
