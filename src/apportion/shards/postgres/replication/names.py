"""Names of the objects of a native channel, made from the set, the move and the token alone.

    publication, subscription    apportion_<move>_<mark of set and move>
    replication slot             the same, and a mark of the mover's token

So every process can look for the objects of a move, also for those that a killed mover has made. The name of a
replication slot is unique among all databases of a server, hence the mark of the set. No mover uses the slot of another
one, unless a subscription names it already.
"""

import re
from hashlib import blake2b

from apportion.guards.rule import position
from apportion.model.epoch import FencingToken

PREFIX = "apportion_"
_MOST_LETTERS = 20
_OTHERS = re.compile(r"[^a-z0-9]")


def object_name(set_name: str, move: str) -> str:
    """Return the name of the publication and of the subscription of a move.

    >>> object_name("world", "Move-1")
    'apportion_move_1_747847ae'
    """
    return f"{PREFIX}{_OTHERS.sub('_', move.lower())[:_MOST_LETTERS]}_{_mark(f'{set_name}/{move}')}"


def slot_name(name: str, token: FencingToken) -> str:
    """Return the name of the replication slot that the holder of a token makes for the publication `name`."""
    return f"{name}_{_mark(position(token))}"


def sync_prefix(subscription: int) -> str:
    """Return the beginning of the names of the slots by which a subscription copies its tables."""
    return f"pg_{subscription}_sync_"


def _mark(text: str) -> str:
    return blake2b(text.encode(), digest_size=4).hexdigest()
