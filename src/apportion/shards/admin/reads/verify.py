"""Verify: compares every row of a set with its slot, and the owners of all slots with each other, on demand.

First a read transaction begins on every shard. Then the owners of the slots are compared. During a switch, the
transactions begin anew.

Promises: in a sound set each slot has one owner, and each row has the slot of its key or of its parent. No primary key
lies in owned slots of two shards. Rows of reference tables are equal on all shards. O(rows) in time, and 100 bytes per
row in memory.
Refuses: to call a set sound if it has no rows.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy import Connection, Select, Table, literal, select, type_coerce
from sqlalchemy.exc import DataError
from sqlalchemy.orm import DeclarativeBase, Mapper
from sqlalchemy.types import NullType
from xxhash import xxh3_128_digest

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.shards.admin.reads.snapshots import begun_snapshots
from apportion.shards.models import RowRule, Sharded, check_models, rule_of
from apportion.shards.records import SetKeys
from apportion.shards.references import compare_references
from apportion.shards.router import FollowedSet, set_followed, set_left, table_of
from apportion.shards.slots import SlotTable
from apportion.shards.takeover.takeover import reached

MOST_FAULTS = 20
"""The most faults that are described. All faults are counted."""

_TRIES = 3
_WITHIN_SECONDS = 5.0
_BATCH = 5_000
_MISFITS = (ValueError, TypeError, LookupError, ArithmeticError, DataError)
"""The errors that a type of SQLAlchemy raises for a stored value that does not fit the type."""
_Row: TypeAlias = tuple[int, tuple[Any, ...], Sequence[Any]]
"""The slot of a row, its primary key, and the values that decide the slot."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetVerification:
    """The result of a comparison: rows in owned slots, copies that moves have left, and faults.

    `references` counts the rows of reference tables on one shard. They were compared with those of every other shard.
    `faults` describes the first 20 faults, and `faulty` counts all of them.
    """

    rows: int
    left: int
    faulty: int
    faults: tuple[str, ...]
    references: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether rows were compared, without a fault."""
        return self.rows > 0 and not self.faulty


@dataclass(slots=True)
class _Comparison:
    """The counts of a running comparison. `seen` maps the digest of a table and a primary key to a shard."""

    table: SlotTable
    rows: int = 0
    left: int = 0
    faulty: int = 0
    faults: list[str] = field(default_factory=list)
    seen: dict[bytes, str] = field(default_factory=dict)

    def compare(self, connection: Connection, mapper: Mapper[Any], shard: str, owned: Collection[int]) -> None:
        """Compare the rows of one table on one shard."""
        rule, before = rule_of(mapper.class_), (self.rows, self.left, self.faulty, len(self.faults))
        try:
            self._compare(_rows(connection, mapper, rule), mapper, shard, owned)
        except _MISFITS:
            self.rows, self.left, self.faulty, described = before
            del self.faults[described:]
            self._compare(self._fitting(connection, mapper, shard), mapper, shard, owned)

    def _fitting(self, connection: Connection, mapper: Mapper[Any], shard: str) -> Iterator[_Row]:
        """Yield the rows of a table with values that fit its model. Each other row is a fault. One query per row."""
        statement, primary, name = (
            _statement(mapper, rule_of(mapper.class_)),
            mapper.primary_key,
            _table_of(mapper).name,
        )
        plain = [type_coerce(column, NullType()) for column in primary]
        for found in connection.execute(select(*plain)).all():
            one = statement.where(
                *(column == literal(value, NullType()) for column, value in zip(plain, found, strict=True))
            )
            try:
                slot, *values = connection.execute(one).one()
            except _MISFITS as error:
                self.fault(f"{name} {tuple(found)} on shard {shard} has a value that does not fit its model: {error}")
            else:
                yield slot, tuple(values[: len(primary)]), values[len(primary) :]

    def _compare(self, rows: Iterable[_Row], mapper: Mapper[Any], shard: str, owned: Collection[int]) -> None:
        rule, name = rule_of(mapper.class_), _table_of(mapper).name
        for slot, primary, kept in rows:
            if slot not in owned:
                self.left += 1
                continue
            self.rows += 1
            try:
                due = kept[0] if rule.parent else self.table.slot(rule.key_of(dict(zip(rule.key, kept, strict=True))))
            except InvalidInput as error:
                self.fault(f"{name} {primary} on shard {shard} has a shard key that nobody can route: {error.problem}")
                continue
            if slot != due:
                self.fault(f"{name} {primary} on shard {shard} has slot {slot}, and its key has {due}")
            digest = xxh3_128_digest(repr((name, primary)).encode())
            if self.seen.setdefault(digest, shard) != shard:
                self.fault(f"{name} {primary} lies on shard {self.seen[digest]}, and on shard {shard}")

    def fault(self, said: str) -> None:
        """Count a fault, and describe it while fewer than `MOST_FAULTS` are described."""
        self.faulty += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(said)


async def verified(url: str, name: str, base: type[DeclarativeBase]) -> SetVerification:
    """Compare all rows of a set. Errors are those of `open_shards` and of the databases."""
    check_models(base)
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        for _ in range(_TRIES):
            table = table_of(followed.follower.routes)
            found = await asyncio.to_thread(_verified, table, followed, base)
            if found is not None:
                return found
    finally:
        await set_left(followed)
    hint = "A switch may be under way, or its mover is away. See: apportion shards status URL SET"
    raise InvalidInput("owners of the slots", "none or two for a slot", "one owner for each slot", hint)


def _verified(table: SlotTable, followed: FollowedSet, base: type[DeclarativeBase]) -> SetVerification | None:
    """Return the result. Return None while a slot has no owner, or two."""
    with ExitStack() as stack:
        begun = begun_snapshots(stack, table, followed)
        if begun is None:
            return None
        tally = _Comparison(table=table)
        for shard, snapshot in begun.items():
            for mapper in base.registry.mappers:
                if issubclass(mapper.class_, Sharded) and mapper.inherits is None:
                    reached(shard, partial(tally.compare, snapshot.connection, mapper, shard, snapshot.owned))
        connections = {shard: each.connection for shard, each in begun.items()}
        references = reached(", ".join(begun), partial(compare_references, connections, base, tally.fault))
    return SetVerification(
        rows=tally.rows, left=tally.left, faulty=tally.faulty, faults=tuple(tally.faults), references=references
    )


def _rows(connection: Connection, mapper: Mapper[Any], rule: RowRule) -> Iterator[_Row]:
    """Yield the rows of a table."""
    statement, count = _statement(mapper, rule), len(mapper.primary_key)
    with closing(connection.execution_options(yield_per=_BATCH).execute(statement)) as result:
        for slot, *values in result:
            yield slot, tuple(values[:count]), values[count:]


def _statement(mapper: Mapper[Any], rule: RowRule) -> Select[Any]:
    """Return the query over a table. For a child, it also selects the slot of the parent."""
    table = _table_of(mapper)
    primary = mapper.primary_key
    if rule.key:
        return select(table.c.slot, *primary, *(mapper.columns[name] for name in rule.key))
    column = mapper.columns[rule.parent]
    parent = next(iter(column.foreign_keys)).column
    owner = parent.table.alias()
    joined = table.outerjoin(owner, owner.c[parent.name] == column)
    return select(table.c.slot, *primary, owner.c.slot).select_from(joined)


def _table_of(mapper: Mapper[Any]) -> Table:
    table = mapper.local_table
    if not isinstance(table, Table):
        raise InvalidInput("model", mapper.class_.__name__, "a model of a table", "Map it to a table.")
    return table
