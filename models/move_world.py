"""The world of a move: its record, its two slot rows, its rows of data, and the movers, with acts on their way."""

from typing import NamedTuple

from apportion.shards.reshard import MoveAct, MoveRecord, MoveState, MoveView
from apportion.shards.slot_rows import SlotRow, SlotState
from apportion.tables.layout import Version

SOURCE, TARGET = 0, 1


class MoveBounds(NamedTuple):
    """How often there is a write, another publication, a new mover, a lost reply, a wish to abort, a late drain.

    `aways` is how often the mover decides without an answer of the target.
    """

    writes: int = 2
    publications: int = 1
    movers: int = 1
    losses: int = 1
    aborts: int = 1
    retreats: int = 1
    aways: int = 1


class Row(NamedTuple):
    """A slot's row on a shard, small; `number` 0 is none."""

    state: SlotState
    number: int = 0

    @property
    def row(self) -> SlotRow:
        """The row as the shipped code has it."""
        return SlotRow(state=self.state, number=version(self.number) if self.number else None)


class Sent(NamedTuple):
    """An act on its way: its token, the revision of the record that it compares, and the value that it copies."""

    act: MoveAct
    token: int
    revision: int
    value: int


class Mover(NamedTuple):
    """A mover: its token, the shards that it has guarded, and the act that it waits for."""

    token: int
    guarded: int = 0
    sent: Sent | None = None


class MoveWorld(NamedTuple):
    """A state. `names` is the shard that each published table names; the last table is the newest.

    A write is a number, one higher than the last acknowledged one. `values` are the newest writes that each shard
    has, `logged` the newest in the log of the source, `cursor` the newest that was applied from the log.
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
    logged: int
    cursor: int
    flags: tuple[bool, ...]  # captured, copied, verified, cleaned
    mover: Mover
    late: tuple[Sent, ...]
    left: MoveBounds
    is_aborting: bool = False
    is_late: bool = False
    is_listed: bool = True

    def row(self, shard: int) -> SlotRow | None:
        """Return the row of a shard as the shipped code has it."""
        kept = (self.source, self.target)[shard]
        return None if kept is None else kept.row

    def found(self) -> MoveView:
        """Return what a mover reads."""
        source = self.row(SOURCE)
        captured, copied, verified, cleaned = self.flags
        return MoveView(
            record=MoveRecord(state=self.state, attempt=self.attempt),
            newest=version(len(self.names)),
            source=source if source is not None else SlotRow(state="moved"),
            target=self.row(TARGET),
            is_captured=captured,
            is_copied=copied,
            is_near=self.cursor + 1 >= self.logged,
            is_drained=self.cursor >= self.logged,
            is_verified=verified,
            is_cleaned=cleaned,
            is_listed=self.is_listed,
            is_late=self.is_late and self.state == "fenced",
            wish="abort" if self.is_aborting else "go",
        )


def version(number: int) -> Version:
    """Return a version of the table."""
    return Version(incarnation=1, number=number)
