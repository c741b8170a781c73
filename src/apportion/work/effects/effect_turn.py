"""Effect turn: calls for one effect within one run happen one by one. A later call finds the value of the first call.

The idempotency log records runs, not calls. It cannot distinguish two calls of one run from one call sent twice.
Promises: calls of one run under one key happen one by one, in the order in which they came, from any loop or thread.
Refuses: a call under a key from within the effect of that key. The call would wait for itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from contextvars import ContextVar, Token
from typing import TypeAlias
from weakref import WeakValueDictionary

from apportion.errors import InvalidInput
from apportion.runtime.blocks import Raised
from apportion.runtime.io_thread import io_thread
from apportion.stores.task_once import OnceState
from apportion.stores.task_values import Receipt

Place: TypeAlias = tuple[object, Receipt, str]
_locks: "WeakValueDictionary[Place, asyncio.Lock]" = WeakValueDictionary()  # used on the I/O thread only
_within: "ContextVar[frozenset[Place]]" = ContextVar("within", default=frozenset())


class EffectTurn:
    """The turn of one call. The first step of the call waits for the turn. The turn ends with the `with` block.

    `desk` is the worker of the run. After a restore of the store, another worker may have the same receipt.
    """

    def __init__(self, desk: object, receipt: Receipt, key: str) -> None:
        self._effect = desk, receipt, key
        if self._effect in _within.get():
            hint = "Give each effect a key of its own."
            raise InvalidInput("key", key, "another key than that of the effect around this call", hint)
        self._token: Token[frozenset[Place]] | None = None
        self._lock: asyncio.Lock | None = None

    async def begun(self, step: Callable[[], Awaitable[OnceState]]) -> OnceState:
        """Make the first step, on the I/O thread, when all earlier calls have ended."""
        self._lock = lock = _locks.setdefault(self._effect, asyncio.Lock())
        await lock.acquire()
        with ExitStack() as undo:
            undo.callback(lock.release)
            state = await step()
            undo.pop_all()
        return state

    async def end(self, _: OnceState | None = None) -> None:
        """Let the next call begin, on the I/O thread."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> None:
        self._token = _within.set(_within.get() | {self._effect})

    def __exit__(self, *raised: *Raised) -> None:
        io_thread().send(self.end())
        if self._token is not None:
            _within.reset(self._token)
