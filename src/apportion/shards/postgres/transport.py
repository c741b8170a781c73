"""Rows on their way from one server to another, in the text form of COPY, which keeps every value.

The rows go into a temporary table of the target, and from there into place within the same transaction. A row of the
group that has the key, or another unique value, of a new one is out of date, and goes.

Refuses: to write over a row of a slot that does not move. `Unequal` names the key.
"""

# ruff: noqa: S608 - names are quoted, values are bound or quoted

from collections.abc import Sequence

from apportion.errors import InvariantBroken, Unequal
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.server import count, rows
from apportion.shards.postgres.tables import ServerTable, columns
from apportion.stores.postgres.driver import Connection, psycopg

STAGE = "pg_temp.apportion_stage"


def slots_of(group: MoveGroup) -> str:
    """Return the condition that a slot is one of the group."""
    return f"slot = ANY ('{{{','.join(map(str, group.slots))}}}'::smallint[])"


def text(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def digest(table: ServerTable, alias: str = "kept") -> str:
    """Return the expression that makes a number of 60 bits of a row."""
    return f"('x' || left(md5(ROW({table.listed(alias)})::text), 15))::bit(60)::bigint"


async def staged(source: Connection, target: Connection, table: ServerTable, where: str) -> int:
    """Bring rows of the source into the stage of the target's transaction; return how many."""
    await target.execute(f"DROP TABLE IF EXISTS {STAGE}".encode())
    made = f"CREATE TEMP TABLE apportion_stage ON COMMIT DROP AS SELECT {table.listed()} FROM {table.name} WITH NO DATA"
    await target.execute(made.encode())
    select = f"COPY (SELECT {table.listed()} FROM {table.name} WHERE {where}) TO STDOUT"
    async with source.cursor() as here, target.cursor() as there:
        async with here.copy(select.encode()) as rows_out, there.copy(f"COPY {STAGE} FROM STDIN".encode()) as rows_in:
            async for part in rows_out:
                await rows_in.write(part)
        return there.rowcount


async def placed(target: Connection, group: MoveGroup, table: ServerTable) -> None:
    """Put the staged rows in place."""
    for unique in (table.key, *sorted(table.uniques)):
        same = " AND ".join(f"kept.{each} = row.{each}" for each in unique)
        gone = f"DELETE FROM {table.name} kept USING {STAGE} row WHERE kept.{slots_of(group)} AND {same}"
        await target.execute(gone.encode())
    names = table.listed()
    insert = f"INSERT INTO {table.name} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {STAGE}"
    try:
        await target.execute(insert.encode())
    except psycopg.errors.UniqueViolation as error:
        hint = "Nothing was written. Give one of the two rows another key; a key must be unique in the set."
        found = [error.diag.message_detail or f"{error}"]
        raise Unequal(table.name, found, "has rows of other slots with the same keys on the target", hint) from error


async def replaced(
    source: Connection, target: Connection, group: MoveGroup, table: ServerTable, keys: Sequence[str]
) -> None:
    """Bring the rows with some keys, each in JSON, to the target as they are on the source, and compare them."""
    given = f"jsonb_populate_recordset(NULL::{table.name}, {text('[' + ','.join(keys) + ']')}::jsonb)"
    where = f"{slots_of(group)} AND ({columns(table.key)}) IN (SELECT {columns(table.key)} FROM {given})"
    number = await staged(source, target, table, where)
    await target.execute(f"DELETE FROM {table.name} WHERE {where}".encode())
    await placed(target, group, table)
    totals = "SELECT count(*), sum({}) FROM {} kept"
    mark = digest(table)
    [there] = await rows(target, totals.format(mark, STAGE).replace("%", "%%"))
    [here] = await rows(target, (totals.format(mark, table.name) + f" WHERE {where}").replace("%", "%%"))
    if here != there:
        raise Unequal(table.name, [f"{here[0]} rows instead of {number}"], "has changed while it was written")


async def require_incoming(target: Connection, group: MoveGroup) -> None:
    """Raise unless every slot of the group is on its way to this shard, so that nobody owns its rows here."""
    found = "SELECT 1 FROM apportion.slot WHERE move = %s AND state = 'incoming' AND slot = ANY (%s) FOR SHARE"
    if await count(target, found, group.move, list(group.slots)) != len(group.slots):
        raise InvariantBroken(f"rows of move {group.move} were to be written while a slot was not incoming")
