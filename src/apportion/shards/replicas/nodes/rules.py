"""Rules: the answer of a node to an entry, as a pure function of the node's state. Every kind of node obeys it.

Promises: an entry changes only to a higher version; the function has no other effect than its answer.
Refuses: to compare table numbers; a node does that first, in the same atomic act.
"""

from dataclasses import dataclass, replace

from apportion.errors import InvalidInput
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.nodes.api import EntryAnswer, EntryPurged, EntryStored, EntrySuperseded, SlotSealed
from apportion.shards.replicas.version import EntryVersion, last_of

EXPIRY_SLACK_MS = 60_000
"""The distance that an expired entry keeps from the clean mark, for readers with a slow clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMarks:
    """The marks of a slot on a node, in milliseconds since 1970, and the number under which it was opened."""

    seal_ms: int = 0
    clean_ms: int = 0
    opened: int = 0

    def raised(self, at_ms: int, *, clean: bool) -> "SlotMarks":
        """Return the marks with one of them raised to a time. A clean mark raises the seal with it."""
        seal_ms = max(self.seal_ms, at_ms)
        return replace(self, seal_ms=seal_ms, clean_ms=max(self.clean_ms, at_ms) if clean else self.clean_ms)

    def opened_under(self, number: int) -> "SlotMarks":
        """Return the marks of a slot that was emptied and opened: the seal stays, the clean mark proves nothing."""
        return replace(self, clean_ms=0, opened=number)


def answer_to(entry: NodeEntry, held: EntryVersion | None, marks: SlotMarks, *, copy: bool) -> EntryAnswer:
    """Return a node's answer to an entry. `EntryStored` asks the node to store it, unless it holds that version. O(1).

    >>> entry = NodeEntry(key=b"k", version=EntryVersion(milliseconds=5), value=b"on")
    >>> answer_to(entry, None, SlotMarks(), copy=False)
    EntryStored()
    >>> answer_to(entry, None, SlotMarks(seal_ms=5), copy=True)
    EntryStored()
    >>> answer_to(entry, None, SlotMarks(clean_ms=5), copy=True)
    EntryPurged(clean_ms=5)
    """
    if held is not None and held > entry.version:
        return EntrySuperseded(held)
    if held == entry.version:
        return EntryStored()
    if copy and entry.version.milliseconds <= marks.clean_ms:
        return EntryPurged(marks.clean_ms)
    if not copy and entry.version.milliseconds <= marks.seal_ms:
        return SlotSealed(last_of(marks.seal_ms))
    return EntryStored()


def is_purged(entry: NodeEntry, clean_ms: int) -> bool:
    """Whether an entry may be forgotten behind a clean mark: a deletion, or expired a minute before the mark. O(1)."""
    if entry.value is None:
        return entry.version.milliseconds <= clean_ms
    last = None if entry.expires_ms is None else max(entry.version.milliseconds, entry.expires_ms)
    return last is not None and last <= clean_ms - EXPIRY_SLACK_MS


def refused_map(node: str, name: str, found: str) -> InvalidInput:
    """Return the error for a node that is no node of the map."""
    hint = "Check the URL. A node belongs to one map of a name; replicas.create makes it a node of the map."
    return InvalidInput(f"node {node}", found, f"a node of the map {name!r}", hint)


def refused_table(node: str, number: int) -> InvalidInput:
    """Return the error for a second table under one number: two programs have given the number."""
    hint = "Nothing was changed. Read the table of the map again; a leader gives each number once."
    return InvalidInput(f"table {number} for node {node}", "another table", "the table that the node has", hint)
