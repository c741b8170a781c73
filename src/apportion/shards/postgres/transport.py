"""Rows on their way from one server to another, in the text form of COPY, which keeps every value.

The rows go into a temporary table of the target, and from there into place within the same transaction. A row of the
group is out of date if it has the key, or another unique value, of a new row. So it is deleted.

Refuses: to write over a row of a slot that does not move. `Unequal` names the key.
"""

# ruff: noqa: S608 - names are quoted, values are bound or quoted

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from apportion.errors import InvariantBroken, Unequal
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.script import Statement, failing, script
from apportion.shards.postgres.server import count
from apportion.shards.postgres.tables import Rivalry, ServerTable, columns
from apportion.stores.postgres.driver import Connection, psycopg

STAGE = "pg_temp.apportion_stage"
_EXACT = re.compile(r"bytea|boolean|date|integer|smallint|uuid")
_TEXT = re.compile(r"text|character varying(\(\d+\))?")
_DIGITS = re.compile(r"\(\d\)")
_BYTES = {
    "bigint": "int8send",
    "timestamp without time zone": "timestamp_send",
    "timestamp with time zone": "timestamptz_send",
}


def slots_of(group: MoveGroup) -> str:
    """Return the condition that a slot is one of the group."""
    return f"slot = ANY ('{{{','.join(map(str, group.slots))}}}'::smallint[])"


