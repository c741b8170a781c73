"""Readiness: finds the obstacles to a move between two files, before any part of the move is made.

Promises: each refusal names the shard, the obstacle, and the next step. Nothing is written.
Refuses: a target that has rows of the moving slots already, and a disk with too little free space for the rows.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import shutil
import sqlite3
from collections.abc import Sequence

from apportion.errors import InvalidInput
from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite.file import ShardPath
from apportion.shards.sqlite.tables import ShardTable

SPACE = 1.2
"""The free bytes on the target's disk for each byte of the rows. Indexes and pages need some space too."""


def require_no_rows(connection: sqlite3.Connection, group: MoveGroup, tables: Sequence[ShardTable]) -> None:
    """Raise `InvalidInput` if the target has rows of a slot that is neither `moved` nor `incoming` there."""
    known = "SELECT slot FROM main.apportion_slot WHERE state IN ('moved', 'incoming')"
    slots = ", ".join(map(str, group.slots))
    for table in tables:
        found = f"SELECT slot FROM main.{table.quoted} WHERE slot IN ({slots}) AND slot NOT IN ({known}) LIMIT 1"
        unknown = connection.execute(found).fetchone()
        if unknown is not None:
            place = f"table {table.name} of shard {group.target}"
            hint = "No move brought them. Look at them, save the ones that you need, and delete them there."
            raise InvalidInput(place, f"rows of slot {unknown[0]}", "no rows of the moving slots", hint)


def require_space(target: ShardPath, size: int) -> None:
    """Raise `InvalidInput` if the disk of the target has too little free space for rows of `size` bytes."""
    free, needed = shutil.disk_usage(target.path.parent).free, int(SPACE * size)
    if free < needed:
        hint = "Free space there, or plan fewer slots at once."
        raise InvalidInput(f"free bytes on the disk of shard {target.shard}", free, f"at least {needed}", hint)
