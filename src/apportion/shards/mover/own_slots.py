"""Own slots: gives a key a slot of its own, on the shard of its hash slot: a key without rows, or with a few rows.

    publish    the table names the new slot; in the same commit, both slots go on the list of moving slots
    raise      the row of the hash slot gets the number of that version: routers with an older table are refused there
    look       the hash slot must still have no row of the key; if it has one, a table without the new slot is published
    own        the shard gets the row of the new slot, and accepts the key
    unlist     both slots may move again

Each of these steps except `look` has two stop points. The step `take-back` also has two. It ends a pin and its listing
in one commit.

The table is published first. So the table shows a pin that was cut off, and only the writers of this key wait. The next
mover reads the row of the new slot. If there is a row, the pin is done. If there is none, nobody has written to the
slot, and the pin is taken back.

The few rows of a key, or of a part of a range, get their slot in the step `own`, which then raises the number of the
former slot too.

A merge is the way back. In the step `join`, the rows of a slot get the slot of the range before it, and the row of
their slot is deleted. Then the table without the slot is published, by `take-back`, as for a pin without a row.

Promises: no row of the key is left in its hash slot. After a newer mover, an older one changes nothing.
Refuses: keys with rows, because rows keep their slots, and keys of hash slots that are moving.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from apportion.errors import Conflict, InvalidInput
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup, RowChange
from apportion.shards.mover.book import KnownMoves, MoveBook
from apportion.shards.mover.records import name_of_pin, slot_of_pin
from apportion.shards.mover.sites import ShardSites
from apportion.shards.mover.stop_points import Reached, passed
from apportion.shards.pins.isolated_key import IsolatedKey, KeyCondition
from apportion.shards.ranges.range_map import Bound
from apportion.shards.slot_rows import SlotRow
from apportion.shards.slots import (
    ShardKey,
    SlotTable,
    check_pinnable,
    checked_ranges,
    free_slot,
    partition_of,
    with_own_slot,
    with_part,
    without_own_slot,
)
from apportion.stores.api import CoordinationStore
from apportion.tables.layout import Version
from apportion.tables.publisher import Publisher

HasRows: TypeAlias = Callable[[str, int, bytes], Awaitable[bool]]
"""Whether a slot of a shard has rows of a key. The arguments are shard, slot, and bytes of the key."""

OwnSlot: TypeAlias = Callable[[MoveGroup, int, Version], Awaitable[None]]
"""Makes the own slot of a key on its shard. The arguments are the group of the hash slot, the slot, and its number."""

CheckSlot: TypeAlias = Callable[[str, int], Awaitable[None]]
"""Raises an error for a key that cannot be pinned. The arguments are the shard and the hash slot."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedKey:
    """A key with a slot of its own, and its shard. `is_new` is False if the key had the slot before."""

    key: ShardKey
    slot: int
    shard: str
    is_new: bool


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSlot:
    """A slot, its range, and its shard. `is_new` is False if the slot had the range before.

    `start` and `end` are None where the range has no bound.
    """

    slot: int
    start: Bound | None
    end: Bound | None
    shard: str
    is_new: bool = True

    @classmethod
    def of(cls, table: SlotTable, slot: int, *, is_new: bool) -> "RangeSlot":
        """Return a slot of a table by ranges."""
        bounds = checked_ranges(table.ranges).checked(slot)
        return cls(slot=slot, start=bounds.start, end=bounds.end, shard=table.shard(slot), is_new=is_new)


