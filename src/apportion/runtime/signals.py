"""Signals: on SIGTERM, which every platform sends first, a process leaves its groups and hands over its partitions.

Promises: one handler per process makes all of its groups leave. All signals within one second count as one request,
even if all blocks have ended by then. A later signal ends the process, as it would without the handler. A forked child
does not inherit the handler. Its first SIGTERM ends it, however early the signal comes, unless the child has opened a
group itself. A simulated process gets the signal only from its world.
Refuses: to replace a handler that the program has installed; such a program calls `group.leave()` itself.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from apportion.runtime.simulated import simulated

ONE_SIGNAL_SECONDS = 1.0  # orchestrators and users send SIGTERM twice; after this time a signal is a second request


@contextmanager
def leaving_on_sigterm(leave: Callable[[], None]) -> Iterator[None]:
    """Within the block, the first SIGTERM makes all groups leave. A SIGTERM more than a second later ends the process.

    A block of another thread leaves with the rest, but only the main thread can install a handler.
    """
    machine, block = simulated(), object()
    leaving = _leaving if machine is None else machine.leaving
    leaving[block] = leave
    _asked.unheard.add(block)
    if leaving is _leaving and _is_main() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave_all)
    try:
        yield
    finally:
        leaving.pop(block, None)  # absent in a child that was forked within the block
        _asked.unheard.discard(block)
        if leaving is _leaving and not _leaving and _is_main() and _is_ours() and not _is_heard(time.monotonic()):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave_all(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Ask each group to leave unless it was asked before. If all were asked, a later signal has its usual effect."""
    now, unheard = time.monotonic(), [leave for block, leave in _leaving.items() if block in _asked.unheard]
    _asked.unheard.clear()
    for leave in unheard:
        leave()
    if unheard:
        _asked.at = now
    elif not _is_heard(now):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _is_heard(now: float) -> bool:
    """Whether a signal at this time belongs to the last request, even after the last block has ended."""
    return now < _asked.at + ONE_SIGNAL_SECONDS


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_ours() -> bool:
    return signal.getsignal(signal.SIGTERM) is _leave_all


def _before_fork() -> None:
    """Block SIGTERM during the fork: Python forgets a signal that reaches a child before the child has begun."""
    _forking.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if _is_ours() else None


def _after_fork() -> None:
    if _forking.blocked is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.blocked)


def _after_fork_in_child() -> None:
    """Forget the groups of the parent; then unblock SIGTERM, so that a waiting signal arrives."""
    _leaving.clear()
    _asked.unheard.clear()
    if _is_ours():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _after_fork()


class _Asked:
    """The time when groups were asked to leave, and the blocks that were not asked yet."""

    at = float("-inf")
    unheard: "set[object]" = set()  # noqa: RUF012 - one per process


class _Forking(threading.local):
    """The signals that this thread had blocked before the fork; None if SIGTERM was not blocked for the fork."""

    blocked: "set[signal.Signals | int] | None" = None


_leaving: dict[object, Callable[[], None]] = {}
_asked = _Asked()
_forking = _Forking()
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
