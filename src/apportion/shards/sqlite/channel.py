"""The channel of a move group between two SQLite files: chunks, the log, and the comparison.

One connection writes to the target, and reads the source as an attached file. A second connection writes to the source:
it begins and ends the log, and deletes its entries. Rows are read in one transaction and written in another. So writers
of the source wait for a short read at most, and not for the disk of the target.
"""

import sqlite3
from collections.abc import Iterable
from time import monotonic

from apportion.errors import BadSnapshot
from apportion.model.epoch import FencingToken
from apportion.shards.channel import ChannelState
from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite import capture
from apportion.shards.sqlite.chunk import Chunks
from apportion.shards.sqlite.comparison import RowComparison
from apportion.shards.sqlite.cursors import cursors, forget, require_all
from apportion.shards.sqlite.file import ShardFile, ShardPath
from apportion.shards.sqlite.key_rows import MovingTables
from apportion.shards.sqlite.log import LogParts
from apportion.shards.sqlite.portion import Portion
from apportion.shards.sqlite.readiness import require_no_rows, require_space
from apportion.shards.sqlite.replacement import let_go
from apportion.shards.sqlite.tables import ShardTable, names_of

APPLY_SECONDS = 0.25
"""The time for which one call of `apply` continues while the log has entries."""

_FORGOTTEN_ROWS = 1_000


class SqliteChannel:
    """See `Channel`."""

    def __init__(self, group: MoveGroup, source: ShardPath, target: ShardPath) -> None:
        self._group = group
        self._slots, slots = _listed(group.slots), _listed(group.arriving.slots)
        self._source, self._target = ShardFile(source), ShardFile(target, source=source)
        self._equal = tables = MovingTables(group)
        self._chunks, self._log = Chunks(group.arriving, slots, tables), LogParts(group, slots, tables)
        self._pieces = Portion(1_000, least=200, most=20_000)

    async def check(self, size: int, /) -> None:
        """See `Channel`. `SchemaDiffers` or `InvalidInput` names the shard."""
        tables = await self._target.read(self._equal.read)
        await self._target.read(lambda connection: require_no_rows(connection, self._group.arriving, tables))
        require_space(self._target.place, size)

    async def state(self, attempt: int) -> ChannelState:
        """See `Channel`."""
        return await self._target.read(lambda connection: self._state(connection, attempt))

    async def capture(self, token: FencingToken) -> None:
        """See `Channel`. `SchemaDiffers` if a table is not the same on both shards."""
        tables = await self._target.read(self._checked)
        await self._source.write(self._group, token, lambda base: capture.begin(base, self._group, tables))

    async def copy(self, token: FencingToken) -> None:
        """See `Channel`. The first calls delete old rows of the slots on the target."""
        await self._target.read(self._checked)
        is_read = await self._target.read(self._chunks.read)
        if is_read is not None:
            await self._target.write(self._group, token, self._chunks.write if is_read else self._chunks.begin)

    async def apply(self, token: FencingToken) -> None:
        """See `Channel`. One call lasts about a quarter of a second."""
        ends = monotonic() + APPLY_SECONDS
        while monotonic() < ends and await self._target.read(self._log.read):
            await self._target.write(self._group, token, self._log.write)
            await self._source.write(self._group, token, self._log.forget)

    async def verify(self, attempt: int, token: FencingToken) -> None:
        """See `Channel`. One call lasts about a second. The next call of the same attempt continues from there."""
        await self._target.read(self._checked)
        comparison = RowComparison(self._group, attempt, self._equal, self._pieces)
        if not await self._target.read(comparison.begin):
            await self._target.write(self._group, token, comparison.restart)
            await self._target.read(comparison.begin)
        while comparison.goes_on():
            await self._target.read(comparison.compare)
        if comparison.wrong:
            await self._source.write(self._group, token, comparison.log)
            await self._target.write(self._group, token, comparison.restart)
            raise comparison.refusal()
        has_missed = await self._target.read(comparison.has_missed_all)
        await self._target.write(self._group, token, comparison.restart if has_missed else comparison.keep)

    async def uncapture(self, token: FencingToken) -> None:
        """See `Channel`.

        The cursors on the target are deleted first, because a move that still captures is not over.
        """
        move = self._group.move
        await self._target.write(self._group, token, lambda base: _forgotten(base, move))
        while not await self._source.write(self._group, token, lambda base: capture.end(base, move, _FORGOTTEN_ROWS)):
            pass

    async def close(self) -> None:
        """See `Channel`."""
        await self._target.close()
        await self._source.close()

    def _checked(self, connection: sqlite3.Connection) -> tuple[ShardTable, ...]:
        """Return the tables. `BadSnapshot` if a copy that has begun does not have one cursor for each table."""
        tables = self._equal.read(connection)
        require_all(connection, self._group.move, [table.name for table in tables])
        return tables

    def _state(self, connection: sqlite3.Connection, attempt: int) -> ChannelState:
        try:
            copied, verified = (cursors(connection, self._group.move, step) for step in ("copy", "verify"))
        except BadSnapshot:  # The acts that need the progress raise this error. An abort needs none.
            copied, verified = {}, {}
        names = names_of(connection, "source")
        is_captured, lag = self._captured(connection, names | copied.keys())
        has_rows = capture.has_log(connection, self._group.move, "source")
        done = [each.is_done and each.attempt == attempt for each in verified.values()]
        return ChannelState(
            is_captured=is_captured,
            is_captured_back=capture.has_log(connection, self._group.move),
            has_log=bool(has_rows or capture.parts(connection, self._group.move, "source")),
            is_copied=bool(copied) and all(each.is_done for each in copied.values()),
            is_drained=not lag,
            is_verified=is_captured and verified.keys() == (copied.keys() or names) and bool(done) and all(done),
            copied=sum(each.rows for each in copied.values()),
            lag=lag,
        )

    def _captured(self, connection: sqlite3.Connection, tables: set[str]) -> tuple[bool, int]:
        """Return whether all changes of the slots are logged on the source, and the number of entries in the log."""
        if not capture.is_whole(connection, "source"):
            return False, 0
        mine = f"SELECT count(*) FROM source.apportion_capture WHERE move = ? AND slot IN {self._slots}"  # noqa: S608
        entries = "SELECT count(*) FROM source.apportion_log WHERE move = ?"
        slots, lag = (
            int(connection.execute(counted, (self._group.move,)).fetchone()[0]) for counted in (mine, entries)
        )
        wanted = {name for table in tables for name in capture.trigger_names(table)}
        is_captured = slots == len(self._group.slots) and wanted <= capture.triggers_of(connection, "source")
        return is_captured, lag


def _listed(slots: Iterable[int]) -> str:
    return f"({', '.join(map(str, slots))})"


def _forgotten(connection: sqlite3.Connection, move: str) -> None:
    forget(connection, move)
    let_go(connection)