class OwnSlots:
    """Gives and settles the slots of pinned keys in one set, for its elected mover."""

    def __init__(
        self,
        store: CoordinationStore,
        name: str,
        sites: ShardSites,
        book: MoveBook,
        token: FencingToken,
        *,
        reached: Reached = passed,
    ) -> None:
        self._store, self._name, self._sites, self._book, self._token = store, name, sites, book, token
        self._reached = reached

    async def take(self, key: ShardKey, conditions: tuple[KeyCondition, ...]) -> PinnedKey:
        """Give a key its own slot with its rows, on their shard. Errors are those of `pin`.

        `InvalidInput` for more than `MOST_IN_PLACE` rows. The rows, their slot and the number of the hash slot change
        in one transaction. So the row of the slot tells whether a call that was cut off has moved the rows.
        """
        data = check_pinnable(key)

        async def _taken(group: MoveGroup, slot: int, number: Version) -> None:
            await self._take(group, IsolatedKey(key=data, slot=slot, conditions=conditions), number)

        return await self._pinned(key, _taken)

    async def split(self, slot: int, at: Bound, conditions: tuple[KeyCondition, ...]) -> RangeSlot:
        """Give the keys of a slot from a bound on a slot of their own with their rows, on their shard.

        `BadRange` for a bound that does not divide the range of the slot. Other errors are those of `take`.
        """
        publisher, value, table, moves = await self._read()
        own, shard = free_slot(table, moves.taken), table.shard(slot)
        changed = with_part(value, slot, at, own, shard)
        _check_still(moves, slot, f"range {checked_ranges(table.ranges).bounds[slot]}")
        group = MoveGroup(move=name_of_pin(own), source=shard, target=shard, slots=(slot,))
        number = await self._publish(publisher, moves, group, own, changed)
        await self._take(group, IsolatedKey(key=b"", slot=own, conditions=conditions, at=at), number)
        await self._unlist(group)
        return RangeSlot.of((await self._book.table())[0], own, is_new=True)

    async def merge(self, slot: int, other: int) -> RangeSlot:
        """Give the rows of two neighbours the slot of the first range, on their shard. Return that slot.

        `BadRange` for slots that are no neighbours. `InvalidInput` for slots on two shards, or too many rows to change.
        `Conflict` while one of the slots moves.
        """
        _, _, table, moves = await self._read()
        kept, gone = checked_ranges(table.ranges).neighbours(slot, other)
        shard = table.shard(kept)
        if table.shard(gone) != shard:
            hint = f"Move one of them first: apportion shards plan URL SET --move {gone} --to {shard}"
            raise InvalidInput("shard of the slot to merge", table.shard(gone), f"{shard}, that of slot {kept}", hint)
        for each in (kept, gone):
            _check_still(moves, each, f"range {checked_ranges(table.ranges).bounds[each]}")
        group = MoveGroup(move=name_of_pin(gone), source=shard, target=shard, slots=(min(kept, gone), max(kept, gone)))
        with self._step("list"):
            await self._book.enlist(moves, group.move, group.slots)
        try:
            with self._step("join"):
                change = RowChange(before=("owner",), after="owner", keeps_number=True, joins=gone)
                await (await self._sites.shard(shard)).change(group, change, self._token)
        except InvalidInput:
            await self._settle(gone)
            raise
        await self._settle(gone)
        table = (await self._book.table())[0]
        if gone in table.owners:
            raise _unowned(gone, shard)
        return RangeSlot.of(table, kept, is_new=True)

    async def pin(self, key: ShardKey, has_rows: HasRows) -> PinnedKey:
        """Give a key its own slot. `InvalidInput` for a key with rows, `Conflict` while its hash slot moves."""
        data = check_pinnable(key)

        async def _check(shard: str, hashed: int) -> None:
            if await has_rows(shard, hashed, data):
                raise _refusal(key, hashed, shard)

        async def _owned(group: MoveGroup, slot: int, number: Version) -> None:
            shard, hashed = group.source, group.slots[0]
            is_raised = await self._raised(group, number)
            if not is_raised or await has_rows(shard, hashed, data):
                await self._settle(slot)
                raise _refusal(key, hashed, shard) if is_raised else _unowned(hashed, shard)
            change = RowChange(before=(None, "moved"), after="owner", number=number)
            with self._step("own"):
                await (await self._sites.shard(shard)).change(replace(group, slots=(slot,)), change, self._token)

        return await self._pinned(key, _owned, _check)

    async def _pinned(self, key: ShardKey, own: OwnSlot, check: CheckSlot | None = None) -> PinnedKey:
        """Publish the own slot of a key, let `own` make it on the shard, and free both slots."""
        data = check_pinnable(key)
        publisher, value, table, moves = await self._read()
        hashed = table.slot(key)
        shard = table.shard(hashed)
        if data in table.pinned:
            return PinnedKey(key=key, slot=hashed, shard=shard, is_new=False)
        _check_still(moves, hashed, f"key {key!r}")
        if check is not None:
            await check(shard, hashed)
        slot = free_slot(table, moves.taken)
        group = MoveGroup(move=name_of_pin(slot), source=shard, target=shard, slots=(hashed,))
        number = await self._publish(publisher, moves, group, slot, with_own_slot(value, slot, data, shard))
        await own(group, slot, number)
        await self._unlist(group)
        return PinnedKey(key=key, slot=slot, shard=shard, is_new=True)

    async def _publish(
        self, publisher: Publisher, moves: KnownMoves, group: MoveGroup, slot: int, value: Assignment
    ) -> Version:
        """Publish the table with an own slot. The same commit lists that slot and the former one."""
        when, put = self._book.listing(moves, group.move, (*group.slots, slot))
        with self._step("publish"):
            return (await publisher.publish(value, when=[when], puts=[put])).version

    async def _take(self, group: MoveGroup, isolated: IsolatedKey, number: Version) -> None:
        """Give rows their own slot on their shard. If that is refused, the table without the slot is published."""
        slot, shard = isolated.slot, await self._sites.shard(group.source)
        change = RowChange(before=("owner",), after="owner", number=number, takes=True)
        try:
            with self._step("own"):
                await shard.change(replace(group, isolated=isolated), change, self._token)
        except InvalidInput:
            await self._settle(slot)
            raise
        if not _is_made((await shard.rows(replace(group, slots=(slot,))))[0]):
            await self._settle(slot)
            raise _unowned(group.slots[0], group.source)

    async def _unlist(self, group: MoveGroup) -> None:
        with self._step("unlist"):
            await self._book.unlist(group.move)

    async def settle(self, slots: Sequence[int] | None = None) -> None:
        """Finish or take back the pins that were cut off: all of them, or the pins of some slots."""
        for move, listed in (await self._book.read()).moving.items():
            slot = slot_of_pin(move)
            if slot is not None and (slots is None or set(slots) & set(listed)):
                await self._settle(slot)

    async def _settle(self, slot: int) -> None:
        """Finish or take back a pin, by the row of its slot.

        The guard comes first, so that no older mover makes that row later. A pin is taken back in one commit. So a
        mover that wakes up late cannot unlist a newer pin of the same slot.
        """
        publisher, value, table, moves = await self._read()
        move = name_of_pin(slot)
        shard = table.owners.get(slot)
        if shard is not None:
            group, place = MoveGroup(move=move, source=shard, target=shard, slots=(slot,)), self._sites
            await (await place.shard(shard)).guard(group, self._token)
            (row,) = await (await place.shard(shard)).rows(group)
            if not _is_made(row):
                when, put = self._book.unlisting(moves, move)
                with self._step("take-back"):
                    await publisher.publish(without_own_slot(value, slot), when=[when], puts=[put])
                return
        with self._step("unlist"):
            await self._book.unlist(move)

    async def _raised(self, group: MoveGroup, number: Version) -> bool:
        """Let the shard refuse older tables for the hash slot. Return False if the shard does not own the slot."""
        shard = await self._sites.shard(group.source)
        with self._step("raise"):
            await shard.change(group, RowChange(before=("owner",), after="owner", number=number), self._token)
        return all(row is not None and row.number == number for row in await shard.rows(group))

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Do one step between its two stop points."""
        self._reached(f"{name}.before")
        yield
        self._reached(f"{name}.after")

    async def _read(self) -> tuple[Publisher, Assignment, SlotTable, KnownMoves]:
        """Return the newest table, and a publisher. The publisher's next version follows exactly this table."""
        moves, newest = await self._book.read(), await self._book.newest()
        publisher = Publisher(self._store, self._name, incarnation=newest.incarnation)
        value = await publisher.newest()
        if not isinstance(value, Assignment):
            hint = "Publish the set's table again."
            raise InvalidInput("table of the set", "a table", "an assignment of slots", hint)
        return publisher, value, SlotTable.of(newest, value), moves


def _check_still(moves: KnownMoves, slot: int, name: str) -> None:
    """Raise `Conflict` while a slot moves."""
    if (other := moves.moves_of(slot)) is not None:
        hint = "Let the move end and run apportion shards clean, or abort it: apportion shards abort URL SET"
        raise Conflict(f"slot {slot} of {name} moves, in move {other}.", hint)


def _is_made(row: SlotRow | None) -> bool:
    """Whether a shard has a slot. The row of a slot that has left the shard stays there."""
    return row is not None and row.state != "moved"


def _unowned(slot: int, shard: str) -> Conflict:
    hint = "Nothing was changed. Look at the set: apportion shards doctor URL SET"
    return Conflict(f"shard {shard} does not own slot {slot}, though the table says so.", hint)


def _refusal(key: ShardKey, slot: int, shard: str) -> InvalidInput:
    hint = (
        "Give it a slot with its rows: apportion shards isolate URL SET KEY. Or move the whole slot: "
        f"apportion shards plan URL SET --move {partition_of(slot)} --to ID"
    )
    return InvalidInput("key to pin", key, f"one without rows; slot {slot} of shard {shard} has some", hint)
