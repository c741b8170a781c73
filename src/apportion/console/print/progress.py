"""Progress: one line on standard error while a command works, so that nobody wonders whether it hangs.

Promises: the line comes after two seconds, changes twice per second, and is gone when the block ends, however it ends.
Without a terminal there is no line and no timer. The timer is a signal of the system (SIGALRM). A thread would slow
down each allocation, which costs `route` 3 %.
Refuses: to guess the time that is left.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from signal import ITIMER_REAL, SIGALRM, setitimer, signal
from time import monotonic
from typing import Self, TypeVar

from apportion.console.print.terminal import columns_of

SILENT_SECONDS, BETWEEN_SECONDS = 2.0, 0.5
_CLEARED = "\r\x1b[K"

Item = TypeVar("Item")


class Progress:
    """A block of work with its name in words, the `units` that are done, and their `total` if it is known."""

    def __init__(self, work: str, units: str = "", *, total: int | None = None, is_shown: bool = True) -> None:
        self._work, self._units, self._total = work, units, total
        self._is_shown = is_shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._done = 0
        self._started = monotonic()
        self._is_seen = False

    def __enter__(self) -> Self:
        if self._is_shown:
            self._handler = signal(SIGALRM, self._show)
            self._timer = setitimer(ITIMER_REAL, SILENT_SECONDS, BETWEEN_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            setitimer(ITIMER_REAL, 0)
            signal(SIGALRM, self._handler)
            setitimer(ITIMER_REAL, *self._timer)
        if self._is_seen:
            self._write("")

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items; each is one unit, done when the next one is asked for."""
        for item in items:
            yield item
            self._done += 1

    def batches(self, batches: Iterable[list[Item]]) -> Iterator[list[Item]]:
        """Yield the batches; the units of each are done when the next one is asked for."""
        for batch in batches:
            yield batch
            self._done += len(batch)

    def joined(self, batches: Iterable[list[Item]]) -> Iterator[Item]:
        """Return the units of the batches one after another."""
        return chain.from_iterable(self.batches(batches))

    def at(self, done: int) -> None:
        """Tell how many units are done."""
        self._done = done

    def _show(self, *_: object) -> None:
        done = f" {self._done}" if self._total is None else f" {self._done} of {self._total}"
        seconds = f"{monotonic() - self._started:.0f} s"
        self._is_seen = True
        self._write(f"{self._work} ...{f'{done} {self._units},' if self._units else ''} {seconds}")

    @staticmethod
    def _write(line: str) -> None:
        """Replace the line. The descriptor is written to, because the stream may be in the middle of a write."""
        with suppress(OSError):  # a terminal that was closed
            os.write(sys.stderr.fileno(), (_CLEARED + line[: (columns_of(sys.stderr) or 80) - 1]).encode())