def text(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def given(forms: Sequence[tuple[str, str]], keys: Sequence[str]) -> str:
    """Return a query of keys, each in JSON; `forms` has the name and the type of each column.

    The query names only these columns. With the type of the whole row, PostgreSQL would check the domains of all
    columns, also of those without a value.
    """
    made = ", ".join(f"{name} {form}" for name, form in forms)
    names = columns(name for name, _ in forms)
    return f"SELECT {names} FROM jsonb_to_recordset({text('[' + ','.join(keys) + ']')}::jsonb) given ({made})"


def digest(table: ServerTable, alias: str = "kept") -> str:
    """Return the expression for the digest of a row, a number of 60 bits."""
    return f"('x' || left(md5(ROW({table.listed(alias)})::text), 15))::bit(60)::bigint"


def slot_totals(group: MoveGroup, table: ServerTable, place: str = "") -> str:
    """Return the query for the number of rows, and a digest of them, of each slot of a group.

    `place` stands for the table, if it is not the table itself.

    A row's digest is the server's hash of the row, hashed once more. Without the second hash, two rows that exchanged
    their values would cancel out. Two servers may hash in different ways. Then all slots differ, and a look at each row
    decides. Cost: a fifth to a third of the time of `digest`.
    """
    total = f"bit_xor(hash_numeric_extended(hash_record_extended(ROW({_hashable(table)}), 0)::numeric, 0))"
    return f"SELECT slot, count(*), {total} FROM {place or table.name} kept WHERE {slots_of(group)} GROUP BY slot"


def _hashable(table: ServerTable) -> str:
    """Return the columns of a row so that different values have different hashes.

    The server's hash folds 64 bits to 32: -1 and 4294967295 have the same. So it gets the bytes of such a value. It
    takes equal values for one, as 1.0 and 1.00, or texts in some collations. So it gets other values as one text, the
    same as for `digest`. A cast of each value would lose the blanks at the end of a bpchar.
    """
    parts, others = list[str](), list[str]()
    for name, kind in table.columns:
        column, sent = f"kept.{name}", _BYTES.get(_DIGITS.sub("", kind))
        if _EXACT.fullmatch(kind):
            parts.append(column)
        elif _TEXT.fullmatch(kind):
            parts.append(f'{column} COLLATE "C"')
        elif sent:
            parts.append(f"{sent}({column})")
        else:
            others.append(column)
    return ", ".join([*parts, *([f'ROW({", ".join(others)})::text COLLATE "C"'] if others else [])])


async def staged(source: Connection, target: Connection, table: ServerTable, where: str) -> int:
    """Bring rows of the source into the stage of the target's transaction; return how many."""
    made = f"CREATE TEMP TABLE apportion_stage (LIKE {table.name} INCLUDING GENERATED) ON COMMIT DROP"
    await script(target, _written(f"DROP TABLE IF EXISTS {STAGE}"), _written(made))
    into = f"COPY {STAGE} ({table.listed()}) FROM STDIN"
    select = f"COPY (SELECT {table.listed()} FROM {table.source} kept WHERE {where}) TO STDOUT"
    async with target.cursor() as there:
        async with there.copy(into.encode()) as rows_in, aclosing(_parts(source, select)) as rows_out:
            async for part in rows_out:
                await rows_in.write(part)
        return there.rowcount


async def _parts(source: Connection, select: str) -> AsyncGenerator[bytes | bytearray | memoryview, None]:
    """Yield the parts of a COPY. `ConnectionFailed` names the source, because the caller is a step of the target."""
    with failing(source):
        async with source.cursor() as here, here.copy(select.encode()) as rows_out:
            async for part in rows_out:
                yield part


async def placed(
    target: Connection, group: MoveGroup, table: ServerTable, before: Sequence[str] = (), after: Sequence[str] = ()
) -> list[list[Any]]:
    """Put the staged rows in place, in one wait. `before` and `after` run with it; return the rows of `after`."""
    names = table.listed()
    insert = f"INSERT INTO {table.name} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {STAGE}"
    gone = [_rivals_gone(group, table, rivalry) for rivalry in table.rivalries]
    statements = [_written(each) for each in (*before, *gone, insert, *after)]
    try:
        found = await script(target, *statements)
    except (psycopg.errors.UniqueViolation, psycopg.errors.ExclusionViolation) as error:
        hint = "Nothing was written. Give one of the two rows another key; a key must be unique in the set."
        shown = [error.diag.message_detail or f"{error}"]
        raise Unequal(table.name, shown, "has rows of other slots with the same keys on the target", hint) from error
    return found[len(statements) - len(after) :]


def _written(statement: str) -> Statement:
    """Return a statement whose values are written in it already."""
    return Statement(statement.replace("%", "%%"))


def _rivals_gone(group: MoveGroup, table: ServerTable, rivalry: Rivalry) -> str:
    """Return the statement that deletes the rows of the group in conflict with the staged rows."""
    named = [(part, sign, f"row.apportion_{number}") for number, (part, sign) in enumerate(rivalry.parts)]
    staged_parts = ", ".join(f"({part}) AS {other.removeprefix('row.')}" for part, _, other in named)
    condition = f"({rivalry.condition})" if rivalry.condition else "true"
    same = [f"({part}) {sign} {other}" for part, sign, other in named]
    if rivalry.has_equal_nulls:
        same = [
            f"({each} OR (({part}) IS NULL AND {other} IS NULL))"
            for each, (part, _, other) in zip(same, named, strict=True)
        ]
    rows_there = f"(SELECT {staged_parts} FROM {STAGE} WHERE {condition}) row"
    where = " AND ".join((f"kept.{slots_of(group)}", condition, *same))
    return f"DELETE FROM {table.name} kept USING {rows_there} WHERE {where}"


async def replaced(
    source: Connection, target: Connection, group: MoveGroup, table: ServerTable, keys: Sequence[str]
) -> None:
    """Bring the rows with some keys, each in JSON, to the target as they are on the source, and compare them."""
    where = f"{slots_of(group)} AND ({columns(table.key)}) IN ({given(table.key_forms, keys)})"
    number = await staged(source, target, table, where)
    totals = f"SELECT count(*), sum({digest(table)}) FROM"
    compared = [f"{totals} {STAGE} kept", f"{totals} {table.name} kept WHERE {where}"]
    [there], [here] = await placed(target, group, table, [f"DELETE FROM {table.name} WHERE {where}"], compared)
    if here != there:
        raise Unequal(table.name, [f"{here[0]} rows instead of {number}"], "has changed while it was written")


async def require_incoming(target: Connection, group: MoveGroup) -> None:
    """Raise unless every slot of the group is incoming on this shard, so that no writer owns its rows here."""
    found = "SELECT 1 FROM apportion.slot WHERE move = %s AND state = 'incoming' AND slot = ANY (%s) FOR SHARE"
    if await count(target, found, group.move, list(group.slots)) != len(group.slots):
        raise InvariantBroken(f"rows of move {group.move} were to be written while a slot was not incoming")
