"""Table: sorted boundaries, and the owners of each stretch between them.

Every placement that can be written down compiles to a table. One lookup serves all tables and one codec publishes
them. The difference of two tables is exact: their boundaries are merged and every stretch is compared.

Promises: no gap and no overlap by construction. Equal tables give the same owners for every position. Neighbouring
stretches with equal owners are joined when a table is built, so the way of building makes no difference.
Refuses: to hash keys. `hasher` names the hash that made positions of keys; `placement` computes it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from struct import pack
from typing import Self

from apportion import native
from apportion.errors import BadRange, InvalidInput, PlanRefused, shown
from apportion.errors.brief import brief
from apportion.model.epoch import Epoch, content_digest
from apportion.model.plan import Change
from apportion.model.token import POSITIONS, KeyRange, Position, Slot, check_position, is_before, slot_start
from apportion.model.topology import Topology, check_name

MAX_TOKENS = 2**24

Owners = tuple[str, ...]
"""Node ids in order of preference, the leader first."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Table:
    """The nodes of row i own the positions from `starts[i]` up to `starts[i + 1]`. Those of the last row own the rest.

    Positions are either tokens (0 .. 2**64 - 1) or bytes (from b"" on, without an end). Positions of bytes keep the
    order of keys.
    A row contains distinct indexes into `topology.nodes`, leader first; rows may differ in length.
    `hasher` names the hash that made positions of keys. Tables of different hashers cannot be compared.
    If `slots` is set, the table is made of slots: each boundary is the first position of a slot.

    Memory: about 50 bytes per stretch. Building: O(stretches).

    >>> topology = Topology(["a", "b"])
    >>> table = Table(topology=topology, hasher="xxh3-64", starts=(0, 2**62, 2**63), rows=((0,), (0,), (1,)))
    >>> table.starts == (0, 2**63), table.owners(5), print(table.range_at(5))
    [0000000000000000, 8000000000000000)
    (True, ('a',), None)
    """

    topology: Topology
    hasher: str
    starts: tuple[Position, ...]
    rows: tuple[tuple[int, ...], ...]
    slots: int | None = None

    def __post_init__(self) -> None:
        check_name("hasher", self.hasher)
        if not isinstance(self.topology, Topology):
            raise InvalidInput("topology", self.topology, "a Topology", "Wrap the nodes: Topology([...]).")
        _check_starts(self.starts, len(self.rows))
        _check_rows(self.rows, len(self.topology))
        begins = [True, *(left != right for left, right in pairwise(self.rows))]
        if self.slots is not None:
            _check_slots(self.slots, compress(self.starts, begins))
        object.__setattr__(self, "starts", tuple(compress(self.starts, begins)))
        object.__setattr__(self, "rows", tuple(compress(self.rows, begins)))

    @classmethod
    def from_ranges(
        cls, ranges: Iterable[tuple[KeyRange, Owners]], *, topology: Topology, hasher: str, slots: int | None = None
    ) -> Self:
        """Build a table from ranges in any order; `BadRange` names the first gap or overlap. O(n log n)."""
        listed = _listed_ranges(ranges)
        for (one, _), (other, _) in pairwise(listed):
            is_before(one.start, other.start)  # refuses tokens beside bytes
        listed.sort(key=lambda entry: entry[0].start)
        starts = [key_range.start for key_range, _ in listed]
        ends = [key_range.end for key_range, _ in listed]
        _check_joints(starts, ends)
        return cls(
            topology=topology,
            hasher=hasher,
            starts=tuple(starts),
            rows=tuple(tuple(topology.index(node_id) for node_id in owners) for _, owners in listed),
            slots=slots,
        )

    @property
    def is_measurable(self) -> bool:
        """Whether positions are tokens, so that ranges have a width."""
        return isinstance(self.starts[0], int)

    @property
    def epoch(self) -> Epoch:
        """The topology's number, and the digest of all content of the table. O(stretches)."""
        lengths = [len(row) for row in self.rows]
        indexes = [index for row in self.rows for index in row]
        packed = [pack(f"<{len(numbers)}Q", *numbers) for numbers in (lengths, indexes)]
        return table_epoch(self.topology, self.hasher, self.slots, [*_start_parts(self.starts), *packed])

    def owners(self, position: Position) -> Owners:
        """Return the owners of a position, leader first; `BadRange` for an invalid position. O(log stretches)."""
        return self._named(self.rows[self._row_at(position)])

    def range_at(self, position: Position) -> KeyRange:
        """Return the stretch that contains a position; `BadRange` for an invalid position. O(log stretches)."""
        row = self._row_at(position)
        return KeyRange(self.starts[row], self.starts[row + 1] if row + 1 < len(self.starts) else self.end)

    def ranges(self) -> Iterator[tuple[KeyRange, Owners]]:
        """Yield every stretch with its owners, in order."""
        for start, end, row in zip(self.starts, (*self.starts[1:], self.end), self.rows, strict=True):
            yield KeyRange(start, end), self._named(row)

    def widths(self) -> dict[str, int]:
        """Return the number of positions that each node owns. Every copy counts, and a node that owns nothing has 0.

        Positions of bytes cannot be counted, so every node of such a table has 0.
        """
        widths = [0] * len(self.topology)
        starts = [start for start in self.starts if isinstance(start, int)]
        for start, end, row in zip(starts, [*starts[1:], POSITIONS], self.rows, strict=False):  # empty for bytes
            for index in row:
                widths[index] += end - start
        return dict(zip(self.topology.ids, widths, strict=True))

    def diff(self, new: "Table") -> tuple[Change, ...]:
        """Return exactly the ranges with another list of owners in `new`; no range is divided without need.

        Order: by position. O(stretches of both). Raises `InvalidInput` if the positions come from different hashes.
        """
        if not isinstance(new, Table):
            raise InvalidInput("new", new, "a Table", "Pass the table() of a placement.")
        if (self.hasher, self.is_measurable) != (new.hasher, new.is_measurable):
            hint = "Compare different hashers over keys: plan(old, new, keys=[...])."
            raise InvalidInput("hasher", new.hasher, f"{self.hasher!r}, that of the other table", hint)
        return self._overlaid_by_twin(new) if native.IN_USE and self.is_measurable else self._overlaid(new)

    def _overlaid(self, new: "Table") -> tuple[Change, ...]:
        cuts = sorted({*self.starts, *new.starts})
        ends = (*cuts[1:], self.end)
        stretches = zip(cuts, ends, self._owners_at(cuts), new._owners_at(cuts), strict=True)
        # No two neighbouring changes have the same owners: where they meet, the owners change in one of the tables.
        return tuple(Change(KeyRange(start, end), was, now) for start, end, was, now in stretches if was != now)

    def _overlaid_by_twin(self, new: "Table") -> tuple[Change, ...]:
        places = {node_id: place for place, node_id in enumerate(new.topology.ids)}
        now_of = [places.get(node_id) for node_id in self.topology.ids]
        columns = (self.starts, self.rows), (new.starts, new.rows)
        pieces = native.extension.table_changes(*columns, now_of, len(places))
        before = {row: self._named(row) for row in {self.rows[was] for _, _, was, _ in pieces}}
        after = {row: new._named(row) for row in {new.rows[now] for *_, now in pieces}}
        return tuple(
            Change(KeyRange(start, end), before[self.rows[was]], after[new.rows[now]])
            for start, end, was, now in pieces
        )

    def changed(self, changes: Sequence[Change], topology: Topology, *, slots: int | None = None) -> Self:
        """Return the table with `topology` and with exactly these `changes` (sorted, disjoint).

        `slots` is the number of slots of the new table, if the new table is made of slots.

        Raises `PlanRefused` if the owners in this table are not the owners before a change.
        """
        if not isinstance(changes, Sequence) or not all(isinstance(change, Change) for change in changes):
            raise InvalidInput("changes", changes, "a list of Change", "Pass the changes of a plan: plan.changes.")
        if not isinstance(topology, Topology):
            raise InvalidInput(
                "topology", topology, "a Topology", "Pass the topology that the plan leads to: plan.new."
            )
        ranges = [change.item for change in changes if isinstance(change.item, KeyRange)]
        ends = {item.end for item in ranges if item.end is not None and item.end != POSITIONS}
        starts = {item.start: change for item, change in zip(ranges, changes, strict=True)}
        cuts = sorted({*self.starts, *starts, *ends})
        rows: list[Owners] = []
        change: Change | None = None
        for cut, owners in zip(cuts, self._owners_at(cuts), strict=True):
            change = starts.get(cut, None if cut in ends else change)
            if change is not None and change.before != owners:
                raise PlanRefused(f"it starts from {change.before}, the table holds {owners}", change.item)
            rows.append(owners if change is None else change.after)
        return type(self)(
            topology=topology,
            hasher=self.hasher,
            starts=tuple(cuts),
            rows=tuple(tuple(map(topology.index, owners)) for owners in rows),
            slots=slots,
        )

    @property
    def end(self) -> int | None:
        """The end of the last range: 2**64, or None in a table of bytes."""
        return POSITIONS if self.is_measurable else None

    def _row_at(self, position: Position) -> int:
        check_position("position", position)
        if isinstance(position, int) is not self.is_measurable:
            kind = "an int: this table is of tokens" if self.is_measurable else "bytes: this table is of byte strings"
            raise BadRange("position", position, kind, "Ask a placement to route a key.")
        return bisect_right(self.starts, position) - 1

    def _named(self, row: tuple[int, ...]) -> Owners:
        return tuple(self.topology.ids[index] for index in row)

    def _owners_at(self, cuts: Iterable[Position]) -> Iterator[Owners]:
        """Yield the owners at each of `cuts`. The cuts are ascending and include every start of this table."""
        rows = dict(zip(self.starts, self.rows, strict=True))
        names: dict[tuple[int, ...], Owners] = {row: self._named(row) for row in set(self.rows)}
        owners: Owners = ()
        for cut in cuts:
            if cut in rows:
                owners = names[rows[cut]]
            yield owners

    def __repr__(self) -> str:
        grid = f", {self.slots} slots" if self.slots else ""
        return (
            f"Table({len(self.starts)} ranges over {len(self.topology)} nodes, {self.hasher}{grid}, epoch {self.epoch})"
        )


