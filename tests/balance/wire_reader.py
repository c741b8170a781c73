"""A reader of what members of a consumer group send each other: what the clients do in tests that have none."""

from dataclasses import dataclass
from typing import NamedTuple


class Reader:
    """Bytes, read from the front."""

    def __init__(self, data):
        self.data = bytes(data)

    def take(self, size):
        taken, self.data = self.data[:size], self.data[size:]
        assert size == len(taken)
        return taken

    def int16(self):
        return int.from_bytes(self.take(2), signed=True)

    def int32(self):
        return int.from_bytes(self.take(4), signed=True)

    def text(self):
        return self.take(self.int16()).decode()

    def blob(self):
        return self.take(self.int32())

    def array(self, read):
        return [read() for _ in range(self.int32())]

    def topic(self):
        return Topic(self.text(), self.array(self.int32))


class Topic(NamedTuple):
    """Partitions of one topic."""

    topic: str
    partitions: list


@dataclass
class Subscription:
    """A subscription, with the names of both clients."""

    topics: list
    user_data: bytes | None
    owned_partitions: list
    generation_id: int

    @property
    def subscription(self):
        """The topics, as aiokafka calls them."""
        return self.topics


@dataclass
class Assignment:
    """An assignment."""

    owned: list
    user_data: bytes

    def partitions(self):
        """Return pairs."""
        return [(topic, number) for topic, numbers in self.owned for number in numbers]


def read_subscription(data):
    """Return a subscription of version 0 or 2."""
    reader = Reader(data)
    version = reader.int16()
    topics, user_data = reader.array(reader.text), reader.blob()
    owned, generation = (reader.array(reader.topic), reader.int32()) if version else ([], -1)
    assert b"" == reader.data
    return Subscription(topics, user_data, owned, generation)


def read_assignment(data):
    """Return an assignment of version 0."""
    reader = Reader(data)
    assert 0 == reader.int16()
    found = Assignment(reader.array(reader.topic), reader.blob())
    assert b"" == reader.data
    return found
