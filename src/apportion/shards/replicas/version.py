"""EntryVersion: the place of a write in the order of all writes to its key.

48 bits of milliseconds since 1970, 16 bits of a counter, 64 bits of the writer: 16 bytes, compared as bytes. The writer
is drawn anew for each opened map, so no two puts share a version.

Promises: the order of versions, of their bytes and of their text is one order.
Refuses: to be a clock. Two versions say which write wins, and not which was made first.
Source: Kulkarni and others, Logical Physical Clocks, 2014; the writer of the last bits as in Cassandra's ties by value.
"""

from dataclasses import dataclass
from typing import Self

from apportion.errors import InvalidInput

VERSION_BYTES = 16
MOST_MILLISECONDS = 2**48 - 1
MOST_COUNTER = 2**16 - 1
MOST_WRITER = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EntryVersion:
    """The version of one write. `str()` is 32 hexadecimal digits.

    >>> first, later = EntryVersion(milliseconds=1_000, writer=7), EntryVersion(milliseconds=1_000, counter=1, writer=2)
    >>> first < later, bytes(first) < bytes(later), str(first) < str(later)
    (True, True, True)
    >>> str(later), EntryVersion.of(bytes(later)) == later
    ('0000000003e800010000000000000002', True)
    """

    milliseconds: int
    counter: int = 0
    writer: int = 0

    def __post_init__(self) -> None:
        most = {"milliseconds": MOST_MILLISECONDS, "counter": MOST_COUNTER, "writer": MOST_WRITER}
        for field, bound in most.items():
            found = getattr(self, field)
            if type(found) is not int or not 0 <= found <= bound:
                hint = "Take versions from a map; do not make them by hand."
                raise InvalidInput(f"{field} of a version", found, f"an int in 0 .. {bound}", hint)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the version that 16 bytes hold; `InvalidInput` for another length."""
        if not isinstance(data, bytes) or len(data) != VERSION_BYTES:
            hint = "Copy the version whole, as a map returned it."
            raise InvalidInput("bytes of a version", data, f"{VERSION_BYTES} bytes", hint)
        parts = int.from_bytes(data[:6]), int.from_bytes(data[6:8]), int.from_bytes(data[8:])
        return cls(milliseconds=parts[0], counter=parts[1], writer=parts[2])

    def __bytes__(self) -> bytes:
        return self.milliseconds.to_bytes(6) + self.counter.to_bytes(2) + self.writer.to_bytes(8)

    def __str__(self) -> str:
        return bytes(self).hex()


NOTHING = EntryVersion(milliseconds=0)
"""The version that a key without any entry shows. Every write is above it."""


def last_of(milliseconds: int) -> EntryVersion:
    """Return the highest version of a millisecond: a write above it is above every version up to that time.

    >>> EntryVersion(milliseconds=5, writer=MOST_WRITER) < last_of(5) < EntryVersion(milliseconds=6)
    True
    """
    return EntryVersion(milliseconds=milliseconds, counter=MOST_COUNTER, writer=MOST_WRITER)