def table_epoch(topology: Topology, hasher: str, slots: int | None, parts: Iterable[bytes]) -> Epoch:
    """Return the epoch of a table.

    `parts` are its starts, the lengths of its rows and the indexes in them. Numbers are 8 bytes each, little-endian.
    """
    own = (topology.epoch.digest.encode(), hasher.encode(), pack("<q", slots or 0))
    return Epoch(number=topology.number, digest=content_digest(*own, *parts))


def _start_parts(starts: tuple[Position, ...]) -> list[bytes]:
    """Return the starts as parts of the digest of a table: one part for all tokens, one part per byte string."""
    tokens = [start for start in starts if isinstance(start, int)]
    return [pack(f"<{len(tokens)}Q", *tokens)] if tokens else [start for start in starts if isinstance(start, bytes)]


def _listed_ranges(ranges: Iterable[tuple[KeyRange, Owners]]) -> list[tuple[KeyRange, Owners]]:
    expected, hint = "pairs of a KeyRange and its owners", 'Write [(KeyRange(0, 2**64), ("a",))].'
    if not isinstance(ranges, Iterable):
        raise InvalidInput("ranges", ranges, expected, hint)
    listed = list(ranges)
    for pair in listed:
        is_pair = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], KeyRange)
        if not is_pair or not isinstance(pair[1], (tuple, list)):
            raise InvalidInput("range", pair[1] if is_pair else pair, expected, hint)
    return listed


