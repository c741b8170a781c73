"""Events of a map: the versions that a put has sent, and those that a get has shown.

A history made of them is checked by `apportion.sim.replicas.checker`: a get that returns None shows a version too,
which its caller does not see.
"""

from dataclasses import dataclass

from apportion.shards.replicas.version import EntryVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class MapEvent:
    """An event of one call on one key; `call` is the number of the call within its process."""

    call: int
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSent(MapEvent):
    """A put begins to send its value under a version. A put that is sent again tells this again."""

    version: EntryVersion
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAcknowledged(MapEvent):
    """A put returns to its caller, acknowledged under a version."""

    version: EntryVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBegan(MapEvent):
    """A get begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShown(MapEvent):
    """A get returns to its caller with the value of a version; an expired entry is shown with the value it had."""

    version: EntryVersion
    value: bytes | None
