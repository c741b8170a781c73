"""Token, Slot and KeyRange: the position of a key, on the circle of hashes or among all byte strings.

The circle has 2**64 positions. Ranges are half-open and never wrap: a stretch that wraps is written as two ranges.
"""

from dataclasses import dataclass
from typing import TypeAlias

from apportion.errors import BadRange, shown
from apportion.errors.brief import brief

POSITIONS = 2**64
"""The number of positions on the circle; every width and share is counted in positions."""

MAX_POSITION_BYTES = 65_536
_HEX_DIGITS = frozenset("0123456789abcdef")

Token: TypeAlias = int
"""A position on the circle, `0 <= token < POSITIONS`."""

Slot: TypeAlias = int
"""The number of one slot. A fixed number of equal slots divides the circle."""


Position: TypeAlias = Token | bytes
"""The place of a key: a token of its hash or, where keys keep their order, the bytes of the key."""


@brief
@dataclass(frozen=True, slots=True)
class KeyRange:
    """The positions `start <= position < end`. Both bounds are tokens, or both are bytes; `end=None` means no end.

    >>> half = KeyRange(0, POSITIONS // 2)
    >>> half.width == 2**63, 5 in half, POSITIONS // 2 in half
    (True, True, False)
    >>> print(half, KeyRange(b"m", None), b"zebra" in KeyRange(b"m", None))
    [0000000000000000, 8000000000000000) [b'm', end) True
    """

    start: Position
    end: Position | None

    def __post_init__(self) -> None:
        check_position("range start", self.start)
        if self.end is not None and self.end != POSITIONS:
            check_position("range end", self.end, last="2**64")
        if isinstance(self.start, bytes) is isinstance(self.end, int):
            hint = "Give both bounds as tokens, or both as bytes."
            raise BadRange("range end", self.end, f"of the kind of its start, {shown(self.start)}", hint)
        if self.end is not None and not is_before(self.start, self.end):
            hint = "Swap the bounds, or drop an empty range."
            raise BadRange("range end", self.end, f"more than its start {shown(self.start)}", hint)

    @property
    def width(self) -> int:
        """The number of positions in the range; `BadRange` for bytes, which cannot be counted."""
        if isinstance(self.start, int) and isinstance(self.end, int):
            return self.end - self.start
        raise BadRange("range", str(self), "tokens of the circle", "Count over keys: pass keys= to plan.")

    def __contains__(self, position: Position) -> bool:
        return not is_before(position, self.start) and (self.end is None or is_before(position, self.end))

    def __str__(self) -> str:
        start, end = (f"{bound:016x}" if isinstance(bound, int) else shown(bound) for bound in (self.start, self.end))
        return f"[{start}, {end if self.end is not None else 'end'})"


def check_position(name: str, position: Position, *, last: str = "2**64 - 1") -> None:
    """Raise `BadRange` for a value that is neither a token of the circle nor bytes of at most the allowed length."""
    if isinstance(position, bytes):
        if len(position) > MAX_POSITION_BYTES:
            hint = "Cut it. The shorter position sorts before the longer one."
            raise BadRange(name, position, f"at most {MAX_POSITION_BYTES} bytes", hint)
    elif type(position) is not int or not 0 <= position < POSITIONS:
        raise BadRange(name, position, f"an int in 0 .. {last}, or bytes", "Give bounds as positions.")


def is_before(left: Position, right: Position) -> bool:
    """Compare two positions of one kind. Raises `BadRange` for a token and bytes, which cannot be compared."""
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left < right
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    raise BadRange("position", right, f"of the kind of {shown(left)}", "Do not mix tokens and bytes.")


def position_text(position: Position | None) -> str:
    """Return a position as text: 16 hexadecimal digits for a token; `b` and two digits per byte for bytes.

    The text of None (no end) is empty.

    >>> position_text(255), position_text(b"ab"), position_text(None)
    ('00000000000000ff', 'b6162', '')
    """
    if isinstance(position, bytes):
        return "b" + position.hex()
    return "" if position is None else f"{position:016x}"


def position_of_text(text: str) -> Position | None:
    """Read the text of `position_text`; `BadRange` for any other text."""
    digits = text.removeprefix("b") if len(text) % 2 else text
    if not set(digits) <= _HEX_DIGITS or len(digits) > 2 * MAX_POSITION_BYTES:
        hint = "Write it like 00ff or b6162."
        raise BadRange("position", text, "hexadecimal digits, after a b if they are bytes", hint)
    if digits != text:
        return bytes.fromhex(digits)
    return int(digits, 16) if digits else None


def slot_start(slot: Slot, slots: int) -> Token:
    """Return the first position of a slot: the smallest p with `p * slots >> 64 == slot`.

    >>> [hex(slot_start(slot, 4)) for slot in (0, 1, 3)]
    ['0x0', '0x4000000000000000', '0xc000000000000000']
    """
    return -(-slot * POSITIONS // slots)
