"""Comparison of the rows of a group while a subscription brings changes: whole slots first, then single rows.

A row that a writer changed a moment ago may differ because its change is still on its way. So rows that differ are
looked at again after a marker has arrived, because by then the change has arrived too. A row that differs five times is
looked at behind the locks of its slot. Nothing is on its way then, so it has to be equal.

Promises: the comparison finds a row that either side lacks. Only writers of slots with a differing row wait, until one
marker has arrived.
"""

# ruff: noqa: S608 - names are quoted, values are bound

from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import TypeAlias, TypeVar

from apportion.errors import Unequal
from apportion.runtime.both import both
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.server import ShardServer, Work, rows
from apportion.shards.postgres.tables import ServerTable, columns
from apportion.shards.postgres.transport import digest, given, slot_totals, slots_of, text
from apportion.stores.postgres.driver import Connection

VERIFY_SECONDS = 1.0
_MOST_ROWS = 1_000

Result = TypeVar("Result")

Suspects: TypeAlias = dict[ServerTable, dict[str, int]]
"""Rows that differed at the last look: the slot of each key. A key is a text in JSON."""


class StreamDigests:
    """One comparison. It goes on from call to call. Another process begins anew. `mark` has its attempt and schemas."""

    def __init__(self, group: MoveGroup, mark: str, source: ShardServer, target: ShardServer) -> None:
        self.mark: str = mark
        self._group, self._source, self._target = group, source, target
        self._done: set[str] = set()

    async def compare(self, tables: Sequence[ServerTable]) -> tuple[bool, Suspects]:
        """Compare tables for a second. Return whether all were compared, and the rows that differ so far."""
        ends, found = monotonic() + VERIFY_SECONDS, Suspects()
        for table in tables:
            if table.name in self._done:
                continue
            if monotonic() >= ends or found:
                return False, found
            differing = await self._differing(table)
            if differing:
                found[table] = differing
            self._done.add(table.name)
        return True, found

    async def again(self, suspects: Suspects) -> Suspects:
        """Compare some rows again. Return those that still differ."""
        left = Suspects()
        for table, keys in suspects.items():
            marks, others = await self._on_both(partial(_marks, group=self._group, table=table, keys=[*keys]))
            if differing := {key: slot for key, slot in keys.items() if marks.get(key) != others.get(key)}:
                left[table] = differing
        return left

    async def _differing(self, table: ServerTable) -> dict[str, int]:
        first, second = await self._on_both(partial(_totals, group=self._group, table=table))
        found: dict[str, int] = {}
        for slot in sorted(slot for slot in first | second if first.get(slot) != second.get(slot)):
            marks, others = await self._on_both(partial(_marks_of_slot, table=table, slot=slot))
            differ = sorted(key for key in marks | others if marks.get(key) != others.get(key))
            found |= dict.fromkeys(differ[:_MOST_ROWS], slot)
        return found

    async def _on_both(self, read: Work[Result]) -> tuple[Result, Result]:
        return await both(self._source.read(read), self._target.read(read))


def refusal(wrong: Suspects) -> Unequal:
    """Return the error that names the rows of the first table that differ."""
    table, keys = next(iter(wrong.items()))
    found = [f"{key} of slot {slot}" for key, slot in keys.items()]
    return Unequal(table.name, found, "has rows that differ on the target, and no change of them is on its way")


async def _totals(connection: Connection, group: MoveGroup, table: ServerTable) -> dict[int, tuple[int, int]]:
    found = await rows(connection, slot_totals(group, table).replace("%", "%%"))
    return {slot: (count, total) for slot, count, total in found}


async def _marks_of_slot(connection: Connection, table: ServerTable, slot: int) -> dict[str, int]:
    return dict(await rows(connection, f"{_marked(table)} WHERE slot = {slot}".replace("%", "%%")))


async def _marks(connection: Connection, group: MoveGroup, table: ServerTable, keys: Sequence[str]) -> dict[str, int]:
    where = f"{slots_of(group)} AND ({columns(table.key)}) IN ({given(table.key_forms, keys)})"
    return dict(await rows(connection, f"{_marked(table)} WHERE {where}".replace("%", "%%")))


def _marked(table: ServerTable) -> str:
    key = ", ".join(f"{text(raw)}, kept.{name}" for name, raw in zip(table.key, table.key_names, strict=True))
    return f"SELECT jsonb_build_object({key})::text, {digest(table)} FROM {table.name} kept"
