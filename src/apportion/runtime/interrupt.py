"""Interrupt: whether a KeyboardInterrupt comes from the user's Ctrl-C, or from code that raised it.

Promises: within a block, SIGINT is noted, and then goes to the handler that was there before. The last block to end
puts that handler back.
Refuses: to note anything where Python raises no KeyboardInterrupt. This is so outside of the main thread, and if the
program has removed the handler or set the default of the system (`SIG_DFL`).
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from apportion.runtime.simulated import simulated


class _Noted:
    """The handler before ours, the blocks under way, and whether SIGINT came since the first of them began."""

    before: "Callable[[int, FrameType | None], Any] | None" = None
    blocks = 0
    is_interrupted = False


_noted = _Noted()


@contextmanager
def noted_interrupts() -> Iterator[None]:
    """Note each SIGINT within the block."""
    if simulated() is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if callable(before) and before is not _note:
        signal.signal(signal.SIGINT, _note)
        _noted.before, _noted.is_interrupted = before, False
    _noted.blocks += 1
    try:
        yield
    finally:
        _noted.blocks -= 1
        if not _noted.blocks and signal.getsignal(signal.SIGINT) is _note:
            signal.signal(signal.SIGINT, _noted.before)


def is_interrupted() -> bool:
    """Whether SIGINT came since the first block began. False in any thread but the main one."""
    return _noted.is_interrupted and threading.current_thread() is threading.main_thread()


def _note(number: int, frame: FrameType | None) -> None:
    _noted.is_interrupted = True
    if _noted.before is not None:
        _noted.before(number, frame)