def _check_joints(starts: list[Position], ends: list[Position | None]) -> None:
    """Raise `BadRange` if sorted ranges overlap or leave a gap, also before the first and after the last range."""
    first: Position = b"" if starts and isinstance(starts[0], bytes) else 0
    last = None if isinstance(first, bytes) else POSITIONS
    for end, start in zip([first, *ends], [*starts, last], strict=True):
        if start != end:
            overlaps = start is not None and (end is None or (end != POSITIONS and is_before(start, end)))
            fault = "an overlap" if overlaps or end == POSITIONS else "a gap"
            expected = f"{end if end is None or isinstance(end, int) else shown(end)}; there is {fault}"
            raise BadRange("range start", start, expected, "Let each range start where the last one ends.")


def _check_starts(starts: tuple[Position, ...], rows: int) -> None:
    if len(starts) != rows or not 0 < rows <= 2 * MAX_TOKENS:
        hint = "Give every start its row of owners."
        raise InvalidInput("table rows", rows, f"one for each of {len(starts)} starts", hint)
    for start in starts:
        check_position("table start", start)
    if starts[0] not in (0, b""):
        raise BadRange(
            "table start", starts[0], '0 or b"" as the first start', "Begin the table at the first position."
        )
    for left, right in pairwise(starts):
        if not is_before(left, right):
            expected = f"more than the one before, {shown(left)}"
            raise BadRange("table start", right, expected, "Sort the starts and drop repeated ones.")


def _check_rows(rows: tuple[tuple[int, ...], ...], nodes: int) -> None:
    if not all(type(row) is tuple for row in rows):
        raise InvalidInput("table rows", rows, "a tuple of tuples of indexes", "Write rows=((0,), (1,)).")
    for row in set(rows):
        if (
            not row
            or len(set(row)) != len(row)
            or any(type(index) is not int or not 0 <= index < nodes for index in row)
        ):
            hint = "List each owner once."
            raise InvalidInput("table row", str(row), f"distinct indexes below {nodes}, at least one", hint)


def _check_slots(slots: int, starts: Iterable[Position]) -> None:
    if type(slots) is not int or not 0 < slots <= MAX_TOKENS:
        raise InvalidInput("slots", slots, f"an int in 1 .. {MAX_TOKENS}", "Use about 32 slots per node.")
    for start in starts:
        slot: Slot = start * slots // POSITIONS if isinstance(start, int) else -1
        if slot_start(slot, slots) != start:
            expected = f"the first position of one of {slots} slots"
            raise BadRange("table start", start, expected, "Pass the number of slots from which the table was made.")
