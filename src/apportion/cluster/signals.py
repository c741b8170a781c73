"""Signals: SIGTERM, which every platform sends first, is a graceful leave: partitions are handed over.

Refuses: to replace a handler that the program has installed; such a program calls `group.leave()` itself.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def leaving_on_sigterm(leave: Callable[[], None]) -> Iterator[None]:
    """Within: the first SIGTERM leaves the group, a second one ends the process as it does by default."""
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def once(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        """Leave, and let a second signal do what it always does."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        leave()

    signal.signal(signal.SIGTERM, once)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
