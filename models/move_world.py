"""The world of a move: its record, its two slot rows, its rows of data, and the movers, with acts on their way."""

from typing import NamedTuple

from apportion.shards.reshard import MoveAct, MoveRecord, MoveState, MoveView, Way
from apportion.shards.slot_rows import SlotRow, SlotState
from apportion.tables.layout import Version

SOURCE, TARGET = 0, 1


class MoveBounds(NamedTuple):
    """How often there is a write, another publication, a new mover, a lost reply, a wish to abort, a late drain.

    `aways` is how often the mover decides without an answer of the target, `reverses` how often the move is reversed.
    """

    writes: int = 2
    publications: int = 1
    movers: int = 1
    losses: int = 1
    aborts: int = 1
    retreats: int = 1
    aways: int = 1
    reverses: int = 0


class Row(NamedTuple):
    """A slot's row on a shard, small; `number` 0 is none."""

    state: SlotState
    number: int = 0

    @property
    def row(self) -> SlotRow:
        """The row as the shipped code has it."""
        return SlotRow(state=self.state, number=version(self.number) if self.number else None)


class Sent(NamedTuple):
    """An act on its way: its token, the revision of the record that it compares, and the value that it copies.

    `is_back` tells that it was decided on the way back.
    """

    act: MoveAct
    token: int
    revision: int
    value: int
    is_back: bool = False


class Mover(NamedTuple):
    """A mover: its token, the shards that it has guarded, and the act that it waits for."""

    token: int
    guarded: int = 0
    sent: Sent | None = None


class MoveWorld(NamedTuple):
    """A state. `names` is the shard that each published table names; the last table is the newest.

    A write is a number, one higher than the last acknowledged one. `values` are the newest writes that each shard
    has, `logged` the newest in the log of each, `cursors` the newest that was applied from each log.
    """

    state: MoveState
    attempt: int
    revision: int
    names: tuple[int, ...]
    source: Row
    target: Row | None
    guards: tuple[int, ...]
    values: tuple[int, int]
    acked: int
    logged: tuple[int, int]
    cursors: tuple[int, int]
    captured: tuple[bool, bool]
    flags: tuple[bool, ...]  # copied, verified, cleaned
    mover: Mover
    late: tuple[Sent, ...]
    left: MoveBounds
    is_aborting: bool = False
    is_late: bool = False
    is_listed: bool = True
    way: Way = "one-way"

    def row(self, shard: int) -> SlotRow | None:
        """Return the row of a shard as the shipped code has it."""
        kept = (self.source, self.target)[shard]
        return None if kept is None else kept.row

    def found(self) -> MoveView:
        """Return what a mover reads."""
        source = self.row(SOURCE)
        copied, verified, cleaned = self.flags
        return MoveView(
            record=MoveRecord(state=self.state, attempt=self.attempt, way=self.way),
            newest=version(len(self.names)),
            source=source if source is not None else SlotRow(state="moved"),
            target=self.row(TARGET),
            is_captured=self.captured[SOURCE],
            is_captured_back=self.captured[TARGET],
            is_copied=copied,
            is_near=self.cursors[SOURCE] + 1 >= self.logged[SOURCE],
            is_drained=self.cursors[SOURCE] >= self.logged[SOURCE],
            is_verified=verified,
            is_cleaned=cleaned,
            is_listed=self.is_listed,
            is_late=self.is_late and self.state == "fenced",
            wish="abort" if self.is_aborting else "go",
        )


def turned(world: MoveWorld) -> MoveWorld:
    """Return the same world with the two shards swapped."""
    target = world.target if world.target is not None else Row("moved")
    return world._replace(
        names=tuple(1 - shard for shard in world.names),
        source=target,
        target=world.source,
        guards=world.guards[::-1],
        values=world.values[::-1],
        logged=world.logged[::-1],
        cursors=world.cursors[::-1],
        captured=world.captured[::-1],
    )


def version(number: int) -> Version:
    """Return a version of the table."""
    return Version(incarnation=1, number=number)
