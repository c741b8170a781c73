"""Scatter: one statement over all shards of a set, answered as one database with all rows would answer it.

The statement is analysed before any shard is asked. Then all shards are asked at the same time, in transactions that
see each slot once.

Promises: during a move one shard answers for each slot. An answer that lacks slots is given only to a caller that asked
for one, and it names these slots.
Refuses: statements that have no such answer, and more rows than the caller expects.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Literal, Protocol, TypeAlias

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from apportion.errors import ApportionError, InvalidInput, NotScatterable, StaleRoute, Unavailable, UnknownOption
from apportion.shards.dialects import kind_of
from apportion.shards.forms import Gather, Gathering
from apportion.shards.pin import SWITCH_SECONDS, Fence, NotAccepted
from apportion.shards.records import ShardRecord
from apportion.shards.scatter.analysis import analysed
from apportion.shards.scatter.answer import ScatterAnswer
from apportion.shards.scatter.colocation import SetTables
from apportion.shards.scatter.known_shards import KnownShards
from apportion.shards.scatter.merge import merged
from apportion.shards.scatter.plan import ScatterPlan
from apportion.shards.scatter.reads import ShardRead
from apportion.shards.slot_rows import owners_of
from apportion.shards.slots import SlotTable
from apportion.tables.follower import check_seconds
from apportion.tables.layout import Version

Partial: TypeAlias = Literal["error", "report"]

MOST_ROWS = 100_000
_TRIES = 3
_LOOK_SECONDS = 0.05


class ScatterRoads(Protocol):
    """A router as a scatter needs it."""

    @property
    def table(self) -> SlotTable:
        """The table in use."""

    def engine(self, shard: str) -> tuple[Engine, Fence]:
        """Return the engine of a shard, and its fence."""

    def refreshed(self, version: Version, within_seconds: float) -> SlotTable:
        """Return a table newer than `version`. `StoreUnavailable` if none came in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterOptions:
    """The limits of a scatter: the seconds for each shard, the answer if shards are missing, and the most rows."""

    timeout: float | None = None
    partial: Partial = "error"
    max_rows: int = MOST_ROWS

    def __post_init__(self) -> None:
        if self.timeout is not None:
            check_seconds(self.timeout, "timeout")
        if self.partial not in ("error", "report"):
            raise UnknownOption("partial", self.partial, ("error", "report"))
        if type(self.max_rows) is not int or self.max_rows < 1:
            raise InvalidInput("max_rows", self.max_rows, "an int of at least 1", f"Leave it out to get {MOST_ROWS}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """A scatter of one router. `gathering` opens a way to make calls at the same time."""

    roads: ScatterRoads
    known: KnownShards
    tables: SetTables
    options: ScatterOptions
    gathering: Gathering

    def answer(self, statement: Any) -> ScatterAnswer:  # noqa: ANN401 - of a caller
        """Return the rows. `NotScatterable` if the shards cannot answer together; errors are those of the shards."""
        kinds = sorted({kind_of(record.url) for record in self._records()})
        if len(kinds) > 1:
            raise NotScatterable(statement, f"the shards are of several kinds: {', '.join(kinds)}")
        plan = analysed(statement, self.tables, kinds[0]).at_most(self.options.max_rows)
        until, tries = monotonic() + SWITCH_SECONDS, 0
        while tries < _TRIES or monotonic() < until:
            tries += 1
            with ExitStack() as stack:
                found = self._tried(plan, stack, stack.enter_context(self.gathering()))
            if found is not None:
                return found
        table = self.roads.table
        raise StaleRoute("a slot", "one shard", table.version)

    def _records(self) -> Collection[ShardRecord]:
        followed = self.known.followed
        return followed.shards.values()

    def _tried(self, plan: ScatterPlan, stack: ExitStack, gather: Gather) -> ScatterAnswer | None:
        """Return the answer. None while a slot has no shard that answers for it, or two, and after a new shard."""
        shards = self.known.ids(self.roads.table)
        begun = [ShardRead(shard, self.roads.engine, self.options.timeout) for shard in shards]
        for read in begun:
            stack.callback(read.end)
        try:
            reads = self._done(gather, begun, lambda read: read.begin)
        except (NotAccepted, ApportionError, DBAPIError):
            if not self.known.has_changed():  # a shard may have left the set
                raise
            return None
        table = self.roads.table
        owners = owners_of({read.shard: read.states for read in reads}, table.owners)
        if len(reads) < len(shards):  # a shard that does not answer may be the owner of a fenced slot
            owners = {slot: shard for slot, shard in owners.items() if _is_owner(reads, slot, shard)}
        elif owners.keys() != table.owners.keys() or None in owners.values():
            with suppress(Unavailable):
                self.roads.refreshed(table.version, _LOOK_SECONDS)
            return None
        elif any("fenced" in read.states.values() for read in reads) and self.known.has_changed():
            return None
        owned = defaultdict[str | None, set[int]](set)
        for slot, shard in owners.items():
            owned[shard].add(slot)
        tables = tuple(self.tables.sharded)
        asked = self._done(gather, reads, lambda read: partial(read.execute, plan, tables, owned[read.shard]))
        answered = {slot for read in asked for slot in owned[read.shard]}
        return ScatterAnswer(
            plan.names,
            self._rows(plan, asked),
            version=table.version,
            seconds={read.shard: read.seconds for read in asked},
            missing=sorted(table.owners.keys() - answered),
        )

    def _done(
        self, gather: Gather, reads: Sequence[ShardRead], call: Callable[[ShardRead], Callable[[], None]]
    ) -> list[ShardRead]:
        """Make a call for each shard, all at the same time. Return the reads without an error."""
        errors = gather([call(read) for read in reads])
        for error in errors:
            is_missing = isinstance(error, Unavailable | DBAPIError) and self.options.partial == "report"
            if error is not None and not is_missing:
                raise error
        return [read for read, error in zip(reads, errors, strict=True) if error is None]

    def _rows(self, plan: ScatterPlan, reads: Sequence[ShardRead]) -> list[tuple[Any, ...]]:
        rows = []
        for row in merged(plan, [read.rows for read in reads]):
            rows.append(tuple(row))
            if len(rows) > self.options.max_rows:
                most = self.options.max_rows
                raise NotScatterable(plan.statement, f"it has more than {most} rows: add limit(), or raise max_rows")
        return rows


def _is_owner(reads: Sequence[ShardRead], slot: int, shard: str | None) -> bool:
    return any(read.shard == shard and read.states.get(slot) == "owner" for read in reads)
