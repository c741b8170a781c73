"""Range map: the ranges of the slots of a set by ranges, and the slot of a key among them.

    17[m,t)        text from "m" up to "t"; "t" itself is in the next slot
    18[t,)         text from "t" on
    19[100,200)    integers; a text of digits alone has its first character percent-encoded

Text is ordered by its bytes in UTF-8. So is a `str` of Python, text of SQLite under BINARY, and text of PostgreSQL
under the collation "C". An integer is ordered by its value.

Promises: each key has exactly one slot. A map with a gap or an overlap cannot exist.
Refuses: keys of several columns, and keys of another kind than the bounds.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from operator import index
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import quote, unquote

from apportion.errors import BadRange, BadSnapshot, InvalidInput

Bound: TypeAlias = int | str
"""The first key of a range, an integer or text."""

_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
_RANGE = re.compile(r"\[([^,]*),([^,]*)\)")
_HINT = "See the ranges: apportion shards status URL SET"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBounds:
    """The keys from `start` up to `end`, without `end`. None means that there is no bound.

    >>> str(RangeBounds(start="m", end=None)), str(RangeBounds(start="10", end="2 x")), str(RangeBounds(end=10))
    ('[m,)', '[%310,2%20x)', '[,10)')
    """

    start: Bound | None = None
    end: Bound | None = None

    def __str__(self) -> str:
        return f"[{_text(self.start)},{_text(self.end)})"

    @classmethod
    def of(cls, text: str) -> "RangeBounds":
        """Read the text of a range. `BadRange` for any other text."""
        found = _RANGE.fullmatch(text)
        made = None if found is None else cls(start=_bound(found[1]), end=_bound(found[2]))
        if made is None or str(made) != text:
            raise BadRange("range", text, "one such as [m,t)", "Write each bound percent-encoded.")
        return made

    def holds_inside(self, at: Bound) -> bool:
        """Whether a bound lies after the first key of this range, and before its end."""
        return (self.start is None or _is_before(self.start, at)) and (self.end is None or _is_before(at, self.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeMap:
    """The range of each slot. The ranges have all keys, each key once."""

    bounds: Mapping[int, RangeBounds]
    _starts: tuple[bytes, ...] | tuple[int, ...] = field(init=False, repr=False, compare=False)
    _slots: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        order = _in_order(self.bounds)
        starts = tuple(_place(each.start) for _, each in order if each.start is not None)
        object.__setattr__(self, "bounds", MappingProxyType(dict(self.bounds)))
        object.__setattr__(self, "_starts", starts)
        object.__setattr__(self, "_slots", tuple(slot for slot, _ in order))

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots, in the order of their keys."""
        return self._slots

    def slot(self, key: object, data: bytes) -> int:
        """Return the slot of a key with these bytes. O(log ranges + length). `InvalidInput` for another kind of key."""
        place: bytes | int = data
        if type(key) is not str:
            if isinstance(key, tuple):
                raise InvalidInput("key", key, "one value, because the set is by ranges", "Pass the value alone.")
            if isinstance(key, Integral):
                place = index(key)
        starts = self._starts
        if starts and type(starts[0]) is not type(place):
            expected = "an int" if type(starts[0]) is int else "a str"
            raise InvalidInput("key", key, f"{expected}, as the bounds of the ranges are", _HINT)
        return self._slots[bisect_right(starts, place)]

    def split(self, slot: int, at: Bound, own: int) -> "RangeMap":
        """Return the map in which the keys of a slot from `at` on have the slot `own`."""
        bounds = self.checked_split(slot, at)
        parts = {slot: replace(bounds, end=at), own: replace(bounds, start=at)}
        return RangeMap(bounds={**self.bounds, **parts})

    def without(self, slot: int) -> "RangeMap":
        """Return the map in which the keys of a slot have the slot of the range before it. `BadRange` for the first."""
        place = self._slots.index(slot)
        if not place:
            expected = "one with a range before it"
            raise BadRange("slot to merge", slot, expected, "Keep the first range.")
        before, bounds = self._slots[place - 1], dict(self.bounds)
        gone = bounds.pop(slot)
        bounds[before] = replace(bounds[before], end=gone.end)
        return RangeMap(bounds=bounds)

    def checked_split(self, slot: int, at: Bound) -> RangeBounds:
        """Return the range of a slot that can be split at a bound. `BadRange` names the fault."""
        bounds = self.checked(slot)
        if bounds.holds_inside(at):
            return bounds
        if at == bounds.start:
            hint = f"Slot {slot} begins there already. Take a later key."
            raise BadRange("boundary of the split", at, f"a key inside {bounds}, after its first one", hint)
        hint = "Name the slot of that key: apportion shards route URL SET KEY"
        raise BadRange("boundary of the split", at, f"a key inside {bounds}, the range of slot {slot}", hint)

    def checked(self, slot: int) -> RangeBounds:
        """Return the range of a slot. `BadRange` for a slot without one."""
        if slot not in self.bounds:
            raise BadRange("slot", slot, "a slot with a range", _HINT)
        return self.bounds[slot]

    def neighbours(self, slot: int, other: int) -> tuple[int, int]:
        """Return two slots in the order of their keys. `BadRange` unless one range begins where the other ends."""
        for each in (slot, other):
            self.checked(each)
        places = sorted((self._slots.index(slot), self._slots.index(other)))
        if places[1] - places[0] != 1:
            bounds = f"{slot}{self.bounds[slot]}"
            expected = f"the slot of a range beside {bounds}: {' or '.join(map(str, self._beside(slot))) or 'none'}"
            raise BadRange("slot to merge", other, expected, _HINT)
        return self._slots[places[0]], self._slots[places[1]]

    def _beside(self, slot: int) -> list[int]:
        place = self._slots.index(slot)
        return [self._slots[each] for each in (place - 1, place + 1) if 0 <= each < len(self._slots)]


