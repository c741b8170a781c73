"""Records of moves in the control store: the slots that are moving, and each move with its state.

    shards/<set>/moving       the ranges of slots of each move, and of each pin under way; a pin is named pin-<slot>
    shards/<set>/move/<id>    the move: its slots, its pair of shards, its state, and the wish of the operator

All moving slots are in one value, so a commit that would list a slot twice fails.

Promises: a record of an unknown format, or with a damaged field, raises `BadSnapshot`. No field is guessed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import get_args

from apportion.model.codec.parsing import integer, items, pairs, refuse, text
from apportion.shards.move_group import MOST_SLOTS, MoveGroup
from apportion.shards.pins.isolated_key import isolated_form, isolated_in
from apportion.shards.records import Fields, decoded, encoded, number
from apportion.shards.reshard import MoveRecord, MoveState, Way, Wish
from apportion.shards.slots import MOST_SLOTS as MOST_NUMBERS

_MOST_ATTEMPTS = 2**31
_PIN = "pin-"
_MOST_DIGITS = 5
_FIELDS = ("move", "source", "target", "slots", "state", "attempt", "way", "wish", "since", "pause_seconds")
_STATES: tuple[MoveState, ...] = get_args(MoveState)
_WAYS: tuple[Way, ...] = get_args(Way)
_WISHES: tuple[Wish, ...] = get_args(Wish)

SlotRange = tuple[int, int]
"""The slots from the first number up to the second. The second number is not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEntry:
    """The record of a move. `since` is the wall clock of the mover's host, in seconds, at the last change of state.

    `pause_seconds` is the time of all its fences that have ended: writers waited for that long at most.
    """

    group: MoveGroup
    record: MoveRecord
    wish: Wish = "go"
    since: float = 0.0
    pause_seconds: float = 0.0

    @classmethod
    def begun(cls, group: MoveGroup, now: float, *, is_reversible: bool) -> "MoveEntry":
        """Return the record of a move that begins at a time of the wall clock."""
        record = MoveRecord(state="planned", way="reversible" if is_reversible else "one-way")
        return cls(group=group, record=record, since=now)

    def wished(self, wish: Wish) -> "MoveEntry":
        """Return the same move with another wish."""
        return replace(self, wish=wish)

    def changed(self, record: MoveRecord, now: float) -> "MoveEntry":
        """Return the same move with another record at a time of the wall clock. If a fence ends, add its time."""
        pause = max(0.0, now - self.since) if self.record.state == "fenced" else 0.0
        return replace(self, record=record, since=now, pause_seconds=self.pause_seconds + pause)

    def reversed(self, now: float) -> "MoveEntry":
        """Return the same move on its way back, as it begins at a time of the wall clock."""
        record = MoveRecord(state="planned", attempt=self.record.attempt + 1, way="back")
        return replace(self.changed(record, now), group=self.group.reversed(), wish="go")

    def encode(self) -> bytes:
        """Return the record as bytes."""
        isolated = self.group.isolated
        return encoded(
            {
                "move": self.group.move,
                "source": self.group.source,
                "target": self.group.target,
                "slots": [list(each) for each in ranges(self.group.slots)],
                "state": self.record.state,
                "attempt": self.record.attempt,
                "way": self.record.way,
                "wish": self.wish,
                "since": self.since,
                "pause_seconds": self.pause_seconds,
                **({} if isolated is None else {"isolated": isolated_form(isolated)}),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "MoveEntry":
        """Return the record that bytes hold."""
        form = decoded(data, "move")
        noted = ["isolated"] if "isolated" in pairs(form) else []
        fields = Fields(form, *_FIELDS, *noted)
        group = MoveGroup(
            move=fields.read("move", text),
            source=fields.read("source", text),
            target=fields.read("target", text),
            slots=fields.read("slots", _group_slots),
            isolated=fields.read("isolated", isolated_in) if noted else None,
        )
        attempt, way = fields.read("attempt", _attempt), fields.read("way", _way)
        record = MoveRecord(state=fields.read("state", _state), attempt=attempt, way=way)
        since, pause = fields.read("since", number), fields.read("pause_seconds", number)
        return cls(group=group, record=record, wish=fields.read("wish", _wish), since=since, pause_seconds=pause)


def encode_moving(moving: Mapping[str, Iterable[int]]) -> bytes:
    """Return the list of moving slots as bytes."""
    return encoded({"moving": {move: [list(each) for each in ranges(slots)] for move, slots in sorted(moving.items())}})


def decode_moving(data: bytes) -> dict[str, tuple[int, ...]]:
    """Return the slots of each move and pin that bytes list."""
    return Fields(decoded(data, "list of moving slots"), "moving").read("moving", _moving)


def name_of_pin(slot: int) -> str:
    """Return the name of a slot's pin in the list of moving slots."""
    return f"{_PIN}{slot}"


def slot_of_pin(name: str) -> int | None:
    """Return the slot of a pin in the list of moving slots. Return None for a move, and for any other name.

    >>> slot_of_pin("pin-4096"), slot_of_pin("pin-x"), slot_of_pin("a-000")
    (4096, None, None)
    """
    digits = name.removeprefix(_PIN)
    is_pin = name != digits and digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    return int(digits) if is_pin else None


def ranges(slots: Iterable[int]) -> list[SlotRange]:
    """Return slots as ranges, ascending.

    >>> ranges((1, 2, 3, 7))
    [(1, 4), (7, 8)]
    """
    made: list[SlotRange] = []
    for slot in sorted(slots):
        if made and made[-1][1] == slot:
            made[-1] = (made[-1][0], slot + 1)
        else:
            made.append((slot, slot + 1))
    return made


def slots_in(listed: object) -> tuple[int, ...]:
    """Return the slots in a list of ranges. `BadSnapshot` for ranges that are empty or not ascending."""
    bounds = [integer(each) for pair in items(listed) for each in items(pair, 2)]
    is_descending = any(after < before for before, after in pairwise([0, *bounds, MOST_NUMBERS]))
    if is_descending or len(set(bounds[::2])) * 2 != len(bounds):
        refuse(str(bounds), f"ranges of slots, ascending, up to {MOST_NUMBERS}")
    return tuple(slot for start, end in zip(bounds[::2], bounds[1::2], strict=True) for slot in range(start, end))


def _moving(value: object) -> dict[str, tuple[int, ...]]:
    return {move: slots_in(listed) for move, listed in pairs(value).items()}


def _group_slots(value: object) -> tuple[int, ...]:
    slots = slots_in(value)
    return slots if 0 < len(slots) <= MOST_SLOTS else refuse(len(slots), f"1 to {MOST_SLOTS} slots")


def _attempt(value: object) -> int:
    found = integer(value)
    return found if 0 < found <= _MOST_ATTEMPTS else refuse(found, f"an attempt of 1 to {_MOST_ATTEMPTS}")


def _state(value: object) -> MoveState:
    return next((state for state in _STATES if state == value), None) or refuse(value, "the state of a move")


def _way(value: object) -> Way:
    return next((way for way in _WAYS if way == value), None) or refuse(value, "the way of a move")


def _wish(value: object) -> Wish:
    return next((wish for wish in _WISHES if wish == value), None) or refuse(value, "the wish of an operator")
