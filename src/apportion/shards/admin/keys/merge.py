"""Merge: gives the slots of two neighbouring ranges on one shard one slot, in one transaction.

Promises: a call that was cut off is finished, or has changed nothing, when the next call that moves slots has begun.
Refuses: slots on two shards, and more than 5 000 rows that would change their slot.
"""

from apportion.shards.admin.carrier import Carrier, carried
from apportion.shards.admin.keys.isolation import made_before
from apportion.shards.mover.own_slots import RangeSlot
from apportion.shards.mover.records import name_of_pin
from apportion.shards.slots import checked_ranges


async def merge(url: str, name: str, slot: int, other: int) -> RangeSlot:
    """Join two neighbouring ranges of one shard. Return the slot of the first one, which has both ranges now.

    The rows of the second range, 5 000 at most, get the slot of the first one. Writers of its keys wait for a moment.
    Moves that have begun are made first.

    The same call again finishes a call that was cut off. `BadRange` for an unknown slot, and for slots that are no
    neighbours. `InvalidInput` for a set by hash, for slots on two shards, and for too many rows. `Conflict` if one of
    the slots is moving.
    """
    return await carried(
        url, name, lambda carrier: _merged(carrier, slot, other), settles=False, trusts=lambda _: False
    )


async def _merged(carrier: Carrier, slot: int, other: int) -> RangeSlot:
    book, own_slots = carrier.mover.book, carrier.own_slots
    checked_ranges((await book.table())[0].ranges)
    begun = (await book.read()).moving
    await own_slots.settle()
    await carrier.mover.sites.close()  # A migration, in a process of its own, waits for the locks of open files.
    await made_before(carrier)
    table, _ = await book.table()
    for kept, gone in ((slot, other), (other, slot)):
        if {*begun.get(name_of_pin(gone), ())} == {slot, other} and gone not in table.owners:
            return RangeSlot.of(table, kept, is_new=True)
    carrier.mover.check()
    return await own_slots.merge(slot, other)
