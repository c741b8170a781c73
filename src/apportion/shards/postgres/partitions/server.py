"""Server of partitions: one shard in PostgreSQL, where partitions come and leave while programs write.

    grow     the partition with the open end becomes a period, and an empty one takes its place
    detach   old partitions leave their table concurrently; then an empty one takes the rows of any earlier time
    drop     a detached partition ends

Promises: no writer waits for longer than some milliseconds. A transaction waits for a lock 20 ms at most, then gives up
and begins again, for ten seconds. A detach holds no lock while it waits for older transactions. The same call again
goes on after a kill at any point.
Refuses: an act of a run that is not the newest one on this shard.
Source: https://www.postgresql.org/docs/current/sql-altertable.html#SQL-ALTERTABLE-DETACH-PARTITION
"""

# ruff: noqa: S608 - names are quoted, values are bound

import asyncio
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

from psycopg.sql import SQL

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoverWork
from apportion.shards.periods.period import next_start, starts_after
from apportion.shards.periods.records import TimePartition
from apportion.shards.periods.timed_table import TimedTable
from apportion.shards.postgres.partitions.layout import (
    SCHEMA,
    Bounds,
    attached,
    bounds_in,
    bounds_of_name,
    made_apart,
    quoted,
)
from apportion.shards.postgres.server import ShardServer, rows
from apportion.stores.postgres.driver import Connection, psycopg

DETACH_SECONDS = 60.0
"""The longest wait for the transactions that use a table when one of its partitions is detached."""

Buffer: TypeAlias = bytes | bytearray | memoryview
_PIECE_BYTES = 2**20
_BOUNDS_CHECK = "apportion_bounds"
_COLUMNS = """SELECT attname::text, format('%%I', attname) FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""
_PARENT = """SELECT c.oid::bigint, format('%%I.%%I', n.nspname, c.relname) FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'p' AND NOT c.relispartition
    AND %s::text IN (c.relname::text, n.nspname || '.' || c.relname) AND EXISTS
    (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'apportion_insert')"""
_PARTS = """SELECT p.relname, s.nspname, pg_get_expr(p.relpartbound, p.oid), i.inhdetachpending,
    greatest(p.reltuples::bigint, pg_stat_get_live_tuples(p.oid)), pg_total_relation_size(p.oid),
    EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = p.oid AND k.conname = 'apportion_bounds')
    FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid JOIN pg_namespace s ON s.oid = p.relnamespace
    WHERE i.inhparent = %s::bigint::oid ORDER BY 1"""
_LEFT = f"""SELECT p.relname, greatest(p.reltuples::bigint, pg_stat_get_live_tuples(p.oid)),
    pg_total_relation_size(p.oid) FROM pg_class p JOIN pg_namespace s ON s.oid = p.relnamespace
    WHERE s.nspname = '{SCHEMA}' AND p.relkind = 'r' AND NOT p.relispartition ORDER BY 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """A timed table as a server has it: its quoted name, its partitions in their order, and the detached ones.

    `pending` has the names of partitions with a detach that was cut off. `checked` has those with a check that a
    cut-off `grow` has left.
    """

    parent: str
    partitions: tuple[TimePartition, ...]
    detached: tuple[TimePartition, ...]
    pending: frozenset[str]
    checked: frozenset[str]


