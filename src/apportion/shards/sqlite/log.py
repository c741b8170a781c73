"""Parts of the log: rows that writers of the source changed are read again, and written to the target.

Promises: an entry is deleted after the target has its row. A part may be applied twice, and changes nothing then.
"""

import sqlite3
from collections.abc import Callable
from time import monotonic

from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite import capture
from apportion.shards.sqlite.chunk import require_incoming
from apportion.shards.sqlite.cursors import disturb
from apportion.shards.sqlite.portion import Portion
from apportion.shards.sqlite.stage import RowStage, note_keys
from apportion.shards.sqlite.tables import EqualTables


class LogParts:
    """The log of one group. `read` reads a part, `write` writes its rows, and `forget` then deletes the part."""

    def __init__(self, group: MoveGroup, slots: str, tables: EqualTables) -> None:
        self._group, self._slots, self._equal = group, slots, tables
        self._portion = Portion(200, most=1_000)
        self._stages: list[RowStage] = []
        self._last = 0

    def read(self, connection: sqlite3.Connection) -> bool:
        """Read the next part. Return False if there is none."""
        if not capture.is_there(connection, "source"):
            return False
        tables = self._equal.read(connection)
        last = note_keys(connection, self._group, tables, self._portion.rows)
        if last is None:
            return False
        self._last = last
        capture.require(connection, self._group, tables)
        self._stages = [RowStage(table, number, self._slots) for number, table in enumerate(tables)]
        for stage in self._stages:
            stage.make(connection)
            stage.take_keys(connection)
        return True

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the part that was read to the target."""
        begun = monotonic()
        require_incoming(connection, self._group.arriving)
        disturb(connection, self._group.move)
        for stage in self._stages:
            stage.replace(connection)
        self._portion.took(self._portion.rows, monotonic() - begun)

    @property
    def forget(self) -> Callable[[sqlite3.Connection], None]:
        """The work that deletes this part from the log of the source, even if a later part was read meanwhile."""
        last = self._last

        def _forgotten(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM apportion_log WHERE move = ? AND id <= ?", (self._group.move, last))

        return _forgotten
