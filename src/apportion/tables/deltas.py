"""Deltas: a table or an assignment as bytes, whole or as the difference from the version before.

Both kinds of value map positions to rows. Positions are tokens or bytes in a table, and partition numbers in an
assignment. A delta lists the nodes that left, the nodes that are new or changed, the positions that are gone, and the
new rows. All other rows stay. These rows keep the ids of their nodes, but the indexes of nodes shift when a node
leaves.

Promises: reading returns the value or raises `BadSnapshot`, never part of a value. Memory is bounded before it is
allocated. Only the epoch shows that a value is the right one: the caller compares it with the announced epoch.
Refuses: a delta between values that differ in kind, cluster, hash or partitions. Such a change needs a snapshot.
"""

import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NoReturn, TypeAlias

from apportion.errors import BadSnapshot
from apportion.model import codec
from apportion.model.assignment import Assignment
from apportion.model.codec.columns import number_column, numbers_of, row_column, rows_of
from apportion.model.codec.parsing import Json, integer, items, members, names_in, text
from apportion.model.rows import Row, Rows
from apportion.model.table import Table
from apportion.model.token import Position
from apportion.model.topology import Node, Topology, nodes_of

Routing: TypeAlias = Table | Assignment
"""A value that clients route by."""

_GONE = -1  # stands for a node that left; a new row must replace each row that has it
_MEMBERS = ("number", "slots", "left", "nodes", "gone", "puts", "width", "columns")


def snapshot(value: Routing) -> bytes:
    """Return the whole value, compressed; `BadSnapshot` when the value is above the limit of snapshots, 16 MiB."""
    return zlib.compress(codec.encode(value))


def of_snapshot(data: bytes, *, is_table: bool) -> Routing:
    """Return the value of a snapshot of that kind; `BadSnapshot` for anything else."""
    raw = _expanded(data)
    return codec.decode(raw, Table) if is_table else codec.decode(raw, Assignment)


def delta(was: Routing, now: Routing) -> bytes | None:
    """Return the delta that makes `now` from `was`, or None if the change needs a snapshot. O(rows).

    >>> was = Assignment(topology=Topology(["a", "b", "c"]), rows=((0,), (1,), (2,)))
    >>> now = Assignment(topology=was.topology.without("b"), rows=((0,), (1,), (1,)))
    >>> applied(was, delta(was, now)) == now
    True
    """
    if _frame(was) != _frame(now):
        return None
    ids = set(now.topology.ids)
    left = [index for index, node_id in enumerate(was.topology.ids) if node_id not in ids]
    nodes = [node for node in now.topology if node.id not in was.topology or was.topology[node.id] != node]
    before, after = dict(_moved(was, now.topology)), dict(_entries(now, now.rows))
    gone = [place for place, position in enumerate(before) if position not in after]
    puts = {position: row for position, row in after.items() if before.get(position) != row}
    width, owners = row_column(list(puts.values()))
    columns = [number_column(_gaps(gone), 4), *_position_columns(list(puts)), owners]
    form: Json = {
        "number": now.topology.number,
        "slots": (now.slots or 0) if isinstance(now, Table) else 0,
        "left": left,
        "nodes": [[node.id, node.zone, node.millionths] for node in nodes],
        "gone": len(gone),
        "puts": len(puts),
        "width": width,
        "columns": [len(column) for column in columns],
    }
    return zlib.compress(b"\n".join([json.dumps(form, separators=(",", ":")).encode(), b"".join(columns)]))


def applied(was: Routing, data: bytes) -> Routing:
    """Return the value that a delta makes from `was`. O(rows). `BadSnapshot` for bytes that are no delta of `was`."""
    try:
        return _applied(was, _expanded(data))
    except BadSnapshot:
        raise
    except (ValueError, LookupError, OverflowError, RecursionError) as error:
        raise BadSnapshot("delta of a table", data, "a delta of the version before", _HINT) from error


