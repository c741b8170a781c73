"""ReplicaMap: the answers of an opened map that need no I/O, and the checks of its calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from apportion.errors import ApportionError, InvalidInput
from apportion.errors.brief import brief
from apportion.runtime.handle import Handle
from apportion.runtime.simulated import Runner
from apportion.shards.replicas.coordinator import Coordinator
from apportion.shards.replicas.entry import MapEntry, checked_key, checked_value
from apportion.shards.replicas.level import Level
from apportion.shards.replicas.map_options import seconds_of
from apportion.shards.replicas.opening import OpenedMap
from apportion.shards.replicas.statistics import MapStatistics
from apportion.shards.replicas.version import EntryVersion

Found = TypeVar("Found")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyExplanation:
    """The place of a key: its slot and leaf, the nodes of its list, and the number of the table that says so."""

    key: str
    slot: int
    leaf: int
    replicas: tuple[str, ...]
    number: int
    silent: tuple[str, ...]

    def __str__(self) -> str:
        away = f"; no answer from {', '.join(self.silent)}" if self.silent else ""
        nodes = ", ".join(self.replicas)
        return f"key {self.key!r} is in slot {self.slot}, leaf {self.leaf}: {nodes} (table {self.number}){away}"


class ReplicaMap(Handle):
    """An opened map, for its async and its sync form."""

    def __init__(self, opened: OpenedMap, thread: Runner) -> None:
        self._map, self._thread = opened.coordinator, thread

    @property
    def nodes(self) -> tuple[str, ...]:
        """The ids of the nodes, sorted. No I/O."""
        table = self._map.table
        return table.topology.ids

    @property
    def statistics(self) -> MapStatistics:
        """The counts since the map was opened. No I/O."""
        return self._map.statistics

    @property
    def troubles(self) -> dict[str, ApportionError]:
        """The reason why each silent node gave no answer to the last request. No I/O."""
        return self._map.troubles()

    def replicas_of(self, key: str) -> tuple[str, ...]:
        """Return the ids of the nodes that hold the copies of a key. No I/O; O(copies)."""
        return self._map.owners(checked_key(key))

    def explain(self, key: str) -> KeyExplanation:
        """Return the place of a key, and why. No I/O; O(copies)."""
        table, space, counted = self._map.table, self._map.space, self._map.statistics
        part, replicas = space.part_of(checked_key(key)), self.replicas_of(key)
        silent = tuple(node for node in replicas if node in counted.silent)
        return KeyExplanation(
            key=key,
            slot=part.slot,
            leaf=part.leaf or 0,
            replicas=replicas,
            number=table.number,
            silent=silent,
        )


async def put_one(
    of: Coordinator, key: str, value: bytes | None, ttl: timedelta | None, consistency: Level | None
) -> EntryVersion:
    """Write one key (None: delete it); return its version, or raise its error."""
    item = {checked_key(key): None if value is None else checked_value(value)}
    (found,) = await of.put(item, of.checked(consistency), ttl_ms(ttl))
    return raised(found)


async def get_one(of: Coordinator, key: str, consistency: Level | None) -> MapEntry | None:
    """Read one key; return its entry or None, or raise its error."""
    (found,) = await of.get([checked_key(key)], of.checked(consistency))
    return raised(found)


async def put_all(
    of: Coordinator, values: Mapping[str, bytes], ttl: timedelta | None, consistency: Level | None
) -> dict[str, EntryVersion | ApportionError]:
    """Write many keys; every argument is checked before the first effect."""
    if not isinstance(values, Mapping):
        raise InvalidInput("values", values, "a mapping of keys to bytes", 'Write {"checkout": b"on"}.')
    items: dict[bytes, bytes | None] = {checked_key(key): checked_value(value) for key, value in values.items()}
    found = await of.put(items, of.checked(consistency), ttl_ms(ttl))
    return dict(zip(values, found, strict=True))


async def get_all(
    of: Coordinator, keys: Iterable[str], consistency: Level | None
) -> dict[str, MapEntry | ApportionError | None]:
    """Read many keys, each once."""
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise InvalidInput("keys", keys, "a list of keys", 'Write ["checkout"], also for a single one.')
    listed = list(dict.fromkeys(keys))
    found = await of.get([checked_key(key) for key in listed], of.checked(consistency))
    return dict(zip(listed, found, strict=True))


def ttl_ms(ttl: timedelta | None) -> int | None:
    """Return a time to live in milliseconds; `InvalidInput` unless it is above zero."""
    return None if ttl is None else max(1, round(seconds_of("ttl", ttl) * 1_000))


def raised(found: Found | ApportionError) -> Found:
    """Return a result, or raise the error in its place."""
    if isinstance(found, ApportionError):
        raise found
    return found
