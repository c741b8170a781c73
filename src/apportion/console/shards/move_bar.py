"""Move bar: the progress of `shards apply` as one line on standard error, and the facts of each move at its end.

    ██████████░░░░░░░░░░  52 %  23 900 of 46 137 rows, 41 000 rows/s, 1 s left, lag 3, one -> two: copying

Promises: without a terminal there is no such line. Then a wait for a store gets a line of its own with its reason, for
example a locked file. A line with the same reason comes at most twice per minute. The pause of a group is the time from
the fence of its source until its target has it, by the mover's clock. Writers of these slots waited for that long at
most.
"""

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from apportion.console.print.terminal import columns_of
from apportion.shards.admin import MoveEvent
from apportion.shards.reshard import MoveState

_WIDTH, _BETWEEN_SECONDS, _WAITS_SECONDS = 20, 0.1, 30.0
_TOLD = frozenset({"waits", "ends", "rests"})
_OVER = frozenset({"complete", "cleaned", "aborted"})
_CLEARED = "\r\x1b[K"
_AGE = re.compile(r" for \d+ s")  # the age of a transaction grows, but the reason is the same


@dataclass(slots=True)
class MoveFacts:
    """The facts of one move so far. `copied` counts rows, `pause` seconds; it is None before the switch.

    `is_forgone` tells that its way back has ended.
    """

    source: str
    target: str
    slots: int
    copied: int = 0
    fenced_at: float | None = None
    pause: float | None = None
    is_forgone: bool = False
    state: MoveState = "planned"


class MoveBar:
    """Takes the events of a mover. `rows` has the rows of each move of the plan."""

    def __init__(self, rows: Mapping[str, int], *, is_shown: bool) -> None:
        self.moves: dict[str, MoveFacts] = {}
        self._rows, self._total = dict(rows), sum(rows.values())
        self._is_shown = is_shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._began: float | None = None
        self._shown_at = -1.0
        self._waits, self._waits_at = "", 0.0

    def take(self, event: MoveEvent) -> None:
        """Take an event into account, and show the line again."""
        group = event.group
        facts = self.moves.get(group.move)
        if facts is None:
            facts = self.moves[group.move] = MoveFacts(group.source, group.target, len(group.slots))
            self._began = event.at if self._began is None else self._began
        facts.copied = max(facts.copied, event.copied)
        facts.state = event.state
        facts.is_forgone |= event.step == "forgo"
        if event.step == "fence":
            facts.fenced_at = event.at
        elif event.step == "switch" and facts.fenced_at is not None:
            facts.pause = event.at - facts.fenced_at
        if self._is_shown and monotonic() - self._shown_at > _BETWEEN_SECONDS:
            self._shown_at = monotonic()
            self._write(self.line(event))
        if event.step in _TOLD and not self._is_shown:
            self._say(event)

    def _say(self, event: MoveEvent) -> None:
        """Print a reason as a line of its own: a new reason at once, the same one again after a while."""
        reason = _AGE.sub("", event.why)
        if reason != self._waits or event.at - self._waits_at >= _WAITS_SECONDS:
            self._waits, self._waits_at = reason, event.at
            with suppress(OSError):  # a stream that is closed or full does not end the move
                print(f"{event.step}: {event.why}", file=sys.stderr, flush=True)

    def line(self, event: MoveEvent) -> str:
        """Return the line after an event."""
        done = min(self._total, sum(facts.copied for facts in self.moves.values()))
        elapsed = event.at - (self._began if self._began is not None else event.at)
        rate = done / elapsed if elapsed > 0 else 0.0
        share = done / self._total if self._total else 1.0
        bar = "█" * round(share * _WIDTH)
        left = f"{(self._total - done) / rate:.0f} s left" if rate else "time left unknown"
        if event.step in _TOLD:
            return f"{event.step}: {event.why}"  # the reason comes first: the line is cut at the width of the terminal
        return (
            f"{bar:░<{_WIDTH}} {share:4.0%}  {done} of {self._total} rows, {rate:.0f} rows/s, {left}, "
            f"lag {event.lag}, {self._under_way(event)}"
        )

    def _under_way(self, event: MoveEvent) -> str:
        """Return the move of an event with its state, and then the other moves that are not over."""
        own = event.group.move
        others = [facts for move, facts in self.moves.items() if move != own and facts.state not in _OVER]
        said = [(event.group.source, event.group.target, event.state)]
        said += [(facts.source, facts.target, facts.state) for facts in others]
        return ", ".join(f"{source} -> {target}: {state}" for source, target, state in said)

    def end(self) -> None:
        """Remove the line."""
        if self._shown_at >= 0:
            self._write("")

    @staticmethod
    def _write(line: str) -> None:
        with suppress(OSError):  # a terminal that was closed
            os.write(sys.stderr.fileno(), (_CLEARED + line[: (columns_of(sys.stderr) or 80) - 1]).encode())
