"""Comparison: all rows of a group on both servers, each slot by a count and a sum of digests.

A slot that differs is looked at key by key. A different row is no error while its key is in the log: it is compared
when the entry is applied. Every other different row is logged, copied again and reported.

Promises: the comparison finds a row that either side lacks, and a row of another slot.
"""

# ruff: noqa: S608 - names are quoted, values are bound

from collections.abc import Sequence
from time import monotonic

from apportion.errors import Unequal
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres import key_log
from apportion.shards.postgres.moving_rows import with_children
from apportion.shards.postgres.script import failing
from apportion.shards.postgres.server import ShardServer, rows
from apportion.shards.postgres.tables import ServerTable
from apportion.shards.postgres.transport import digest, slot_totals, text
from apportion.stores.postgres.driver import Connection

VERIFY_SECONDS = 1.0
_MOST_WRONG = 1_000


class RowDigests:
    """One comparison. It goes on from call to call. Another process begins anew. `mark` has its attempt and schemas."""

    def __init__(self, group: MoveGroup, mark: str) -> None:
        self.mark: str = mark
        self._group = group
        self._done: set[str] = set()
        self.wrong: list[tuple[str, int, str]] = []

    async def compare(self, source: ShardServer, target: ShardServer, tables: Sequence[ServerTable]) -> bool:
        """Compare tables for a second; return whether all are equal. `wrong` names rows that differ."""
        ends = monotonic() + VERIFY_SECONDS
        for table in tables:
            if table.name in self._done:
                continue
            if monotonic() >= ends:
                return False

            async def _both(here: Connection, table: ServerTable = table) -> None:
                await target.read(lambda there: self._compared(here, there, table, tables))

            await source.read(_both)
            if self.wrong:
                return False
            self._done.add(table.name)
        return True

    def refusal(self) -> Unequal:
        """Return the error that names the rows of the first table that differ."""
        name = self.wrong[0][0]
        found = [f"{key} of slot {slot}" for table, slot, key in self.wrong if table == name]
        return Unequal(name, found, "has rows that differ on the target and are not in the log")

    async def log(self, connection: Connection) -> None:
        """Log the rows that differ, so that they are copied again."""
        into = f"INSERT INTO apportion.{key_log.quoted(key_log.log_name(self._group.move))} (name, key)"
        for name, _, key in self.wrong:
            await rows(connection, f"{into} VALUES (%s, %s::jsonb)", name, key)

    async def _compared(
        self, here: Connection, there: Connection, table: ServerTable, tables: Sequence[ServerTable]
    ) -> None:
        counted, counted_there = (
            slot_totals(self._group.arriving, table, place).replace("%", "%%") for place in (table.source, table.name)
        )
        with failing(here):
            found = await rows(here, counted)
        found_there = await rows(there, counted_there)
        first, second = ({slot: (count, total) for slot, count, total in each} for each in (found, found_there))
        slots = sorted(slot for slot in first | second if first.get(slot) != second.get(slot))
        if not slots:
            return
        logged = f"SELECT DISTINCT name, key::text FROM {key_log.place(self._group.move)}".replace("%", "%%")
        with failing(here):
            noted = await with_children(here, self._group, tables, await rows(here, logged))
        excused = {key for name, key in noted if name == table.name}
        for slot in slots:
            with failing(here):
                marks = await _marks(here, table, slot, table.source)
            others = await _marks(there, table, slot, table.name)
            differ = sorted(key for key in marks | others if marks.get(key) != others.get(key))
            self.wrong += [(table.name, slot, key) for key in differ if key not in excused][:_MOST_WRONG]


async def _marks(connection: Connection, table: ServerTable, slot: int, place: str) -> dict[str, int]:
    key = ", ".join(f"{text(raw)}, kept.{name}" for name, raw in zip(table.key, table.key_names, strict=True))
    found = f"SELECT jsonb_build_object({key})::text, {digest(table)} FROM {place} kept"
    return dict(await rows(connection, f"{found} WHERE slot = {slot}".replace("%", "%%")))
