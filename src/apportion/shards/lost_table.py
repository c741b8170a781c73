"""Lost table: the next step after a table of the set was dropped in a file of SQLite.

Statements of a session fail too then, because the triggers of the sharded tables need these tables.
"""

import re

from apportion.shards.slot_rows import DAMAGE

_ABSENT = re.compile(r"no such table: (?:\w+\.)?(apportion_\w+)")
_MADE_AGAIN = "Make it again, then go on: apportion shards add URL SET ID=URL --models MODULE:Base"
_TAKEN_BACK = "Programs cannot write to this shard until its moves are taken back: apportion shards abort URL SET"
_NEXT_STEPS = {
    "apportion_mover": _MADE_AGAIN,
    "apportion_fences": _MADE_AGAIN,
    "apportion_move": _MADE_AGAIN,
    "apportion_capture": _TAKEN_BACK,
    "apportion_log": _TAKEN_BACK,
}


def next_step(problem: str) -> str:
    """Return the next step after an error of SQLite that names a lost table of the set, "" for any other error.

    >>> next_step("no such table: main.apportion_log").partition(":")[0]
    'Programs cannot write to this shard until its moves are taken back'
    """
    found = _ABSENT.match(problem)
    return "" if found is None else _NEXT_STEPS.get(found[1], DAMAGE)