class PartitionServer(ShardServer):
    """The partitions of one shard. `group` names the resource of its token."""

    async def layout(self, timed: TimedTable) -> TableLayout:
        """Read the partitions of a table. `InvalidInput` for a table that is not kept in partitions."""
        return await self.read(lambda connection: _layout(connection, self.name, timed))

    async def today(self) -> date:
        """Return the day of the server's clock, in UTC."""
        [[(day,)]] = await self.read(lambda connection: _asked(connection, "SELECT current_date"))
        return date.fromisoformat(str(day))

    async def has_rows(self, name: str) -> bool:
        """Whether a partition has a row."""
        [[(found,)]] = await self.read(lambda base: _asked(base, f"SELECT EXISTS (SELECT FROM {quoted(name)})"))
        return bool(found)

    async def count(self, name: str) -> int:
        """Return the number of rows of a partition. O(rows)."""
        [[(found,)]] = await self.read(lambda base: _asked(base, f"SELECT count(*) FROM {quoted(name)}"))
        return int(found)

    async def grow(self, work: MoverWork, token: FencingToken, timed: TimedTable, ahead: int) -> str | None:
        """Make the next period that is missing, and return its name. None if `ahead` periods follow the present one.

        If the open end has rows, they stay where they are: the new partition is as wide as they need, with a period to
        spare. `InvalidInput` for rows later than all periods that are asked for.
        """
        await self._mend(work, token, timed)
        layout, today = await self.layout(timed), await self.today()
        last = layout.partitions[-1]
        end = starts_after(timed.length, today, ahead + 1)
        if last.lower is None or last.lower >= end:
            return None
        newest = await self._newest(timed, layout, end)
        upper = next_start(timed.length, last.lower)
        if newest is not None:
            upper = starts_after(timed.length, max(newest, today, last.lower), 2)
            await self._validated(work, token, timed, layout, Bounds(lower=last.lower, upper=upper))
        bounds, rest = Bounds(lower=last.lower, upper=upper), Bounds(lower=upper, upper=None)
        name, empty = bounds.name(timed.name), rest.name(timed.name)

        async def _grow(connection: Connection) -> None:
            await _run(connection, *made_apart(layout.parent, empty))
            detach = f"ALTER TABLE {layout.parent} DETACH PARTITION {quoted(last.name)}"
            rename = f'ALTER TABLE {quoted(last.name)} RENAME TO "{name.replace(chr(34), chr(34) * 2)}"'
            await _run(connection, detach, rename, *attached(layout.parent, name, bounds))
            await _run(connection, *attached(layout.parent, empty, rest))
            await _run(connection, f"ALTER TABLE {quoted(name)} DROP CONSTRAINT IF EXISTS {_BOUNDS_CHECK}")

        await self.write(work, token, _grow)
        return name

    async def detach(self, work: MoverWork, token: FencingToken, timed: TimedTable, partition: TimePartition) -> None:
        """Detach a partition. It waits for the transactions that use the table, and delays none of them."""
        layout = await self.layout(timed)
        if partition.name not in {each.name for each in layout.partitions}:
            return
        await self.write(work, token, _nothing)  # an older run is refused here
        how = "FINALIZE" if partition.name in layout.pending else "CONCURRENTLY"
        await self._alone(f"ALTER TABLE {layout.parent} DETACH PARTITION {quoted(partition.name)} {how}")

    async def close_gap(self, work: MoverWork, token: FencingToken, timed: TimedTable) -> None:
        """Let an empty partition take the rows of any time before the first period, if there is none."""
        layout = await self.layout(timed)
        first = layout.partitions[0]
        if first.lower is None:
            return
        bounds = Bounds(lower=None, upper=first.lower)
        whole, taken = bounds.name(timed.name), {each.name for each in layout.detached}
        names = (whole, *(f"{whole}_{number}" for number in range(2, len(taken) + 3)))
        name = next(each for each in names if each not in taken)  # a run that was cut off has left one of these bounds

        async def _close(connection: Connection) -> None:
            await _run(connection, *made_apart(layout.parent, name), *attached(layout.parent, name, bounds))

        await self.write(work, token, _close)

    async def copied(self, name: str, take: Callable[[bytes], None]) -> tuple[str, ...]:
        """Give the rows of a detached partition to a function, as COPY writes them. Return the names of the columns.

        Two calls give the same bytes, because nobody writes to the partition.
        """

        async def _copy(connection: Connection) -> tuple[str, ...]:
            found = await rows(connection, _COLUMNS, quoted(name))
            await _run(connection, "SET LOCAL synchronize_seqscans = off")
            listed = ", ".join(column for _, column in found)
            statement = f"COPY {quoted(name)} ({listed}) TO STDOUT"
            async with connection.cursor().copy(SQL(statement.replace("%", "%%"))) as copy:
                await _taken(copy, take)
            return tuple(column for column, _ in found)

        return await self.read(_copy)

    async def drop(self, work: MoverWork, token: FencingToken, name: str) -> None:
        """Drop a detached partition."""

        async def _drop(connection: Connection) -> None:
            await _run(connection, f"DROP TABLE IF EXISTS {quoted(name)}")

        await self.write(work, token, _drop)

    async def _mend(self, work: MoverWork, token: FencingToken, timed: TimedTable) -> None:
        """Finish detaches that were cut off, and drop the check that a cut-off `grow` has left."""
        layout = await self.layout(timed)
        for partition in layout.partitions:
            if partition.name in layout.pending:
                await self.detach(work, token, timed, partition)
        await self.close_gap(work, token, timed)
        for name in sorted(layout.checked):

            async def _drop(connection: Connection, name: str = name) -> None:
                await _run(connection, f"ALTER TABLE {quoted(name)} DROP CONSTRAINT IF EXISTS {_BOUNDS_CHECK}")

            await self.write(work, token, _drop)

    async def _newest(self, timed: TimedTable, layout: TableLayout, end: date) -> date | None:
        """Return the day of the newest row of the open end, None if it has no rows."""
        last, column = layout.partitions[-1], f'"{timed.column.replace(chr(34), chr(34) * 2)}"'
        newest = f"SELECT max({column})::text, coalesce(max({column}) >= '{end} 00:00:00+00', false)"
        [[(found, is_late)]] = await self.read(
            lambda connection: _asked(connection, f"{newest} FROM {quoted(last.name)}")
        )
        if is_late:
            hint = "Mend these rows, or write a larger --ahead. Until then they stay where they are."
            expected = f"rows before {end}, the end of the last period"
            raise InvalidInput(f"newest row of {timed.name} in {self.name}", found, expected, hint)
        return None if found is None else date.fromisoformat(str(found)[:10])

    async def _validated(
        self, work: MoverWork, token: FencingToken, timed: TimedTable, layout: TableLayout, bounds: Bounds
    ) -> None:
        """Let the server learn that all rows of the open end lie in bounds, while programs write.

        With this knowledge, the partition gets its bounds without a look at its rows.
        """
        place, column = quoted(layout.partitions[-1].name), f'"{timed.column.replace(chr(34), chr(34) * 2)}"'
        lies = f"{column} >= '{bounds.lower} 00:00:00+00' AND {column} < '{bounds.upper} 00:00:00+00'"

        async def _add(connection: Connection) -> None:
            await _run(connection, f"ALTER TABLE {place} ADD CONSTRAINT {_BOUNDS_CHECK} CHECK ({lies}) NOT VALID")

        async def _validate(connection: Connection) -> None:
            await _run(connection, f"ALTER TABLE {place} VALIDATE CONSTRAINT {_BOUNDS_CHECK}")

        await self.write(work, token, _add)
        await self.write(work, token, _validate)

    async def _alone(self, statement: str) -> None:
        """Run a statement outside of a transaction. It is cancelled if it takes too long, and may be run again."""

        async def _once(connection: Connection) -> None:
            limit = asyncio.get_running_loop().call_later(DETACH_SECONDS, _cancelled, connection)
            try:
                await _run(connection, statement)
            except psycopg.errors.QueryCanceled as error:
                why = f"transactions have used a table for {DETACH_SECONDS:g} s; no program waits for this detach"
                raise StoreUnavailable(self.name, why, "Run the same command again: it goes on.") from error
            finally:
                limit.cancel()

        await self._tried(_once)


