"""Events of a move, for a progress bar, a log or a test: each act, with the progress of the rows."""

from collections.abc import Callable
from dataclasses import dataclass

from apportion.errors.brief import brief
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.records import MoveEntry
from apportion.shards.reshard import MoveState


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEvent:
    """The end of one act of a mover. `at` is a time of the mover's elapsed clock, in seconds.

    - `step`: the name of the step, as in stop points. "waits" means that a database or the control store did not
      answer, or that it denied a request. "ends" means that a limit has ended the move, and "rests" that its attempts
      are used up.
    - `copied`, `rows`: the number of rows copied so far, and of all rows of the group. 0 if it is not known.
    - `lag`: the number of logged changes that the target does not have yet.
    - `why`: the reason of a wait, or of an end.
    """

    group: MoveGroup
    state: MoveState
    step: str
    at: float
    attempt: int = 1
    copied: int = 0
    rows: int = 0
    lag: int = 0
    why: str = ""

    @classmethod
    def of(
        cls, entry: MoveEntry, step: str, *, at: float, copied: int = 0, rows: int = 0, lag: int = 0, why: str = ""
    ) -> "MoveEvent":
        """Return the event of a move with this record."""
        record = entry.record
        return cls(
            group=entry.group,
            state=record.state,
            step=step,
            at=at,
            attempt=record.attempt,
            copied=copied,
            rows=rows,
            lag=lag,
            why=why,
        )


MoveObserver = Callable[[MoveEvent], None]
