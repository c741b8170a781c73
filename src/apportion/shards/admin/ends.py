"""Ends of moves: takes moves back, pauses them, reverses them after their switch, and cleans up after them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from apportion.errors import InvalidInput
from apportion.runtime.clock import SystemClock
from apportion.runtime.events import checked_observer
from apportion.runtime.io_thread import io_thread
from apportion.shards.admin.carrier import MoveObserved, carried
from apportion.shards.admin.facts import moves_of
from apportion.shards.admin.lanes import MovesMade
from apportion.shards.mover.book import MoveBook
from apportion.shards.records import SetKeys
from apportion.shards.reshard import BEFORE_SWITCH, Wish
from apportion.shards.router import set_followed, set_left

_WITHIN_SECONDS = 5.0

SOAK = timedelta(minutes=10)
"""The time for which old rows stay on the source after a move, so that programs can still read them."""


async def abort(url: str, name: str, *, observer: MoveObserved | None = None) -> MovesMade:
    """Take back all moves that have not switched. Their slots stay on the source, and nothing of the moves is left."""
    observer = checked_observer(observer, "abort(…")
    await io_thread().hop(wish(url, name, "abort"))
    return await carried(url, name, lambda carrier: carrier.abort(), observer)


async def pause(url: str, name: str) -> int:
    """Pause the moves that have not switched, and return their number. Writers go on. `apply` resumes the moves."""
    return await io_thread().hop(wish(url, name, "pause"))


async def reverse(url: str, name: str, moves: Sequence[str], *, observer: MoveObserved | None = None) -> MovesMade:
    """Give the slots of complete moves back to their former shards, with all writes since, while programs write.

    Only rows that have changed since the switch are copied. Then all rows are compared, as in any move. The moves
    need `apply` with `is_reversible`. The way back is open until `clean`. Weights stay as they are, so a later
    `rebalance` may move the slots again.

    - `moves`: the ids of the moves, as `status` shows them.
    - `observer`: a function that is called with each `MoveEvent`, in the I/O thread.

    The same call again finishes a call that was cut off; so does `apply`. Until the switch, `abort` leaves the slots
    where they are, and ends the way back. `Conflict` for a move that has not switched, that has no way back, or that is
    reversed already. `InvalidInput` for an unknown move, and for one whose log lacks changes. If the first move raises
    one of these errors, nothing was changed.
    """
    wanted = _checked(moves)
    return await carried(url, name, lambda carrier: carrier.reverse(wanted), observer)


async def clean(url: str, name: str, *, soak: timedelta = SOAK, observer: MoveObserved | None = None) -> MovesMade:
    """Delete the old rows of moves on their sources, in small transactions that each check the owner again.

    The way back of a reversible move ends before its first row is deleted.

    - `soak`: the least time since a move became complete. Default: 10 minutes.
    """
    if not isinstance(soak, timedelta) or soak < timedelta(0):
        raise InvalidInput("soak", soak, "a timedelta of at least 0", "Write timedelta(minutes=10).")
    return await carried(url, name, lambda carrier: carrier.clean(soak), observer)


def _checked(moves: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of moves, each once."""
    if isinstance(moves, str) or not moves or not all(isinstance(each, str) for each in moves):
        raise InvalidInput("moves", moves, "a list of ids of moves", "See them: apportion shards status URL SET")
    return tuple(dict.fromkeys(moves))


async def wish(url: str, name: str, wished: Wish) -> int:
    """Write a wish into the record of each move that has not switched. Return the number of such moves.

    The mover reads the wish there.
    """
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        book, count = MoveBook(followed.store, name, SystemClock()), 0
        for move in (await moves_of(followed)).kept:
            count += await _wished(book, move, wished)
        return count
    finally:
        await set_left(followed)


async def _wished(book: MoveBook, move: str, wished: Wish) -> bool:
    """Write a wish into one record, again if the mover was faster. Return False if the move has switched or is over."""
    while True:
        kept = (await book.read()).kept.get(move)
        if kept is None or kept.entry.record.state not in BEFORE_SWITCH:
            return False
        if kept.entry.wish == wished or await book.write(kept, replace(kept.entry, wish=wished)):
            return True