async def _taken(copy: AsyncIterable[Buffer], take: Callable[[bytes], None]) -> None:
    """Give the data of a copy to a function in pieces, in another thread: the I/O thread does not wait for a disk."""
    piece = bytearray()
    async for data in copy:
        piece += data
        if len(piece) >= _PIECE_BYTES:
            await asyncio.to_thread(take, bytes(piece))
            piece.clear()
    await asyncio.to_thread(take, bytes(piece))


def _cancelled(connection: Connection) -> None:
    asyncio.get_running_loop().run_in_executor(None, connection.cancel)


async def _nothing(_: Connection) -> None:
    pass


async def _run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        await rows(connection, statement.replace("%", "%%"))


async def _asked(connection: Connection, statement: str) -> list[list[Any]]:
    return [await rows(connection, statement.replace("%", "%%"))]


async def _layout(connection: Connection, shard: str, timed: TimedTable) -> TableLayout:
    found = await rows(connection, _PARENT, timed.name)
    if len(found) != 1:
        said = "several of this name" if found else "absent, or without partitions"
        hint = "Look at the shard: apportion shards doctor URL SET --models MODULE:Base"
        raise InvalidInput(f"table {timed.name} in {shard}", said, "a table in partitions, as init makes it", hint)
    [(number, parent)] = found
    partitions, pending, checked = [], set[str](), set[str]()
    for name, schema, written, is_pending, count, size, is_checked in await rows(connection, _PARTS, number):
        bounds = bounds_in(f"{schema}.{name}", written)
        pending |= {name} if is_pending else set()
        checked |= {name} if is_checked else set()
        partitions.append(_partition(timed, name, bounds, int(count), int(size)))
    detached = [
        _partition(timed, name, known, int(count), int(size), is_attached=False)
        for name, count, size in await rows(connection, _LEFT)
        if (known := bounds_of_name(timed, name)) is not None
    ]
    ordered = sorted(partitions, key=lambda each: each.lower or date.min)
    _check_whole(timed, shard, ordered)
    return TableLayout(
        parent=parent,
        partitions=tuple(ordered),
        detached=tuple(detached),
        pending=frozenset(pending),
        checked=frozenset(checked),
    )


def _check_whole(timed: TimedTable, shard: str, partitions: Sequence[TimePartition]) -> None:
    if not partitions or partitions[-1].upper is not None:
        hint = f"Make it: CREATE TABLE {SCHEMA}.… PARTITION OF {timed.name} FOR VALUES FROM (…) TO (MAXVALUE)"
        raise InvalidInput(f"partitions of {timed.name} in {shard}", "none with an open end", "one", hint)


def _partition(
    timed: TimedTable, name: str, bounds: Bounds, count: int, size: int, *, is_attached: bool = True
) -> TimePartition:
    return TimePartition(
        table=timed.name,
        name=name,
        lower=bounds.lower,
        upper=bounds.upper,
        rows=max(0, count),
        bytes=size,
        state="attached" if is_attached else "detached",
    )
