"""Requests: the caller's requests to a store, checked once for all stores and turned into bytes within a namespace.

Promises: an invalid request is refused before anything is sent; the error names field, value and limit. Keys are
ordered by their UTF-8. A request lists them in that order, so two requests lock rows in the same order.
"""

import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from apportion.errors import InvalidInput, StoreWentBack
from apportion.stores.api import Absent, Capabilities, Compare, Event, Item, Put, Unchanged

MAX_KEY_BYTES = 1_024  # the longest key that fits a PostgreSQL index entry with its namespace
MAX_REVISION = 2**63 - 1
Value = TypeVar("Value")
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A checked commit, sorted by key. `compares` pairs each key with its expected revision (None: absent)."""

    compares: tuple[tuple[bytes, int | None], ...]
    puts: tuple[tuple[bytes, bytes, int | None], ...]
    deletes: tuple[bytes, ...]


class Space:
    """The keys of one namespace, as callers write them and as bytes in the store.

    >>> space = Space("crawl")
    >>> space.key("own/7"), space.text(b"crawl/own/7"), space.span("own/")
    (b'crawl/own/7', 'own/7', (b'crawl/own/', b'crawl/own0'))
    """

    def __init__(self, namespace: str) -> None:
        if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
            expected = "1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
            raise InvalidInput("namespace", namespace, expected, "Write for example ?namespace=crawl")
        self.namespace = namespace
        self._prefix = f"{namespace}/".encode()

    def key(self, key: str) -> bytes:
        """Return the bytes of a key; `InvalidInput` for a key that no store accepts."""
        return self._prefix + _utf8("key", key, least=1)

    def has(self, key: bytes) -> bool:
        """Whether a key is text. Other bytes were written by another program and are skipped.

        >>> Space("crawl").has(b"crawl/own/7"), Space("crawl").has(b"crawl/own/\\xff")
        (True, False)
        """
        try:
            self.text(key)
        except UnicodeDecodeError:
            return False
        return True

    def text(self, key: bytes) -> str:
        """Return the key as callers write it."""
        return key[len(self._prefix) :].decode()

    def item(self, row: tuple[bytes, bytes, int, int | None]) -> Item | None:
        """Return the item of a key with its value, revision and lease; None for a key that is not text."""
        key, value, revision, lease = row
        return Item(key=self.text(key), value=value, revision=revision, lease=lease) if self.has(key) else None

    def events(self, changed: Iterable[tuple[bytes, bytes | None, int | None]]) -> tuple[Event, ...]:
        """Return the events of changed keys, each with its new value and lease; none for keys that are not text."""
        ours = (each for each in changed if self.has(each[0]))
        return tuple(Event(key=self.text(key), value=value, lease=lease) for key, value, lease in ours)

    def span(self, prefix: str) -> tuple[bytes, bytes]:
        """Return the half-open range of bytes that holds every key with this prefix."""
        start = self._prefix + _utf8("prefix", prefix, least=0)
        # The last byte can be raised by one, because no byte of UTF-8 is 255. For an empty prefix, it is the slash.
        return start, start[:-1] + bytes([start[-1] + 1])

    def request(
        self, when: Sequence[Compare], puts: Sequence[Put], deletes: Sequence[str], limits: Capabilities
    ) -> CommitRequest:
        """Check a commit against the rules of all stores and the limits of one."""
        for name, given in (("when", when), ("puts", puts), ("deletes", deletes)):
            if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
                raise InvalidInput(name, given, "a list", f"Write {name}=[...], also for a single one.")
        if (operations := max(len(when), len(puts) + len(deletes))) > limits.max_operations:
            most = f"at most {limits.max_operations} compares and as many writes (max_operations of this store)"
            raise InvalidInput("operations of a commit", operations, most, "A commit is never split: make several.")
        # These two calls come first: they refuse an object of the wrong type, which has no `key`.
        expected = [_expected(each) for each in when]
        values = [_value(each, limits) for each in puts]
        compares = _distinct("compare", [(self.key(each.key), it) for each, it in zip(when, expected, strict=True)])
        pairs = zip(puts, values, strict=True)
        written = _distinct("put", [(self.key(put.key), (value, checked_lease(put.lease))) for put, value in pairs])
        removed = [self.key(key) for key in deletes]
        _check_keys(compares, written, removed)
        _check_size(compares, written, limits)
        return CommitRequest(
            compares=tuple(sorted(compares.items())),
            puts=tuple((key, value, lease) for key, (value, lease) in sorted(written.items())),
            deletes=tuple(sorted(removed)),
        )


def checked_after(after: int) -> int:
    """Return `after` if a watch can start there."""
    if type(after) is not int or not 0 <= after <= MAX_REVISION:
        raise InvalidInput("after", after, f"a revision in 0 .. {MAX_REVISION}", "Take it from a scan.")
    return after


def checked_ttl(ttl_seconds: float, limits: Capabilities) -> float:
    """Return the time to live if the store can keep a lease with it."""
    least, most = limits.min_ttl_seconds, limits.max_ttl_seconds
    is_number = isinstance(ttl_seconds, (int, float)) and not isinstance(ttl_seconds, bool)
    if not is_number or not least <= ttl_seconds <= most:
        hint = "A lease must outlast a pause of its holder, and end soon after a crash: 2 to 30 seconds are usual."
        raise InvalidInput("ttl_seconds", ttl_seconds, f"a number of seconds in {least:g} .. {most:g}", hint)
    return float(ttl_seconds)


def checked_leases(leases: Collection[int]) -> tuple[int, ...]:
    """Return distinct lease ids, sorted; `InvalidInput` for a value that cannot be a lease id."""
    if not isinstance(leases, Collection) or isinstance(leases, (str, bytes)):
        raise InvalidInput("leases", leases, "a list", "Write leases=[...], also for a single one.")
    for lease in leases:
        if lease is None:
            raise InvalidInput("lease", None, "the id of a granted lease", "Pass Lease.id.")
        checked_lease(lease)
    return tuple(sorted(set(leases)))


def checked_lease(lease: int | None) -> int | None:
    """Return the id of a lease; `InvalidInput` for a value that cannot be one."""
    if lease is not None and (type(lease) is not int or not 0 < lease < 2**63):
        raise InvalidInput("lease", lease, "the id of a granted lease, or None", "Pass Lease.id.")
    return lease


def went_back(store: str, *, seen: tuple[int, int], found: tuple[int, int]) -> StoreWentBack:
    """Return the error for a store that contradicts an earlier reading.

    `seen` and `found` each have an incarnation and a revision.
    """
    before, now = (f"revision {revision} of incarnation {incarnation}" for incarnation, revision in (seen, found))
    return StoreWentBack(store, before, f"it is at {now}")


def lease_id() -> int:
    """Return a random id for a new lease. After a restore of the store, a counter would give the same ids again.

    A process that has not noticed the restore still renews and revokes its old lease. Another process must not have a
    new lease with the same id.
    """
    return 1 + secrets.randbits(48)


def _expected(compare: Compare) -> int | None:
    if isinstance(compare, Absent):
        return None
    if not isinstance(compare, Unchanged):
        raise InvalidInput("compare", compare, "Unchanged(key, revision) or Absent(key)", "There is no other compare.")
    if type(compare.revision) is not int or not 0 < compare.revision <= MAX_REVISION:
        expected = f"a revision in 1 .. {MAX_REVISION}"
        raise InvalidInput("revision of Unchanged", compare.revision, expected, "Take it from an item of a scan.")
    return compare.revision


def _distinct(what: str, pairs: list[tuple[bytes, Value]]) -> dict[bytes, Value]:
    found: dict[bytes, Value] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidInput(f"key of a {what}", _said(key), "each key once in a commit", "Drop one of the two.")
        found[key] = value
    return found


def _said(key: bytes) -> str:
    """Return a key as its caller wrote it; a namespace has no slash."""
    return key.partition(b"/")[2].decode()


def _value(put: Put, limits: Capabilities) -> bytes:
    if not isinstance(put, Put):
        raise InvalidInput("put", put, "Put(key, value)", "Name keys to delete in deletes.")
    if not isinstance(put.value, bytes):
        raise InvalidInput("value", put.value, "bytes", "Encode it first.")
    if len(put.value) > limits.max_value_bytes:
        expected = f"at most {limits.max_value_bytes} bytes (max_value_bytes of this store)"
        raise InvalidInput("length of a value", len(put.value), expected, "Cut it into several keys.")
    return put.value


def _check_keys(compares: dict[bytes, int | None], written: Iterable[bytes], removed: list[bytes]) -> None:
    written = set(written)
    if not written and not removed:
        raise InvalidInput("commit", "(no put, no delete)", "at least one", "To read, use scan.")
    for key in sorted({*written, *removed} - set(compares)):
        hint = "Name the expected state: Absent(key=...), or Unchanged(key=..., revision=...) from a scan."
        raise InvalidInput("written key", _said(key), "one that is compared in `when`", hint)
    if len(set(removed)) < len(removed) or written & set(removed):
        raise InvalidInput("deletes", "(a key twice)", "each key written once in a commit", "Drop one of the two.")
    for key in removed:
        if compares[key] is None:
            raise InvalidInput("deleted key", _said(key), "compared by Unchanged", "An absent key needs no delete.")


def _check_size(
    compares: dict[bytes, int | None], written: dict[bytes, tuple[bytes, int | None]], limits: Capabilities
) -> None:
    size = sum(map(len, compares)) + sum(len(key) + len(value) for key, (value, _) in written.items())
    if size > limits.max_commit_bytes:
        expected = f"at most {limits.max_commit_bytes} bytes (max_commit_bytes of this store)"
        raise InvalidInput("bytes of a commit", size, expected, "A commit is never split: make several.")


def _utf8(field: str, text: str, *, least: int) -> bytes:
    if not isinstance(text, str):
        raise InvalidInput(field, text, "a str", "Decode it first.")
    # A character has at least one byte: a text with too many characters is refused before it is encoded.
    if not least <= len(text) <= MAX_KEY_BYTES or "\0" in text:
        expected = f"{least} to {MAX_KEY_BYTES} bytes of UTF-8 without NUL"
        raise InvalidInput(field, text, expected, "Shorten it, for example to its digest.")
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        expected = "text without lone surrogates"
        raise InvalidInput(field, text, expected, "Fix the code that made it, or decode with another codec.") from error
    if len(encoded) > MAX_KEY_BYTES:
        raise InvalidInput(field, text, f"at most {MAX_KEY_BYTES} bytes of UTF-8", "Shorten it.")
    return encoded
