"""Retreat delay: lets writers go on after a retreat, before a mover tries to fence their slots again.

The mover naps in short parts, and reads the state after each. So it hears the wish of an operator. It applies the
changes of the writers before each nap, so the next fence finds a short log. Another mover that goes on with the move
begins at once.
"""

import asyncio

from apportion.runtime.clock import Clock
from apportion.shards.reshard import MoveAct, delay_seconds

_NAP_SECONDS = 0.25


class RetreatDelay:
    """The time before the next attempt of a move."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._ends = clock, 0.0

    def note(self, act: MoveAct, step: str) -> None:
        """Begin the delay if the act was a retreat."""
        if step == "retreat" and act.record is not None:
            self._ends = self._clock.elapsed() + delay_seconds(act.record.attempt)

    async def due(self, act: MoveAct, lag: int) -> MoveAct | None:
        """Return the act, unless it begins the next attempt too early: then the log comes first.

        Return None after a nap, if it is too early and the log is empty.
        """
        left = self._ends - self._clock.elapsed()
        if left <= 0 or act.record is None or act.record.state != "verified":
            return act
        if lag:
            return MoveAct(label="apply-log")
        await asyncio.sleep(min(_NAP_SECONDS, left))
        return None
