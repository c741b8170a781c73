"""Waits: a world has one thread, so a waiting call would stop all its processes. Such a call is refused.

Promises: calls that do not wait are unchanged. They are calls on a set event, a queue with items or a free lock, and
calls with a time-out of 0. Refuses: to claim that every wait is seen. Locks and queues made before the world runs still
stop the world while they wait. Waits of C extensions do so too (a busy timeout of SQLite, a read of a pipe or a
terminal).
"""

import builtins
import os
import queue
import select
import selectors
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from apportion.sim.world.refusal import is_simulated, refuse, refusing

_condition_wait, _join, _new_lock = threading.Condition.wait, threading.Thread.join, threading.Lock
_INSTEAD = "asyncio.Event, asyncio.Queue or asyncio.Lock, and await it"


class WorldLock:
    """A lock that is made while a world runs: a wait for it would never end, and is refused.

    Its holder is another task of the same thread. Outside a world it is a lock like any other.
    """

    release: Callable[[], None]
    locked: Callable[[], bool]

    def __init__(self) -> None:
        self._lock = _new_lock()
        self.release, self.locked = self._lock.release, self._lock.locked
        self._at_fork_reinit = self._lock._at_fork_reinit  # type: ignore[attr-defined]  # modules register it

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See `threading.Lock`."""
        if self._lock.acquire(blocking=False):
            return True
        if blocking and timeout != 0 and is_simulated():
            refuse("a wait for a lock that another task of this thread holds", _INSTEAD)
        return self._lock.acquire(blocking, timeout)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


def waits() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the replacement of each wait: its owner, its name, and the function that refuses it."""
    yield threading, "Lock", WorldLock
    yield threading.Condition, "wait", _wait
    yield threading.Thread, "join", _join_or_refuse
    yield queue, "SimpleQueue", queue._PySimpleQueue  # type: ignore[attr-defined]  # the queue in C waits by itself
    yield selectors._BaseSelectorImpl, "__init__", refusing("a selector", _INSTEAD)
    yield builtins, "input", refusing("input", "a value that the test gives to its program")
    for owner, names in (
        (select, ("select", "poll", "epoll")),
        (signal, ("pause", "sigwait", "sigwaitinfo", "sigtimedwait")),
        (os, ("wait", "wait3", "wait4", "waitpid", "waitid")),
    ):
        for name in names:
            yield owner, name, refusing(f"{owner.__name__}.{name}", _INSTEAD)


def _wait(condition: threading.Condition, timeout: float | None = None) -> bool:
    if timeout is None or timeout > 0:
        refuse("a wait of a thread, for an Event, a Condition, a Queue or a Future,", _INSTEAD)
    return _condition_wait(condition, timeout)


def _join_or_refuse(thread: threading.Thread, timeout: float | None = None) -> None:
    if thread.is_alive() and timeout != 0:
        refuse("a wait for another thread", "an asyncio task, and await it")
    _join(thread, timeout)
