"""User data: the bytes that members of Kafka's sticky groups send their leader besides the subscription.

Sticky members send their partitions, and since version 1 the generation. Cooperative members send the generation
alone, since their partitions are in the subscription. Numbers are big-endian. A string follows its length in 2 bytes,
and an array follows its count in 4 bytes. kafka-python 3 puts a version of 2 bytes before the user data of `sticky`.
Java cannot read this form, and kafka-python reads no other form.

Promises: the bytes of the Java client, to read and to write; bytes after the last field are passed over. Bytes of
kafka-python 3 are read too. For other bytes that Java cannot read, `recall_sticky` and `recall_generation` give Java's
result: no partitions were owned.
Refuses: negative partition numbers: bytes with them cannot be read. Java would read them, and then stumble over them.
Source: `StickyAssignor` and `CooperativeStickyAssignor` of Kafka 4.1; KIP-341 (generation); kafka-python 3.0.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Literal, TypeVar

from apportion.balance.java.hashmap import in_order
from apportion.balance.kafka.subscription import NO_GENERATION, Partition, checked_generation, checked_owned
from apportion.errors import BadSnapshot, InvalidInput
from apportion.errors.brief import brief

_INT16, _INT32 = Struct(">h"), Struct(">i")
_MAX_TEXT_BYTES = 2**15 - 1
KAFKA_PYTHON_VERSION = b"\0\1"

T = TypeVar("T")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The earlier partitions of a member, and their generation (-1 if it did not send one). Raises `InvalidInput`."""

    owned: tuple[Partition, ...] = ()
    generation: int = NO_GENERATION

    def __post_init__(self) -> None:
        object.__setattr__(self, "owned", checked_owned("owned", self.owned))
        object.__setattr__(self, "generation", checked_generation("generation", self.generation))


def encode_sticky(remembered: Remembered, *, version: Literal[0, 1] = 1) -> bytes:
    """Return the user data of `sticky`. Version 0 leaves the generation out. O(owned). Raises `InvalidInput`.

    >>> encode_sticky(Remembered(owned=(("t", 1), ("t", 0)), generation=7)).hex(" ", -4)
    '00000001 00017400 00000200 00000100 00000000 000007'
    """
    if version not in (0, 1):
        raise InvalidInput("version of the user data", version, "0 or 1", "Java's client writes 1.")
    by_topic: dict[str, list[int]] = {}
    for topic, number in remembered.owned:
        by_topic.setdefault(topic, []).append(number)
    parts = [_INT32.pack(len(by_topic))]
    # Java adds topics with `computeIfAbsent`. Of two topics in one bucket, it puts the later one first.
    for topic in in_order(list(reversed(by_topic))):
        parts += [_packed_text(topic), _INT32.pack(len(by_topic[topic])), *map(_INT32.pack, by_topic[topic])]
    if version == 1:
        parts.append(_INT32.pack(remembered.generation))
    return b"".join(parts)


def decode_sticky(data: bytes) -> Remembered:
    """Return the content of user data of `sticky`, read as version 1, or else as version 0, or as kafka-python's.

    O(bytes). Raises `BadSnapshot`.

    >>> decode_sticky(bytes.fromhex("00000001 000174 00000001 00000003"))
    Remembered(owned=(('t', 3),), generation=-1)
    """
    try:
        return _decoded(_Reader(data))
    except BadSnapshot:
        if not is_versioned(data):
            raise
        return _decoded(_Reader(data[len(KAFKA_PYTHON_VERSION) :]))


def is_versioned(data: bytes) -> bool:
    """Whether user data of `sticky` begins with a version, as kafka-python's does.

    Java's user data begins with the same bytes only if it has more than 65535 topics.

    >>> is_versioned(encode_sticky(Remembered()))
    False
    """
    return isinstance(data, (bytes, bytearray, memoryview)) and bytes(data[:2]) == KAFKA_PYTHON_VERSION


def _decoded(reader: "_Reader") -> Remembered:
    owned = tuple(reader.array(_read_topic))
    claims = tuple((topic, number) for topic, numbers in owned for number in numbers)
    has_generation = reader.left >= _INT32.size
    return Remembered(owned=claims, generation=reader.int32() if has_generation else NO_GENERATION)


def recall_sticky(data: bytes | None) -> Remembered:
    """Return the memory of a member of a sticky group; it is empty without user data that can be read.

    >>> recall_sticky(b"from the future")
    Remembered(owned=(), generation=-1)
    """
    return Remembered() if not data else _or_else(Remembered(), decode_sticky, data)


def encode_cooperative(generation: int) -> bytes:
    """Return the user data of `cooperative`. Raises `InvalidInput`."""
    if type(generation) is not int or not -(2**31) <= generation < 2**31:
        raise InvalidInput("generation", generation, "an int of 32 bits", "-1 means unknown.")
    return _INT32.pack(generation)


def decode_cooperative(data: bytes) -> int:
    """Return the generation in user data of `cooperative`, at least -1. Raises `BadSnapshot`.

    >>> decode_cooperative(encode_cooperative(7))
    7
    """
    return max(NO_GENERATION, _Reader(data).int32())


def recall_generation(data: bytes | None) -> int:
    """Return the generation of a member of a cooperative group: -1 where it sent none that can be read."""
    return NO_GENERATION if not data else _or_else(NO_GENERATION, decode_cooperative, data)


def _or_else(nothing: T, decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(data)
    except BadSnapshot:
        return nothing


def _packed_text(text: str) -> bytes:
    encoded = text.encode(errors="replace")
    if len(encoded) > _MAX_TEXT_BYTES:
        raise InvalidInput("topic", text, f"at most {_MAX_TEXT_BYTES} bytes", "Kafka allows 249.")
    return _INT16.pack(len(encoded)) + encoded


def _read_topic(reader: "_Reader") -> tuple[str, list[int]]:
    return reader.text(), list(reader.array(_Reader.number))


class _Reader:
    """Bytes, and the position up to which they have been read."""

    def __init__(self, data: bytes) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise BadSnapshot("user data", data, "bytes", "Pass the bytes that the member sent.")
        self._data = bytes(data)
        self._at = 0

    @property
    def left(self) -> int:
        """The number of bytes that have not been read."""
        return len(self._data) - self._at

    def int32(self) -> int:
        """Read a number of 4 bytes."""
        return int(_INT32.unpack(self._take(_INT32.size))[0])

    def number(self) -> int:
        """Read the number of a partition."""
        return self._natural(self.int32(), "a partition number")

    def text(self) -> str:
        """Read a string; bytes that are not UTF-8 become U+FFFD."""
        size = self._natural(_INT16.unpack(self._take(_INT16.size))[0], "a length")
        return self._take(size).decode(errors="replace")

    def array(self, read: Callable[["_Reader"], T]) -> Iterable[T]:
        """Read as many items as the count before them says."""
        # A count that is too large for the remaining bytes is found when they end.
        for _ in range(self._natural(self.int32(), "a count")):
            yield read(self)

    def _natural(self, number: int, what: str) -> int:
        if number < 0:
            raise BadSnapshot("user data", f"{what} of {number}", "none below 0", "Restart the member.")
        return number

    def _take(self, size: int) -> bytes:
        if size > self.left:
            expected = f"{size} bytes more at byte {self._at}"
            raise BadSnapshot("user data", f"{len(self._data)} bytes", expected, "Restart the member.")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken
