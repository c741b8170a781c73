"""Signals: SIGTERM, which every platform sends first, is a graceful leave: partitions are handed over.

Promises: one handler a process, by which all of its groups leave. A forked child is as if there had never been one: it
ends by its first SIGTERM, however early that comes, until it opens a group itself.
A simulated process hears of it by its world alone.
Refuses: to replace a handler that the program has installed; such a program calls `group.leave()` itself.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from apportion.stores.machine import simulated


@contextmanager
def leaving_on_sigterm(leave: Callable[[], None]) -> Iterator[None]:
    """Within: the first SIGTERM leaves the group, and all others; a second one ends the process as it does by default.

    A block that another thread opens leaves with the rest, but only the main thread may install a handler.
    """
    machine, block = simulated(), object()
    leaving = _leaving if machine is None else machine.leaving
    leaving[block] = leave
    if leaving is _leaving and _is_main() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave_all)
    try:
        yield
    finally:
        leaving.pop(block, None)  # it is gone from a child that was forked within
        if leaving is _leaving and not _leaving and _is_main() and _is_ours():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave_all(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Leave, and let a second signal do what it always does; so does the first one if there is nothing to leave."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    leaving = list(_leaving.values())
    for leave in leaving:
        leave()
    if not leaving:
        os.kill(os.getpid(), signal.SIGTERM)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_ours() -> bool:
    return signal.getsignal(signal.SIGTERM) is _leave_all


def _before_fork() -> None:
    """Let a SIGTERM wait: Python forgets those that reach a child before it has begun."""
    _forking.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if _is_ours() else None


def _after_fork() -> None:
    if _forking.blocked is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.blocked)


def _after_fork_in_child() -> None:
    """Forget the groups of the parent; then let come what has waited."""
    _leaving.clear()
    if _is_ours():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _after_fork()


class _Forking(threading.local):
    """The signals that this thread had blocked before it began to fork; None where nothing was changed."""

    blocked: "set[signal.Signals | int] | None" = None


_leaving: dict[object, Callable[[], None]] = {}
_forking = _Forking()
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
