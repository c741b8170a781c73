"""Calls: how a handler of the user's own is called: awaited on an event loop, or in a thread beside it.

Promises: whatever a handler raises, by the call itself or later, is the outcome of the call. A call in a thread is over
when the thread has ended: nobody can cancel it, and nobody goes on as if it were.
Refuses: a plain function where one is awaited, an async one where none is, and one that cannot take a partition and its
token; at once where that can be known before the first call, else as `NoHandler`, the outcome of the first.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal

from apportion.errors import InvalidInput
from apportion.model.epoch import FencingToken

Handler = Callable[[int, FencingToken], Awaitable[None]]
PlainHandler = Callable[[int, FencingToken], None]
Call = Callable[[int, FencingToken], Awaitable[object]]
_ASYNC_HINT = "Write `async def`, or open the group with apportion.sync.open_group."
_PLAIN_HINT = "Write `def`, or open the group with apportion.open_group."


class NoHandler(InvalidInput):
    """What was passed as a handler is none, as its first call has shown: to call it again would not help."""


def awaited(name: str, handler: Handler | None) -> Call | None:
    """Return the call of an async handler, None for none; `InvalidInput` for a plain function."""
    if handler is None:
        return None
    if not callable(handler) or _is_plain(handler):
        raise InvalidInput(name, handler, "an async function of a partition and its token", _ASYNC_HINT)
    _require_two(name, handler, "async def")

    async def _call(partition: int, token: FencingToken) -> None:
        returned = handler(partition, token)
        if not inspect.isawaitable(returned):
            raise NoHandler(f"what {name} returned", returned, "an awaitable", _ASYNC_HINT)
        await returned

    return _call


def threaded(name: str, handler: PlainHandler | None) -> Call | None:
    """Return the call of a plain handler in a thread of its own, None for none; `InvalidInput` for an async function.

    The call returns what the handler raised, None if it did not: SystemExit must not reach the loop that waits.
    """
    if handler is None:
        return None
    if not callable(handler) or _is_async(handler):
        raise InvalidInput(name, handler, "a plain function of a partition and its token", _PLAIN_HINT)
    _require_two(name, handler, "def")

    def _run(partition: int, token: FencingToken, ending: _Ending) -> None:
        with ending:
            returned: object = handler(partition, token)
            if inspect.isawaitable(returned):
                raise NoHandler(f"what {name} returned", returned, "None", _PLAIN_HINT)

    async def _call(partition: int, token: FencingToken) -> BaseException | None:
        ending = _Ending()
        thread = threading.Thread(target=_run, args=(partition, token, ending), name=f"{name}-{partition}", daemon=True)
        thread.start()
        while not ending.is_over.is_set():
            with suppress(asyncio.CancelledError):
                await ending.is_over.wait()
        return ending.error

    return _call


class _Ending:
    """How a call in a thread ended, for the loop that made this and waits for it."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.is_over = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> Literal[True]:
        self.error = error
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(self.is_over.set)
        return True


def _require_two(name: str, handler: Callable[..., object], written: str) -> None:
    """Refuse what cannot be called with a partition and its token, where Python can tell."""
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # of a function in C
        return
    try:
        signature.bind(0, None)
    except TypeError as error:
        hint = f"Write: {written} {name}(partition, token)"
        raise InvalidInput(f"parameters of {name}", str(signature), "a partition and its token", hint) from error


def _is_async(handler: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is_plain(handler: Callable[..., object]) -> bool:
    """Whether it is a `def` that awaits nothing. One expression, and what wraps an async function, may hand one on."""
    function = handler
    while isinstance(function, functools.partial):
        function = function.func
    is_function = inspect.isfunction(function) or inspect.ismethod(function)
    may_hand_on = getattr(function, "__name__", "") == "<lambda>"
    return is_function and not may_hand_on and not inspect.iscoroutinefunction(inspect.unwrap(function))
