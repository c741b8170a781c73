"""Repair of a set: writes the list of moving slots anew, from the records of the moves and the table.

Promises: one commit writes the list, and compares the damaged list and the records of moves that it was made from.
While the list is damaged, no move begins and none ends, so a running mover loses nothing.
Refuses: to guess the slots of a move from a damaged record. Such a record needs a copy of the control store.
"""

from apportion.runtime.clock import SystemClock
from apportion.shards.mover.book import MoveBook
from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left, table_of

_WITHIN_SECONDS = 5.0


async def repaired(url: str, name: str) -> tuple[str, ...]:
    """Mend the list of moving slots, and return the damages that it had. Errors are those of `open_shards`."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS, needs_all=False)
    try:
        pinned = table_of(followed.follower.routes).pinned.values()
        return await MoveBook(followed.store, name, SystemClock()).relist(pinned)
    finally:
        await set_left(followed)
