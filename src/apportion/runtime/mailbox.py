"""Mailbox: calls from other threads to an event loop; one wake-up serves all calls that came before it.

Each wake-up is a write to a socket, at which both threads fight for the interpreter. Callers that come together, or are
answered together, share one.
Promises: a loop makes the calls of a thread in the order in which they were sent, each in the context of its sender. No
lock is taken: a finalizer may send wherever it runs.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from weakref import WeakKeyDictionary


class Mailbox:
    """The calls to one loop that have not been made yet. It does not keep the loop alive."""

    def __init__(self) -> None:
        self._letters: deque[tuple[Context, Callable[[], object]]] = deque()
        self._is_expected = False  # whether the loop will come; it forgets this before it reads

    def send(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        """Let the loop of this mailbox make a call; `RuntimeError` if it is closed."""
        self._letters.append((copy_context(), call))
        if not self._is_expected:
            self._wake(loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        is_called = False
        try:
            self._is_expected = True
            loop.call_soon_threadsafe(self._read)
            is_called = True
        finally:
            if not is_called:  # the loop is closed, or Ctrl-C came: to wake once too often does no harm
                self._is_expected = False

    def _read(self) -> None:
        self._is_expected = False
        try:
            while self._letters:
                context, call = self._letters.popleft()
                context.run(call)
        finally:
            if self._letters:  # a call has raised
                self._wake(asyncio.get_running_loop())


def send_to(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Let the loop of another thread make a call; `RuntimeError` if it is closed."""
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes.setdefault(loop, Mailbox())
    mailbox.send(loop, call)


_mailboxes: "WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox]" = WeakKeyDictionary()
