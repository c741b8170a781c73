"""Retreat delay: lets writers go on after a retreat, before a mover tries to fence their slots again.

The mover naps in short parts, and reads the state after each. So it hears the wish of an operator, and applies the
changes of the writers meanwhile. Another mover that goes on with the move begins at once.
"""

import asyncio

from apportion.shards.reshard import MoveAct, delay_seconds

_NAP_SECONDS = 0.25


class RetreatDelay:
    """The time that is left before the next attempt of a move."""

    def __init__(self) -> None:
        self._left = 0.0

    def note(self, act: MoveAct, step: str) -> None:
        """Begin the delay if the act was a retreat."""
        if step == "retreat" and act.record is not None:
            self._left = delay_seconds(act.record.attempt)

    async def holds(self, act: MoveAct) -> bool:
        """Sleep for a part of the delay if the act begins the next attempt. Return whether the act has to wait."""
        if self._left <= 0 or act.record is None or act.record.state != "verified":
            return False
        seconds = min(_NAP_SECONDS, self._left)
        self._left -= seconds
        await asyncio.sleep(seconds)
        return True
