"""Events of a move, for a progress bar, a log or a test: each act, with the progress of the rows."""

from collections.abc import Callable
from dataclasses import dataclass

from apportion.errors.brief import brief
from apportion.shards.move_group import MoveGroup
from apportion.shards.reshard import MoveState


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEvent:
    """The end of one act of a mover. `at` is a time of the mover's elapsed clock, in seconds.

    - `step`: the name of the step, as in stop points. "waits" means that a database or the control store did not
      answer, or that it denied a request.
    - `copied`, `rows`: the number of rows copied so far, and of all rows of the group. 0 if it is not known.
    - `lag`: the number of logged changes that the target does not have yet.
    - `why`: the reason of a wait.
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


MoveObserver = Callable[[MoveEvent], None]