def range_map(bounds: Mapping[int, RangeBounds]) -> RangeMap:
    """Return the map of ranges that were read from a table. `BadSnapshot` names the range that does not fit."""
    try:
        return RangeMap(bounds=bounds)
    except BadRange as error:
        damage = BadSnapshot("range", None, error.expected, "Publish the table of the set again.")
        damage.problem, damage.field = f"table of the set: {error.problem}", error.field
        raise damage from error


def check_bound(at: object) -> Bound:
    """Return a checked bound: an int of 64 bits, or text that is not empty and has no NUL."""
    hint = "Name the first key of the new slot."
    if type(at) is int:
        if not -(2**63) <= at < 2**63:
            raise BadRange("boundary of the split", at, "an int of 64 bits", hint)
        return at
    if not isinstance(at, str) or not at or "\0" in at:
        raise BadRange("boundary of the split", at, "an int, or text without NUL that is not empty", hint)
    try:
        at.encode()
    except UnicodeEncodeError as error:
        raise BadRange("boundary of the split", at, "text without unpaired surrogates", hint) from error
    return str(at)


def _in_order(bounds: Mapping[int, RangeBounds]) -> list[tuple[int, RangeBounds]]:
    """Return the ranges in the order of their keys. `BadRange` for a gap, an overlap, or two kinds of bounds."""
    kinds = {type(each) for one in bounds.values() for each in (one.start, one.end) if each is not None}
    if len(kinds) > 1:
        named = ", ".join(f"{slot}{each}" for slot, each in sorted(bounds.items()))
        raise BadRange("ranges", named, "bounds of one kind: integers or text", _HINT)
    order = sorted(bounds.items(), key=lambda item: (item[1].start is not None, *_places(item[1].start)))
    due: Bound | None = None
    for number, (slot, each) in enumerate(order):
        if each.start != due or (number and due is None):
            raise BadRange("range", f"{slot}{each}", _due(order[number - 1] if number else None), _HINT)
        if each.start is not None and each.end is not None and not _is_before(each.start, each.end):
            raise BadRange("range", f"{slot}{each}", "a start before its end", _HINT)
        due = each.end
    if due is not None or not order:
        raise BadRange("range", _named(order[-1]) if order else None, "a last range without an end", _HINT)
    return order


def _due(before: tuple[int, RangeBounds] | None) -> str:
    """Return the words for the range that follows another one."""
    if before is None:
        return "one without a start"
    end = before[1].end
    return f"none after {_named(before)}" if end is None else f"one from {_text(end)} on, where {_named(before)} ends"


def _named(found: tuple[int, RangeBounds]) -> str:
    return f"{found[0]}{found[1]}"


def _places(bound: Bound | None) -> tuple[bytes | int, ...]:
    return () if bound is None else (_place(bound),)


def _is_before(one: Bound, other: Bound) -> bool:
    """Whether a bound comes before another one. False for two kinds."""
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int) and isinstance(other, int) and one < other
    return one.encode() < other.encode()


def _place(bound: Bound) -> bytes | int:
    return bound if isinstance(bound, int) else bound.encode()


def _text(bound: Bound | None) -> str:
    if bound is None:
        return ""
    if isinstance(bound, int):
        return f"{bound}"
    quoted = quote(bound, safe="")
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if _NUMBER.fullmatch(quoted) else quoted


def _bound(text: str) -> Bound | None:
    if not text:
        return None
    return int(text) if _NUMBER.fullmatch(text) else unquote(text)
