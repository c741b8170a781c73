"""The rigs of the two kinds of nodes, and three broken nodes."""

import shutil
import tempfile
from pathlib import Path

from apportion.shards.replicas.nodes.api import EntryStored, EntrySuperseded
from apportion.shards.replicas.nodes.memory import MemoryData, MemoryNode
from apportion.shards.replicas.nodes.rules import SlotMarks
from apportion.shards.replicas.nodes.sqlite.node import SqliteNode
from apportion.sim.conformance.replicas.rig import NodeRig


class MemoryRig(NodeRig):
    """A memory node: its data lives beside its handles."""

    name, keeps_data = "memory", True
    kind = MemoryNode

    def __init__(self):
        self.data = MemoryData(life="here")

    def open(self, of):
        return self.kind("here", self.data, of)

    async def close(self):
        self.data.shelves.clear()


class SqliteRig(NodeRig):
    """An SQLite node in a folder of its own."""

    name, keeps_data = "sqlite", True
    kind = SqliteNode

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="replica-"))

    def open(self, of):
        return self.kind(self.folder / "node.db", of, makes=True)

    async def close(self):
        shutil.rmtree(self.folder)


class LastArrivalWins(MemoryNode):
    """Broken: it stores whatever arrives last."""

    async def apply(self, entries, *, number, copy=False):
        shelf = self._shelf()
        for each in entries:
            shelf.entries[self._space.slot_of(each.key)][each.key] = each
        return (EntryStored(),) * len(entries)


class SaysStored(MemoryNode):
    """Broken: it says of a superseded put that it was stored."""

    async def apply(self, entries, *, number, copy=False):
        answers = await super().apply(entries, number=number, copy=copy)
        return tuple(EntryStored() if isinstance(each, EntrySuperseded) else each for each in answers)


class ForgetsFences(MemoryNode):
    """Broken: it takes every number for its own."""

    async def apply(self, entries, *, number, copy=False):
        return await super().apply(entries, number=self._shelf().number, copy=copy)

    async def read(self, keys, *, number):
        return await super().read(keys, number=self._shelf().number)

    async def purge(self, slots, *, kind, number):
        return await super().purge(slots, kind=kind, number=self._shelf().number)


class ForgetsMarks(MemoryNode):
    """Broken: it takes marks, and measures nothing by them."""

    def _applied(self, shelf, entry, *, copy):
        slot = self._space.slot_of(entry.key)
        kept, shelf.marks[slot] = shelf.marks[slot], SlotMarks()
        answer = super()._applied(shelf, entry, copy=copy)
        shelf.marks[slot] = kept
        return answer


def broken_rig(kind):
    """Return a rig of a broken memory node."""
    return type(f"{kind.__name__}Rig", (MemoryRig,), {"name": kind.__name__, "kind": kind})
