"""Ranges of keys: neighbours stay together, so that a scan visits few nodes. Boundaries are chosen, not hashed.

Promises: no gap and no overlap by construction, because n boundaries make n + 1 ranges. Keys keep their order: ints
sort as numbers, and bytes sort byte by byte, which for text is the order of code points. A key moves only if its
range was given to another node.
Refuses: to choose boundaries or owners, and to mix ints with text: they have no common order.

A position is the key's bytes or, if the boundaries are ints, the int plus 2**63. In the second case, ranges have a
width.

Source: the tablets of Bigtable (Chang et al. 2006).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass, field
from functools import partial
from itertools import pairwise
from numbers import Integral
from typing import Self

from apportion.errors import BadRange, CannotPlace, InvalidInput, NotEnoughNodes, shown
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.table import Owners, Table
from apportion.model.token import KeyRange, Position, is_before
from apportion.model.topology import Topology
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.shapes.other_names import OtherNames
from apportion.placement.shapes.range_router import FIRST_INT, RangeRouter, ordered_position
from apportion.placement.spread import Spread, spread_rule

_INTS = "int-order"
_BYTES = "bytes-order"


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Ranges(RangeRouter, OtherNames):
    """Key ranges and their owners: `owners[i]` holds the keys from `bounds[i - 1]` up to, not including, `bounds[i]`.

    Boundaries are all ints, or all text (str, bytes, UUID), ascending. An owner is an id, or a tuple of ids, the
    leader first. Build: O(ranges). Lookup: O(log ranges).

    >>> ranges = Ranges(["a", "b", "c"], bounds=["g", "p"], owners=["a", "b", "c"])
    >>> ranges.route("delta"), ranges.route("golf"), ranges.route("zulu")
    ('a', 'b', 'c')
    >>> [(str(key_range), owners) for key_range, owners in ranges.scan("echo", "hotel")]
    [("[b'echo', b'g')", ('a',)), ("[b'g', b'hotel')", ('b',))]
    """

    topology: Topology
    _table: Table
    _ends: tuple[Position, ...] = field(compare=False)

    def __init__(self, nodes: Nodes, *, bounds: Sequence[Key], owners: Sequence[str | Owners]) -> None:
        _check_lists(bounds, owners)
        counted = bool(bounds) and all(isinstance(bound, (int, Integral)) for bound in bounds)
        topology = topology_of(nodes)
        rows = [(row,) if isinstance(row, str) else row for row in owners]
        table = Table(
            topology=topology,
            hasher=_INTS if counted else _BYTES,
            starts=_starts(bounds, counted=counted),
            rows=tuple(tuple(map(topology.index, row)) for row in rows),
        )
        self._fill(table)

    def _fill(self, table: Table) -> None:
        if hasattr(self, "topology"):
            raise FrozenInstanceError("a placement never changes: build another one, or call on(topology)")
        object.__setattr__(self, "topology", table.topology)
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_ends", table.starts[1:])
        self._lay(table.topology.ids, self._ends, table.rows, table.is_measurable)

    def _preferred(self, key: Key, count: int, *, spread_level: int | None, spread: Spread) -> tuple[str, ...]:
        """Return the first `count` owners of the key's range. Zones are up to the caller that named the owners."""
        spread_rule(self.topology, count, level=spread_level, spread=spread)
        owners = self._owners(self._row(key))
        if len(owners) < count:
            raise NotEnoughNodes(count, owners, f"from a range with {len(owners)} owners")
        return owners[:count]

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table:
        """Return the ranges as a table; rows are the first `replicas` owners. O(ranges)."""
        spread_rule(self.topology, replicas, level=spread_level, spread=spread)
        shortest = min(self._table.rows, key=len)
        if len(shortest) < replicas:
            raise NotEnoughNodes(replicas, self._owners(shortest), "of each range")
        rows = tuple(row[:replicas] for row in self._table.rows)
        return Table(topology=self.topology, hasher=self._table.hasher, starts=self._table.starts, rows=rows)

    def scan(self, start: Key | None = None, end: Key | None = None) -> list[tuple[KeyRange, Owners]]:
        """Return the ranges to read and their owners, in order, for all keys from `start` up to `end` (not included).

        Ranges hold positions; `keys_of` turns a range into its bounds as keys. As `start`, None means the first key;
        as `end`, the end of all keys. O(ranges met + log ranges). Raises `BadRange`.
        """
        low = self._table.starts[0] if start is None else self._position(start)
        high = self._table.end if end is None else self._position(end)
        if high is not None and not is_before(low, high):
            begin = "the first of all keys" if start is None else shown(start)
            raise BadRange("end of the scan", end, f"more than its start, {begin}", "Swap the two keys.")
        first = bisect_right(self._ends, low)
        last = len(self._ends) if high is None else bisect_left(self._ends, high)
        lows = (low, *self._ends[first:last])
        highs = (*self._ends[first:last], high)
        owners = (self._owners(row) for row in self._table.rows[first : last + 1])
        return [(KeyRange(left, right), names) for left, right, names in zip(lows, highs, owners, strict=True)]

    def keys_of(self, key_range: KeyRange) -> tuple[int | bytes, int | bytes | None]:
        """Return the bounds of a range of positions as keys: from the first up to, not including, the second.

        None is the end of all.

        >>> ranges = Ranges(["a", "b"], bounds=[0], owners=["a", "b"])
        >>> [(ranges.keys_of(key_range), owners) for key_range, owners in ranges.scan(-5, 7)]
        [((-5, 0), ('a',)), ((0, 7), ('b',))]
        """
        if not isinstance(key_range, KeyRange):
            raise InvalidInput("range", key_range, "a KeyRange", "Pass a range that scan named.")
        start, end = key_range.start, key_range.end
        if isinstance(start, int) is not self._table.is_measurable:
            kind = "of ints" if self._table.is_measurable else "of bytes"
            raise BadRange("range", str(key_range), f"one {kind}, like the boundaries", "Pass a range that scan named.")
        last = None if end == self._table.end else end
        return _key_at(start), None if last is None else _key_at(last)

    def explain(self, key: Key) -> Explanation:
        """Return the range of a key and its owners."""
        key_range = self._table.range_at(self._position(key))
        owner, *others = self._owners(self._row(key))
        first, last = self.keys_of(key_range)
        span = f"[{shown(first)}, {'end' if last is None else shown(last)})"
        return Explanation(
            key=key,
            placement="ranges",
            hasher=self._table.hasher,
            range=key_range,
            owner=owner,
            why=f"the key lies in {span}, which is given to {owner}",
            next=tuple(others),
            if_owner_left=others[0] if others else None,
        )

    def on(self, topology: Topology) -> Self:
        """Return the same ranges on another topology, less the owners that left or drain.

        Raises `CannotPlace` if a range has no owner left.
        """
        keeps = {node.id for node in topology if node.weight > 0}
        ranges = []
        for key_range, owners in self._table.ranges():
            kept = tuple(node_id for node_id in owners if node_id in keeps)
            if not kept:
                hint = "Give the range to a node that stays, then remove its owner."
                raise CannotPlace(f"{key_range} would have no owner on {topology!r}.", hint)
            ranges.append((key_range, kept))
        moved = type(self).__new__(type(self))
        moved._fill(Table.from_ranges(ranges, topology=topology, hasher=self._table.hasher))
        return moved

    def _row(self, key: Key) -> tuple[int, ...]:
        return self._table.rows[self._range(key)]

    def _owners(self, row: tuple[int, ...]) -> Owners:
        return tuple(self.topology.ids[index] for index in row)

    def _position(self, key: Key) -> Position:
        return ordered_position(key, self._table.is_measurable)

    def __reduce__(self) -> "tuple[partial[Ranges], tuple[Table]]":
        return partial(_of_table, type(self)), (self._table,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._table.starts)} ranges over {self.topology!r}, {self._table.hasher})"


