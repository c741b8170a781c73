"""Reversal: gives the slots of a switched move back to the shard that they came from, with all later writes.

The old rows are still on that shard, and the other shard has logged the keys of all rows that changed since the fence.
So source and target swap their roles in the record, by one commit that compares it. Then the mover goes on as with any
move: it copies the rows of the logged keys, compares all rows, fences and switches.

Promises: only rows of logged keys are copied. Before that commit nothing is changed, and after it any mover goes
on. Until the switch, `abort` leaves the slots where they are.
Refuses: a move that is not complete, that has no way back, or that has a gap in its log.
"""

import asyncio
from collections.abc import Mapping

from apportion.errors import Conflict, InvalidInput
from apportion.model.epoch import FencingToken
from apportion.shards.mover.book import KeptMove
from apportion.shards.mover.mover import Mover
from apportion.shards.mover.records import MoveEntry
from apportion.shards.reshard import BEFORE_SWITCH

_AGAIN_SECONDS = 0.01


async def reverse(mover: Mover, move: str, token: FencingToken) -> MoveEntry | None:
    """Reverse a complete move, or go on with its reversal, as the elected mover. Return the record at the end.

    `InvalidInput` if the log lacks changes after the switch. Errors are also those of `check_reversible`, and of `run`.
    """
    mover.check()
    kept = check_reversible(move, (await mover.book.read()).kept)
    if kept.entry.wish == "pause":
        await mover.book.write(kept, kept.entry.wished("go"))
    if kept.entry.record.way == "reversible":
        await mover.run(move, token)
        await _turned(mover, move)
    return await mover.run(move, token)


def check_reversible(move: str, kept: Mapping[str, KeptMove]) -> KeptMove:
    """Return the record of a move that can be reversed, or that is on its way back.

    `InvalidInput` for a move without a record, `Conflict` for any other one. The error says the next step.
    """
    if move not in kept:
        known = f"one of {', '.join(sorted(kept))}" if kept else "a move that is not cleaned; the set has none"
        hint = "After clean, plan a new move back: apportion shards plan URL SET --move SLOTS --to ID"
        raise InvalidInput("move", move, known, hint)
    entry = kept[move].entry
    state, way = entry.record.state, entry.record.way
    if state == "aborted":
        raise Conflict(f"move {move} is aborted: it has not switched.", "End it: apportion shards abort URL SET")
    if way == "back" and state in ("complete", "cleaned"):
        hint = "Run apportion shards clean URL SET. Then plan the move again."
        raise Conflict(f"move {move} is reversed already: its slots are on {entry.group.target}.", hint)
    if way == "back":
        return kept[move]
    if state in BEFORE_SWITCH:
        hint = "Take it back: apportion shards abort URL SET"
        raise Conflict(f"move {move} is {state}: its slots are still on {entry.group.source}.", hint)
    if way == "one-way":
        reason = "it was applied without --reversible, or clean has begun"
        hint = f"Run apportion shards clean URL SET. Then plan: apportion shards plan URL SET --to {entry.group.source}"
        raise Conflict(f"move {move} has no way back: {reason}.", hint)
    return kept[move]


async def _turned(mover: Mover, move: str) -> None:
    """Write the record of the way back, again if another process changed it meanwhile."""
    while True:
        mover.check()
        kept = check_reversible(move, (await mover.book.read()).kept)
        entry = kept.entry
        if entry.record.way == "back":
            return
        if entry.record.state != "complete":
            hint = "Run the same call again. It goes on when the shards of the move answer."
            raise Conflict(f"move {move} is {entry.record.state}: its switch is not settled.", hint)
        await _check_log(mover, entry)
        mover.reached("reverse.before")
        if (after := await mover.acts.turn(kept)) is not None:
            mover.reached("reverse.after")
            mover.tell(after, "reverse")
            return
        await asyncio.sleep(_AGAIN_SECONDS)


async def _check_log(mover: Mover, entry: MoveEntry) -> None:
    """Raise unless the target logs every change. A table that was made anew has lost its triggers."""
    back = entry.group.reversed()
    if not (await (await mover.sites.channel(back)).state(entry.record.attempt)).is_captured:
        expected = "one with each change since the switch; a table that is made anew loses its triggers"
        hint = (
            f"Nothing was changed. Run apportion shards clean URL SET, then plan a move of the slots to {back.target}."
        )
        raise InvalidInput(f"log of move {back.move} on shard {back.source}", "incomplete", expected, hint)
