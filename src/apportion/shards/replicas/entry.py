"""Entries: a key's last write, as a node keeps it and as a user of the map reads it.

Promises: a deletion is an entry too, without a value; so a late copy of an older value cannot undo it.
Refuses: text as a value, values over 1 MiB and keys over 4 KiB.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.shards.replicas.slot_space import hash64
from apportion.shards.replicas.version import EntryVersion

MOST_KEY_BYTES = 4_096
MOST_VALUE_BYTES = 2**20


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class MapEntry:
    """The answer of a get: a value, the version of its write, and the time at which it ends (None: never)."""

    value: bytes
    version: EntryVersion
    expires_at: datetime | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """The last write of a key on a node. `value` is None for a deletion; `expires_ms` is a time since 1970."""

    key: bytes
    version: EntryVersion
    value: bytes | None
    expires_ms: int | None = None

    @property
    def mark(self) -> int:
        """A 64-bit hash of key and version: two nodes with equal marks hold the same write of the key."""
        return hash64(bytes(self.version) + self.key)

    def shown(self, now_ms: int) -> MapEntry | None:
        """Return the entry as a user reads it at a time: None for a deletion, and for an entry that has expired."""
        if self.value is None or (self.expires_ms is not None and self.expires_ms <= now_ms):
            return None
        ends = None if self.expires_ms is None else datetime.fromtimestamp(self.expires_ms / 1_000, UTC)
        return MapEntry(value=self.value, version=self.version, expires_at=ends)


def checked_key(key: str) -> bytes:
    """Return a key as nodes keep it: the UTF-8 of a text of 1 to 4 096 bytes."""
    if not isinstance(key, str):
        raise InvalidInput("key", key, "a str", "Decode bytes, or write the number as text.")
    try:
        data = key.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("key", key, "text that UTF-8 can hold", "Remove the lone surrogates.") from error
    if not 0 < len(data) <= MOST_KEY_BYTES:
        expected = f"1 to {MOST_KEY_BYTES} bytes of UTF-8, not {len(data)}"
        raise InvalidInput("key", key, expected, "Use a short name, or the hash of a long one.")
    return data


def checked_value(value: bytes) -> bytes:
    """Return a value that a map can hold: bytes, at most 1 MiB."""
    if not isinstance(value, bytes):
        hint = "Encode it: text.encode(), json.dumps(value).encode() or bytes(buffer)."
        raise InvalidInput("value", value, "bytes", hint)
    if len(value) > MOST_VALUE_BYTES:
        hint = "Keep large values in an object store, and their names here."
        raise InvalidInput("value", value, f"at most {MOST_VALUE_BYTES} bytes, not {len(value)}", hint)
    return value
