"""ReplicaNode: the protocol of a store that keeps one copy of the entries of a map.

A node never decides alone. It compares versions, marks and table numbers, and answers; the callers count answers. The
suite `apportion.sim.conformance.replicas` checks that every kind of node keeps these promises:

- An entry changes only to a higher version. The comparison and the change are one atomic act, entry by entry.
- A call with a table number below the number that the node was fenced with changes nothing, and is answered
  `StaleNumber`. The comparison of the numbers is part of the same atomic act.
- An acknowledged change survives the end of the process; on a durable node, also the loss of power.
- From a seal at T on, no put at or below T changes anything. From a clean mark at T on, no copy at or below T does.
- Marks and numbers never go down while the data lives.

Refuses: to know other nodes, to read a clock for a decision, and to serve a map to which it was not fenced.
Source: DeCandia and others, Dynamo, 2007, for the roles; the marks are argued in docs/decisions/0030.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from apportion.errors.brief import brief
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.slot_space import SlotPart
from apportion.shards.replicas.version import EntryVersion

MOST_LISTED = 256


@dataclass(frozen=True, slots=True)
class EntryStored:
    """The node holds this write now: it was newer than the entry before, or it was there already."""


@dataclass(frozen=True, slots=True)
class EntrySuperseded:
    """The node holds a write with this higher version. Nothing was changed."""

    version: EntryVersion


@dataclass(frozen=True, slots=True)
class SlotSealed:
    """The put is at or below the seal of its slot. Nothing was changed; a put above `version` can be taken."""

    version: EntryVersion


@dataclass(frozen=True, slots=True)
class EntryPurged:
    """The copy is at or below the clean mark of its slot: the node had this write or a later one. Nothing changed."""

    clean_ms: int


@dataclass(frozen=True, slots=True)
class StaleNumber:
    """The caller's table number is below this one, with which the node was fenced. Nothing was done."""

    number: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """A key on a node: its entry (None: no entry), and the clean mark of its slot in milliseconds since 1970."""

    entry: NodeEntry | None
    clean_ms: int = 0

    @property
    def version(self) -> EntryVersion | None:
        """The version of the entry, None without one."""
        return None if self.entry is None else self.entry.version


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDigest:
    """The entries of a part up to a time: their number, and the exclusive or of their marks; the slot's own marks."""

    count: int
    mark: int
    seal_ms: int
    clean_ms: int


class PurgeKind(Enum):
    """The entries that a purge deletes.

    BEHIND_CLEAN  deletions at or below the clean mark, and expired entries a minute below it
    OPEN          all entries of a slot that moves here; the slot is then open for writes, with no clean mark
    LEFT          all entries and marks of a slot that has moved away
    """

    BEHIND_CLEAN = "behind the clean mark"
    OPEN = "open"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """The life of a node's data, and the state that the node was last fenced to.

    - `life`: the id of the data, as the node says it; another id is another life.
    - `is_durable`: an acknowledged write survives a loss of power.
    - `clock_ms`: the node's clock in milliseconds since 1970; None for a file.
    - `map_id`, `number`: the map and the table number that the node was fenced with; None and 0 before.
    - `beat`: a counter beside the data that every fence and seal raises. A beat that went back is another life.
    """

    life: str
    is_durable: bool
    clock_ms: int | None
    map_id: str | None
    number: int
    beat: int


EntryAnswer = EntryStored | EntrySuperseded | SlotSealed | EntryPurged | StaleNumber
ReadAnswer = KeyState | StaleNumber


class ReplicaNode(Protocol):
    """One node of one map, used by one event loop. `number` is the table number by which the caller routes.

    These errors apply to every call:

    - `StoreUnavailable`: no answer. A change may have happened, or may still happen.
    - `StoreDenied`: the node refuses this user.
    - `StoreClosed`: the handle was closed or crossed a fork.
    - `InvalidInput`: the node was never fenced for this map, or holds another map of that name.
    """

    async def apply(self, entries: Sequence[NodeEntry], *, number: int, copy: bool = False) -> tuple[EntryAnswer, ...]:
        """Store each entry if it is newer than the node's; return an answer for each, in their order.

        A copy is a write that some node has acknowledged already: a write-back, a stream, a repair. Copies are
        measured by the clean mark, puts by the seal. A put is never answered `EntryPurged`, a copy never `SlotSealed`.
        """

    async def read(self, keys: Sequence[bytes], *, number: int) -> tuple[ReadAnswer, ...]:
        """Return the state of each key, in their order."""

    async def digest(
        self, parts: Sequence[SlotPart], *, at_most_ms: int, number: int
    ) -> tuple[PartDigest, ...] | StaleNumber:
        """Return the digest of each part over its entries with versions up to a time, in the order of `parts`."""

    async def list(self, part: SlotPart, *, after: bytes | None, number: int) -> tuple[NodeEntry, ...] | StaleNumber:
        """Return the next entries of a part in the order of (position, key): at most 256, after a key (None: first).

        An empty answer is the end of the part.
        """

    async def seal(self, slots: Sequence[int], *, at_ms: int, number: int, clean: bool = False) -> StaleNumber | None:
        """Raise the seals of slots to a time, or with `clean` their clean marks. A mark never goes down."""

    async def purge(self, slots: Sequence[int], *, kind: PurgeKind, number: int) -> StaleNumber | None:
        """Delete entries of slots; see `PurgeKind`. OPEN and LEFT need the node's own number, exactly.

        A slot that was opened under a number is not emptied again under that number.
        """

    async def fence(self, number: int, table: bytes) -> StaleNumber | None:
        """Keep a table and its number, and refuse lower numbers from now on.

        The first fence makes the node a node of the map. `InvalidInput` if the node holds another map of that name,
        or another table under the same number.
        """

    async def identity(self) -> NodeIdentity:
        """Return the identity of the node. A node that was never fenced has no map and the number 0."""
