"""The part of an assignor that is the same for every client: its names, and the memory of its own member."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.plugins import wire
from apportion.balance.kafka.range import SPEC as RANGE
from apportion.balance.kafka.subscription import Partition


class Assignment(Protocol):
    """A member's assignment, as its client has read it."""

    user_data: bytes | None

    def partitions(self) -> Sequence[Partition]:
        """Return (topic, number) pairs."""


class Assignor:
    """An assignor that remembers its own member; without more, it is `kafka.range`."""

    name: ClassVar[str] = "range"
    _spec: ClassVar[BalancerSpec] = RANGE

    def __init__(self) -> None:
        self._past = wire.Past()

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return this member's message when it joins."""
        return wire.subscription(topics, b"")
