"""Query: one statement of SQL on each shard of a set. The rows of the shards stay apart.

First a transaction that only reads begins on every shard. Then it is known which shard answers for which slot.
`{owned}` in the statement stands for the condition that leaves out rows of other slots. `{p.owned}` is that of the
table `p`.

Promises: each shard runs one statement, in a transaction that cannot write.
Refuses: statements that do not read, a second statement in the text, and a statement without `{owned}` on a shard that
may have rows of slots that are not its own.
"""

import asyncio
import re
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.shards.admin.reads.snapshots import Snapshot, begun_snapshots
from apportion.shards.records import SetKeys
from apportion.shards.router import FollowedSet, set_followed, set_left, table_of
from apportion.shards.slots import SlotTable

MOST_ROWS = 10_000
"""The most rows of one shard, by default."""

_TRIES = 3
_WITHIN_SECONDS = 5.0
_OWNED = re.compile(r"\{(?:(\w+)\.)?owned\}", re.ASCII)
_COMMENT = re.compile(r"/\*|\*/")
_SILENT = {
    "sqlite": re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*""", re.DOTALL),
    "postgresql": re.compile(
        r"""\b[eE]'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w$])\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*""",
        re.DOTALL,
    ),
}
"""Text of SQL that is no condition: literals, quoted names, and comments. Of a comment with an end, its beginning."""
_READS = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)
_FILTER = "Write the condition {owned} into WHERE: select ... where {owned}; for the table p: {p.owned}"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRows:
    """The answer of one shard: the names of the columns, and the rows."""

    shard: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


async def queried(url: str, name: str, statement: str, max_rows: int) -> tuple[ShardRows, ...]:
    """Run a statement on each shard of a set; return the rows of each. Errors are those of the databases."""
    if not isinstance(statement, str) or not _READS.match(statement):
        hint = "Write for example: select country, count(*) from place where {owned} group by country"
        raise InvalidInput("statement", statement, "one that begins with SELECT, WITH or VALUES", hint)
    if "\0" in statement or any("\ud800" <= each <= "\udfff" for each in statement):
        raise InvalidInput("statement", statement, "text without NUL and without half of a character", "Type it anew.")
    if type(max_rows) is not int or max_rows < 1:
        raise InvalidInput("max_rows", max_rows, "an int of at least 1", f"Leave it out to get {MOST_ROWS}.")
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        for _ in range(_TRIES):
            table = table_of(followed.follower.routes)
            found = await asyncio.to_thread(_queried, table, followed, statement, max_rows)
            if found is not None:
                return found
    finally:
        await set_left(followed)
    hint = "A switch may be under way, or its mover is away. See: apportion shards status URL SET"
    raise InvalidInput("owners of the slots", "none or two for a slot", "one owner for each slot", hint)


def _queried(table: SlotTable, followed: FollowedSet, statement: str, max_rows: int) -> tuple[ShardRows, ...] | None:
    with ExitStack() as stack:
        begun = begun_snapshots(stack, table, followed)
        if begun is None:
            return None
        others = {shard: each.fence.others(each.connection) - each.owned for shard, each in begun.items()}
        filtered = {
            shard: _filtered(statement, others[shard], each.connection.dialect.name) for shard, each in begun.items()
        }
        for shard, slots in others.items():
            if slots and filtered[shard] == statement:
                found = f"one without it, and shard {shard} may have rows of {len(slots)} other slots"
                raise InvalidInput("statement", found, "one with the condition {owned}", _FILTER)
        return tuple(_asked(shard, each, filtered[shard], max_rows) for shard, each in begun.items())


def _filtered(statement: str, others: Collection[int], kind: str) -> str:
    """Return a statement with the condition of owned slots, unless it stands in a literal, a name or a comment.

    >>> _filtered("select 1 from place p where {p.owned}", {7, 8}, "sqlite")
    'select 1 from place p where (p.slot NOT IN (7, 8))'
    >>> _filtered("select '{owned}' /* {owned} */ from place where {owned}", (), "sqlite")
    "select '{owned}' /* {owned} */ from place where (1 = 1)"
    """
    slots = ", ".join(map(str, sorted(others)))

    def _condition(found: re.Match[str]) -> str:
        column = f"{found[1]}.slot" if found[1] else "slot"
        return f"({column} NOT IN ({slots}))" if others else "(1 = 1)"

    made, place = "", 0
    while silent := _SILENT[kind].search(statement, place):
        end = _end_of_comment(statement, silent.end(), kind) if silent[0] == "/*" else silent.end()
        made += _OWNED.sub(_condition, statement[place : silent.start()]) + statement[silent.start() : end]
        place = end
    return made + _OWNED.sub(_condition, statement[place:])


def _end_of_comment(statement: str, place: int, kind: str) -> int:
    """Return the place after a comment. In PostgreSQL, it may have other comments within it."""
    depth = 1
    for mark in _COMMENT.finditer(statement, place):
        depth += -1 if mark[0] == "*/" else kind == "postgresql"
        if not depth:
            return mark.end()
    return len(statement)


def _asked(shard: str, snapshot: Snapshot, statement: str, max_rows: int) -> ShardRows:
    connection = snapshot.connection
    cursor: Any = connection.connection.cursor()
    try:
        if connection.dialect.name == "sqlite":
            cursor.execute("PRAGMA query_only = ON")
            cursor.execute(statement)
        else:
            cursor.execute(statement, prepare=True)  # a server prepares one statement, and no second one behind it
        rows = cursor.fetchmany(max_rows + 1)
    except connection.dialect.loaded_dbapi.Error as error:
        said = next(iter(f"{error}".splitlines()), type(error).__name__)
        hint = "Each shard runs the statement as it is, with {owned} replaced."
        found = f"one that shard {shard} refuses: {said}"
        raise InvalidInput("statement", found, "one that each shard can run", hint) from error
    if len(rows) > max_rows:
        found = f"one with more than {max_rows} rows on shard {shard}"
        raise InvalidInput("statement", found, "one with fewer rows", "Add a LIMIT, or WHERE.")
    return ShardRows(shard=shard, columns=tuple(each[0] for each in cursor.description), rows=tuple(map(tuple, rows)))
