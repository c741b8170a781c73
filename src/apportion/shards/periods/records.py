"""Records of periods in the control store: the timed tables of a set, and the partitions of each shard.

A set that never had a timed table has none of these records.

Promises: the length of a table's periods never changes. A damaged record raises `BadSnapshot`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, TypeAlias, get_args

from sqlalchemy import MetaData

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.errors.brief import brief
from apportion.model.codec.parsing import integer, items, members, pairs, refuse, text
from apportion.shards.periods.period import LENGTHS
from apportion.shards.periods.timed_table import TimedTable, timed_in
from apportion.shards.records import Fields, SetKeys, decoded, encoded, read_record
from apportion.stores import api

PartitionState: TypeAlias = Literal["attached", "detached"]
_STATES: tuple[PartitionState, ...] = get_args(PartitionState)
_TRIES = 20


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TimePartition:
    """A partition of a timed table: the rows from the day `lower` up to the day `upper`, without the latter.

    None is an open end. `made` is the second of the wall clock at which it was first seen. `rows` is an estimate of the
    server, `bytes` counts its indexes too. A `detached` partition has left its table, and waits for its end.
    """

    table: str
    name: str
    lower: date | None
    upper: date | None
    made: int = 0
    rows: int = 0
    bytes: int = 0
    state: PartitionState = "attached"


def encode_tables(tables: Mapping[str, TimedTable]) -> bytes:
    """Return the record of the timed tables of a set as bytes."""
    return encoded({"tables": {name: [each.column, each.length] for name, each in sorted(tables.items())}})


def decode_tables(data: bytes) -> dict[str, TimedTable]:
    """Return the timed tables that a record holds."""
    fields = Fields(decoded(data, "periods"), "tables")
    return fields.read("tables", lambda form: {name: _table(name, each) for name, each in pairs(form).items()})


def encode_partitions(partitions: Sequence[TimePartition]) -> bytes:
    """Return the record of the partitions of a shard as bytes."""
    return encoded({"partitions": [_fields(each) for each in partitions]})


def decode_partitions(data: bytes) -> tuple[TimePartition, ...]:
    """Return the partitions that a record holds."""
    fields = Fields(decoded(data, "partitions"), "partitions")
    return fields.read("partitions", lambda form: tuple(map(_partition, items(form))))


async def timed_tables(store: api.CoordinationStore, keys: SetKeys) -> tuple[dict[str, TimedTable], api.Compare]:
    """Return the timed tables of a set, and the compare that holds while they stay the same."""
    for item in (await store.scan(keys.periods)).items:
        if item.key == keys.periods:
            same = api.Unchanged(key=item.key, revision=item.revision)
            return read_record(item.key, item.value, decode_tables), same
    return {}, api.Absent(key=keys.periods)


async def note_tables(store: api.CoordinationStore, keys: SetKeys, metadata: MetaData) -> None:
    """Note the timed tables of the models. `InvalidInput` for a table that the set knows with another period."""
    wanted = {each.name: each for each in timed_in(metadata)}
    for _ in range(_TRIES):
        known, same = await timed_tables(store, keys)
        for name in sorted(known.keys() & metadata.tables.keys()):
            _check_same(known[name], wanted.get(name))
        if not wanted.keys() - known.keys():
            return
        put = api.Put(key=keys.periods, value=encode_tables({**known, **wanted}))
        if isinstance(await store.commit(when=[same], puts=[put]), api.Committed):
            return
    raise StoreUnavailable("the control store", f"it refused {_TRIES} commits of the record {keys.periods}")


async def note_partitions(
    store: api.CoordinationStore, keys: SetKeys, shard: str, found: Sequence[TimePartition]
) -> tuple[TimePartition, ...]:
    """Note the partitions of a shard, and return them as `aged` does."""
    key = keys.partitions(shard)
    for _ in range(_TRIES):
        kept = [item for item in (await store.scan(key)).items if item.key == key]
        made = aged(read_record(key, kept[0].value, decode_partitions) if kept else (), found)
        value = encode_partitions(made)
        same = api.Unchanged(key=key, revision=kept[0].revision) if kept else api.Absent(key=key)
        if kept and kept[0].value == value:
            return made
        if isinstance(await store.commit(when=[same], puts=[api.Put(key=key, value=value)]), api.Committed):
            return made
    raise StoreUnavailable("the control store", f"it refused {_TRIES} commits of the record {key}")


async def noted_partitions(store: api.CoordinationStore, keys: SetKeys, shard: str) -> tuple[TimePartition, ...]:
    """Return the partitions that were last noted for a shard."""
    key = keys.partitions(shard)
    for item in (await store.scan(key)).items:
        if item.key == key:
            return read_record(key, item.value, decode_partitions)
    return ()


def _check_same(known: TimedTable, wanted: TimedTable | None) -> None:
    hint = "A table keeps its periods. Restore the model, or copy the rows to a table of another name."
    found = (None, None) if wanted is None else (wanted.length, wanted.column)
    for noun, value, expected in zip(("period", "time"), found, (known.length, known.column), strict=True):
        if value != expected:
            raise InvalidInput(f"{noun} of table {known.name}", value, f"{expected}, as the set has it", hint)


def aged(known: Sequence[TimePartition], found: Sequence[TimePartition]) -> tuple[TimePartition, ...]:
    """Return the partitions that a shard has, with the facts that it no longer tells.

    These are the time at which a partition was first noted, and the bounds of a detached one.
    """
    by_name = {(each.table, each.name): each for each in known}
    ordered = sorted(found, key=lambda each: (each.table, each.upper or date.max, each.name))
    return tuple(_aged(by_name.get((each.table, each.name)), each) for each in ordered)


def _aged(known: TimePartition | None, found: TimePartition) -> TimePartition:
    if known is None:
        return found
    lower, upper = (found.lower, found.upper) if found.state == "attached" else (known.lower, known.upper)
    return replace(found, made=known.made, lower=lower, upper=upper)


def _fields(each: TimePartition) -> dict[str, object]:
    return {
        "table": each.table,
        "name": each.name,
        "lower": None if each.lower is None else each.lower.isoformat(),
        "upper": None if each.upper is None else each.upper.isoformat(),
        "made": each.made,
        "rows": each.rows,
        "bytes": each.bytes,
        "state": each.state,
    }


def _partition(form: object) -> TimePartition:
    names = ("table", "name", "lower", "upper", "made", "rows", "bytes", "state")
    table, name, lower, upper, made, rows, size, state = members(form, *names)
    if state not in _STATES:
        refuse(state, f"one of {', '.join(_STATES)}")
    return TimePartition(
        table=text(table),
        name=text(name),
        lower=_day(lower),
        upper=_day(upper),
        made=integer(made),
        rows=integer(rows),
        bytes=integer(size),
        state=state,
    )


def _day(value: object) -> date | None:
    if value is None:
        return None
    try:
        return date.fromisoformat(text(value))
    except ValueError:
        refuse(value, "a day, such as 2026-01-31")


def _table(name: str, form: object) -> TimedTable:
    column, length = items(form, 2)
    if length not in LENGTHS:
        refuse(length, f"one of {', '.join(LENGTHS)}")
    return TimedTable(name=name, column=text(column), length=length)