def _applied(was: Routing, raw: bytes) -> Routing:
    line, _, rest = raw.partition(b"\n")
    number, slots, left, nodes, gone, puts, width, lengths = members(json.loads(line), *_MEMBERS)
    columns = list(_cut(rest, [integer(length) for length in items(lengths)]))
    topology = _topology(was.topology, [integer(index) for index in items(left)], items(nodes), integer(number))
    entries = dict(_moved(was, topology))
    there = list(entries)
    for place in accumulate(numbers_of(columns.pop(0), 4, integer(gone))):
        del entries[there[place]]
    count = integer(puts)
    put_rows = rows_of(columns.pop(), integer(width), count, len(topology))
    positions = list(_positions(columns, count))
    is_numbered = isinstance(was, Assignment) or was.is_measurable
    if positions and isinstance(positions[0], int) != is_numbered:
        _refuse("positions of the other kind")
    entries.update(zip(positions, put_rows, strict=True))
    if any(_GONE in row for row in set(entries.values())):
        _refuse("rows of a node that left")
    if isinstance(was, Assignment):
        if len(entries) != len(was):
            _refuse(f"{len(entries)} partitions")
        return Assignment(topology=topology, rows=Rows.of(entries.values()), names=was.names)
    starts = tuple(sorted(entries))
    rows = tuple(map(entries.__getitem__, starts))
    return Table(topology=topology, hasher=was.hasher, starts=starts, rows=rows, slots=integer(slots) or None)


def _frame(value: Routing) -> tuple[object, ...]:
    """Return the properties that two values must share so that a delta can lead from one to the other."""
    if isinstance(value, Table):
        return Table, value.topology.cluster, value.hasher, value.is_measurable
    return Assignment, value.topology.cluster, len(value), value.names


def _entries(value: Routing, rows: Iterable[Row]) -> Iterator[tuple[Position, Row]]:
    return zip(value.starts if isinstance(value, Table) else range(len(value)), rows, strict=True)


def _moved(was: Routing, topology: Topology) -> Iterator[tuple[Position, Row]]:
    """Yield the entries of a value, with rows as indexes into another topology."""
    rows = list(was.rows)
    place_of = {node_id: place for place, node_id in enumerate(topology.ids)}
    places = [place_of.get(node_id, _GONE) for node_id in was.topology.ids]
    moved: dict[Row, Row] = {row: tuple(map(places.__getitem__, row)) for row in set(rows)}
    return _entries(was, map(moved.__getitem__, rows))


def _topology(was: Topology, left: list[int], changed: list[Json], number: int) -> Topology:
    listed = [items(node, 3) for node in changed]
    ids = [text(node[0]) for node in listed]
    nodes = nodes_of(ids, [names_in(node[1]) for node in listed], [integer(node[2]) for node in listed])
    missing = {*(was.ids[index] for index in left), *ids}
    kept: list[Node] = [node for node in was if node.id not in missing]
    return Topology([*kept, *nodes], cluster=was.cluster, number=number)


def _gaps(numbers: list[int]) -> list[int]:
    """Return ascending numbers as the first number and the steps after it, which compress better."""
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]


def _position_columns(positions: list[Position]) -> list[bytes]:
    """Return one column for numbers; for bytes, a column of their lengths and then the bytes themselves."""
    texts = [position for position in positions if isinstance(position, bytes)]
    if texts:
        return [number_column(list(map(len, texts)), 4), b"".join(texts)]
    return [number_column(_gaps([position for position in positions if isinstance(position, int)]), 8)]


def _positions(columns: list[bytes], count: int) -> Iterable[Position]:
    if len(columns) == 1:
        return accumulate(numbers_of(columns[0], 8, count))
    lengths, texts = columns
    return _cut(texts, numbers_of(lengths, 4, count))


def _cut(data: bytes, lengths: Iterable[int]) -> Iterator[bytes]:
    """Yield pieces of these lengths; `BadSnapshot` unless the lengths add up to all of the data."""
    start = 0
    for length in lengths:
        if not 0 <= length <= len(data) - start:
            _refuse("columns that end too soon")
        yield data[start : start + length]
        start += length
    if start != len(data):
        _refuse("columns with bytes left over")


def _expanded(data: bytes) -> bytes:
    """Return the decompressed bytes; `BadSnapshot` for data that is not compressed or is above the limit."""
    expander = zlib.decompressobj()
    try:
        raw = expander.decompress(data, codec.MAX_BYTES + 1)
    except zlib.error as error:
        raise BadSnapshot("chunks of a table", data, "the bytes that apportion wrote", _HINT) from error
    if len(raw) > codec.MAX_BYTES or not expander.eof or expander.unused_data:
        raise BadSnapshot("chunks of a table", data, f"whole, and at most {codec.MAX_BYTES} bytes", _HINT)
    return raw


_HINT = "Read the table again from its snapshot; if that fails too, publish it again."


def _refuse(found: str) -> NoReturn:
    raise BadSnapshot("delta of a table", found, "a delta of the version before", _HINT)
