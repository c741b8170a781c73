"""MapHistory: every put and get of all processes as an interval of time, made of the events of their maps.

A put that raised, or of a process that died, has no end: it owes nothing, and its value may be shown at any later time.
"""

from dataclasses import dataclass, field

from apportion.shards.replicas.map_events import MapEvent, ReadBegan, ReadShown, WriteAcknowledged, WriteSent
from apportion.shards.replicas.version import EntryVersion


@dataclass(slots=True, kw_only=True)
class PutSpan:
    """A put or deletion: all versions it was sent under, its value, and its acknowledged version if it has one."""

    key: bytes
    begin: float
    value: bytes | None
    versions: list[EntryVersion]
    end: float | None = None
    acknowledged: EntryVersion | None = None


@dataclass(slots=True, kw_only=True)
class GetSpan:
    """A get that returned: the version that it showed, and the value of that version."""

    key: bytes
    begin: float
    end: float
    shown: EntryVersion
    value: bytes | None


@dataclass(slots=True)
class MapHistory:
    """The calls of many processes."""

    puts: list[PutSpan] = field(default_factory=list)
    gets: list[GetSpan] = field(default_factory=list)
    _open_puts: dict[tuple[object, int], PutSpan] = field(default_factory=dict)
    _open_gets: dict[tuple[object, int], float] = field(default_factory=dict)

    def take(self, process: object, event: MapEvent, at: float) -> None:
        """Take an event of a process's map at a time. `process` tells apart the calls of two opened maps. O(1)."""
        call = process, event.call
        if isinstance(event, WriteSent):
            self._sent(call, event, at)
        elif isinstance(event, WriteAcknowledged):
            span = self._open_puts.pop(call)
            span.end, span.acknowledged = at, event.version
        elif isinstance(event, ReadBegan):
            self._open_gets[call] = at
        elif isinstance(event, ReadShown):
            begin = self._open_gets.pop(call)
            self.gets.append(GetSpan(key=event.key, begin=begin, end=at, shown=event.version, value=event.value))

    def _sent(self, call: tuple[object, int], event: WriteSent, at: float) -> None:
        span = self._open_puts.get(call)
        if span is not None:
            span.versions.append(event.version)
            return
        span = PutSpan(key=event.key, begin=at, value=event.value, versions=[event.version])
        self._open_puts[call] = span
        self.puts.append(span)
