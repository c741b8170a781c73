"""Wire: the messages of a consumer group's members in Kafka's bytes, and the past of a member.

Clients take bytes in place of their own structures, so no client is imported. The clients themselves read the
messages.
Big-endian: INT16, INT32, texts with an INT16 length, arrays and bytes with an INT32 length.
Source: ConsumerProtocolSubscription 0 and 2, and ConsumerProtocolAssignment 0, of Kafka 4.1.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from apportion.balance.kafka.subscription import NO_GENERATION, Partition
from apportion.balance.kafka.userdata import (
    KAFKA_PYTHON_VERSION,
    Remembered,
    encode_cooperative,
    encode_sticky,
    is_versioned,
    recall_generation,
    recall_sticky,
)
from apportion.errors import InvalidInput

PLAIN, WITH_GENERATION = 0, 2
_NUMBER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The last assignment of a member: its partitions, generation and member id; empty fields are unknown.

    `is_held` says that the member goes on reading these partitions while the group rebalances. `is_beside_java` says
    that Java may read the next user data.
    """

    owned: tuple[Partition, ...] = ()
    generation: int = NO_GENERATION
    member_id: str = ""
    is_held: bool = False
    is_beside_java: bool = False


def subscription(topics: Iterable[str], user_data: bytes) -> bytes:
    """Return a subscription, version 0: owned partitions are in its user data, if anywhere.

    >>> subscription(["t"], b"x").hex(" ")
    '00 00 00 00 00 01 00 01 74 00 00 00 01 78'
    """
    return _int16(PLAIN) + _array(map(_text, sorted(topics))) + _bytes(user_data)


def owning_subscription(topics: Iterable[str], past: Past) -> bytes:
    """Return a subscription, version 2: it contains the held partitions and their generation."""
    plain = _array(map(_text, sorted(topics))) + _bytes(cooperative_data(past))
    held = past.owned if past.is_held else ()
    return _int16(WITH_GENERATION) + plain + _partitions(held) + _int32(past.generation)


def assignment(owned: Iterable[Partition], *, generation: int, is_beside_java: bool, member_id: str) -> bytes:
    """Return an assignment, version 0. Its user data holds facts that clients do not tell assignors."""
    told = _int32(generation) + is_beside_java.to_bytes() + member_id.encode()
    return _int16(PLAIN) + _partitions(owned) + _bytes(told)


def given(owned: Iterable[Partition], user_data: bytes | None) -> Past:
    """Return the past of a member with this assignment; the generation is unknown if a foreign assignor made it.

    A leader in Java sends null, and Python's own leaders send empty user data.

    >>> given([("t", 1)], (7).to_bytes(4) + b"\\0m1")
    Past(owned=(('t', 1),), generation=7, member_id='m1', is_held=False, is_beside_java=False)
    """
    data = bytes(user_data or b"")
    return Past(
        owned=tuple((topic, number) for topic, number in owned),
        generation=recall_generation(data),
        member_id=data[_NUMBER + 1 :].decode(errors="replace"),
        is_beside_java=user_data is None or data[_NUMBER : _NUMBER + 1] == b"\1",
    )


def sticky_data(past: Past, *, has_version: bool = False) -> bytes:
    """Return user data of `sticky`: Java's, or kafka-python's with the version; empty without partitions."""
    data = encode_sticky(Remembered(owned=past.owned, generation=past.generation))
    return KAFKA_PYTHON_VERSION * has_version + data if past.owned else b""


def sticky_past(user_data: bytes | None) -> Past:
    """Return the past in user data of `sticky`; empty if it cannot be read, as in the Java client.

    Without a past, Java's members send null, and Python's send empty user data.
    """
    remembered = recall_sticky(user_data)
    is_java = user_data is None or (bool(user_data) and not is_versioned(user_data))
    return Past(owned=remembered.owned, generation=remembered.generation, is_beside_java=is_java)


def cooperative_data(past: Past) -> bytes:
    """Return user data of `cooperative`: the generation, as in Java, and after it a part that Java does not read.

    When aiokafka leads, it reads only subscriptions of version 0, so it finds the past nowhere else.
    """
    remembered = Remembered(owned=past.owned, generation=past.generation)
    extra = past.is_held.to_bytes() + _text(past.member_id) + encode_sticky(remembered)
    return encode_cooperative(past.generation) + extra


def cooperative_past(user_data: bytes | None) -> Past | None:
    """Return the past in our user data of `cooperative`; None for user data of other assignors.

    >>> past = Past(owned=(("t", 1),), generation=7, member_id="m1", is_held=True)
    >>> cooperative_past(cooperative_data(past)) == past, cooperative_past(encode_cooperative(7))
    (True, None)
    """
    data = bytes(user_data or b"")
    flag, size = data[_NUMBER : _NUMBER + 1], int.from_bytes(data[_NUMBER + 1 : _NUMBER + 3])
    start = _NUMBER + 3
    remembered = recall_sticky(data[start + size :])
    past = Past(
        owned=remembered.owned,
        generation=remembered.generation,
        member_id=data[start : start + size].decode(errors="replace"),
        is_held=flag == b"\1",
    )
    return past if _is_written(past, data) else None


def _is_written(past: Past, data: bytes) -> bool:
    """Whether the user data of this past are these bytes. A past from foreign bytes may not be encodable at all."""
    try:
        return cooperative_data(past) == data
    except (InvalidInput, OverflowError):
        return False


def _partitions(owned: Iterable[Partition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, number in owned:
        by_topic.setdefault(topic, []).append(number)
    return _array(_text(topic) + _array(map(_int32, sorted(by_topic[topic]))) for topic in sorted(by_topic))


def _array(encoded: Iterable[bytes]) -> bytes:
    listed = list(encoded)
    return _int32(len(listed)) + b"".join(listed)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _int16(len(encoded)) + encoded


def _bytes(data: bytes) -> bytes:
    return _int32(len(data)) + data


def _int16(value: int) -> bytes:
    return value.to_bytes(2, signed=True)


def _int32(value: int) -> bytes:
    return value.to_bytes(4, signed=True)