def _of_table(kind: type[Ranges], table: Table) -> Ranges:
    ranges = kind.__new__(kind)
    ranges._fill(table)
    return ranges


def _check_lists(bounds: Sequence[Key], owners: Sequence[str | Owners]) -> None:
    """Refuse inputs without an order: the order of a set, and so the owners, would differ between processes."""
    for name, values in (("bounds", bounds), ("owners", owners)):
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
            raise InvalidInput(name, values, "a list or tuple", "A range is known by its place: list them in order.")
    if len(owners) != len(bounds) + 1:
        hint = "n boundaries make n + 1 ranges: name the owner of each."
        raise InvalidInput("owners", f"{len(owners)} of them", f"{len(bounds) + 1}, one more than bounds", hint)
    for row in owners:
        if not isinstance(row, (str, list, tuple)):
            raise InvalidInput("owners of a range", row, "an id, or a tuple of ids", "Name the leader first.")


def _starts(bounds: Sequence[Key], *, counted: bool) -> tuple[Position, ...]:
    """Return the starts of ranges: the first position, then each boundary; `BadRange` unless they ascend."""
    first: Position = 0 if counted else b""
    starts = (first, *(ordered_position(bound, counted, "boundary") for bound in bounds))
    before = ("the first of all keys", *(f"{shown(bound)}, the one before" for bound in bounds))
    for (start, end), left, bound in zip(pairwise(starts), before, bounds, strict=False):
        if not is_before(start, end):
            raise BadRange("boundary", bound, f"more than {left}", "Sort the boundaries and drop repeated ones.")
    return starts


def _key_at(position: Position) -> int | bytes:
    return position + FIRST_INT if isinstance(position, int) else position


SPEC = PlacementSpec(
    name="ranges",
    build=Ranges,
    source="Chang et al. 2006",
    minimal_disruption=True,
    tabular=True,
    lookup="O(log tokens)",
    takes="explicit",
)
