"""The rows of one map in the file of an SQLite node, within one transaction.

Promises: an entry's row is written only after `rules.answer_to` has said so for the row that the transaction sees.
"""

# ruff: noqa: S608 - names are ours

import sqlite3
from dataclasses import dataclass
from typing import Self

from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.nodes.api import MOST_LISTED, EntryAnswer, EntryStored, KeyState, PartDigest, PurgeKind
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.nodes.rules import EXPIRY_SLACK_MS, SlotMarks, answer_to
from apportion.shards.replicas.nodes.sqlite.schema import signed
from apportion.shards.replicas.slot_space import SlotPart, SlotSpace
from apportion.shards.replicas.version import EntryVersion, last_of

_ONE = "map = ? AND position = ? AND key = ?"
_RANGE = "map = ? AND position >= ? AND position <= ?"
_COLUMNS = "key, version, value, expires"


@dataclass(slots=True)
class MapRows:
    """The map's row, read by the transaction, and the statements on the rows below it."""

    connection: sqlite3.Connection
    name: str
    space: SlotSpace
    map_id: str
    number: int
    table: bytes
    beat: int

    @classmethod
    def of(cls, connection: sqlite3.Connection, of: NodeMap) -> Self | None:
        """Return the rows of a map; None if the file does not have it."""
        statement = "SELECT id, number, published, beat FROM apportion_replica_map WHERE name = ?"
        found = connection.execute(statement, (of.name,)).fetchone()
        return None if found is None else cls(connection, of.name, of.space, *found)

    @classmethod
    def make(cls, connection: sqlite3.Connection, of: NodeMap, number: int, table: bytes) -> None:
        """Make the file a node of a map."""
        statement = "INSERT INTO apportion_replica_map (name, id, number, published, beat) VALUES (?, ?, ?, ?, 1)"
        connection.execute(statement, (of.name, of.id, number, table))

    def fence(self, number: int, table: bytes) -> None:
        """Keep a table and its number."""
        statement = "UPDATE apportion_replica_map SET number = ?, published = ?, beat = beat + 1 WHERE name = ?"
        self.connection.execute(statement, (number, table, self.name))

    def raise_beat(self) -> None:
        """Raise the beat."""
        self.connection.execute("UPDATE apportion_replica_map SET beat = beat + 1 WHERE name = ?", (self.name,))

    def marks(self, slot: int) -> SlotMarks:
        """Return the marks of a slot."""
        statement = "SELECT seal, clean, opened FROM apportion_replica_slot WHERE map = ? AND slot = ?"
        found = self.connection.execute(statement, (self.name, slot)).fetchone() or (0, 0, 0)
        return SlotMarks(seal_ms=found[0], clean_ms=found[1], opened=found[2])

    def set_marks(self, slot: int, marks: SlotMarks) -> None:
        """Keep the marks of a slot."""
        statement = (
            "INSERT OR REPLACE INTO apportion_replica_slot (map, slot, seal, clean, opened) VALUES (?, ?, ?, ?, ?)"
        )
        self.connection.execute(statement, (self.name, slot, marks.seal_ms, marks.clean_ms, marks.opened))

    def apply(self, entry: NodeEntry, *, copy: bool) -> EntryAnswer:
        """Answer an entry, and store it if the answer says so."""
        place = (self.name, signed(self.space.position(entry.key)), entry.key)
        found = self.connection.execute(f"SELECT version FROM apportion_replica_entry WHERE {_ONE}", place).fetchone()
        held = None if found is None else EntryVersion.of(found[0])
        answer = answer_to(entry, held, self.marks(self.space.slot_of(entry.key)), copy=copy)
        if answer == EntryStored() and held != entry.version:
            statement = (
                "INSERT OR REPLACE INTO apportion_replica_entry (map, position, key, version, value, expires, mark)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)"
            )
            written = (bytes(entry.version), entry.value, entry.expires_ms, signed(entry.mark))
            self.connection.execute(statement, (*place, *written))
        return answer

    def state(self, key: bytes) -> KeyState:
        """Return the state of a key."""
        statement = f"SELECT {_COLUMNS} FROM apportion_replica_entry WHERE {_ONE}"
        found = self.connection.execute(statement, (self.name, signed(self.space.position(key)), key)).fetchone()
        clean_ms = self.marks(self.space.slot_of(key)).clean_ms
        return KeyState(entry=None if found is None else _entry(*found), clean_ms=clean_ms)

    def digest(self, part: SlotPart, at_most_ms: int) -> PartDigest:
        """Return the digest of a part. O(entries of the part)."""
        statement = (
            f"SELECT count(*), coalesce(apportion_xor(mark), 0), count(*) % 2 FROM apportion_replica_entry"
            f" WHERE {_RANGE} AND version <= ?"
        )
        most = bytes(last_of(at_most_ms))
        count, mark, is_odd = self.connection.execute(statement, (*self._range(part), most)).fetchone()
        marks = self.marks(part.slot)
        # An odd number of signed marks has one sign too many: `signed` gives it back.
        unsigned = (signed(mark) if is_odd else mark) % 2**64
        return PartDigest(count=count, mark=unsigned, seal_ms=marks.seal_ms, clean_ms=marks.clean_ms)

    def listed(self, part: SlotPart, after: bytes | None) -> tuple[NodeEntry, ...]:
        """Return the next entries of a part."""
        name, first, last = self._range(part)
        begin = (first, b"") if after is None else (signed(self.space.position(after)), after)
        statement = (
            f"SELECT {_COLUMNS} FROM apportion_replica_entry WHERE map = ? AND (position, key) > (?, ?)"
            f" AND position >= ? AND position <= ? ORDER BY position, key LIMIT {MOST_LISTED}"
        )
        rows = self.connection.execute(statement, (name, *begin, first, last)).fetchall()
        return tuple(_entry(*row) for row in rows)

    def purge(self, slot: int, kind: PurgeKind) -> None:
        """Delete the entries of a slot that a kind of purge names."""
        marks, within = self.marks(slot), self._range(SlotPart(slot))
        if kind is PurgeKind.BEHIND_CLEAN:
            ended, clean = last_of(max(0, marks.clean_ms - EXPIRY_SLACK_MS)), bytes(last_of(marks.clean_ms))
            deletions = f"DELETE FROM apportion_replica_entry WHERE {_RANGE} AND value IS NULL AND version <= ?"
            self.connection.execute(deletions, (*within, clean))
            expired = f"DELETE FROM apportion_replica_entry WHERE {_RANGE} AND version <= ? AND expires <= ?"
            self.connection.execute(expired, (*within, bytes(ended), marks.clean_ms - EXPIRY_SLACK_MS))
        elif kind is PurgeKind.OPEN and marks.opened != self.number:
            self._empty(within)
            self.set_marks(slot, marks.opened_under(self.number))
        elif kind is PurgeKind.LEFT:
            self._empty(within)
            statement = "DELETE FROM apportion_replica_slot WHERE map = ? AND slot = ?"
            self.connection.execute(statement, (self.name, slot))

    def _empty(self, within: tuple[str, int, int]) -> None:
        self.connection.execute(f"DELETE FROM apportion_replica_entry WHERE {_RANGE}", within)

    def _range(self, part: SlotPart) -> tuple[str, int, int]:
        first, end = self.space.bounds(part)
        return self.name, signed(first), signed(end - 1)


def _entry(key: bytes, version: bytes, value: bytes | None, expires: int | None) -> NodeEntry:
    return NodeEntry(key=key, version=EntryVersion.of(version), value=value, expires_ms=expires)
