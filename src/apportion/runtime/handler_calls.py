"""Calls: the ways to call a user's handler: awaited on an event loop, or run in a thread of its own.

Promises: any error of a handler, raised by the call itself or later, is the outcome of the call. A call in a thread is
over when the thread has ended. No caller can cancel it, or go on before it is over.
Refuses: a plain function for an awaited call, and an async one for a plain call. A handler that cannot take a partition
and its token is refused too. If the mistake shows before the first call, the refusal comes at once. Otherwise the
outcome of the first call is `NoHandler`.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

from apportion.errors import InvalidInput
from apportion.model.epoch import FencingToken

Handler = Callable[[int, FencingToken], Awaitable[None]]
PlainHandler = Callable[[int, FencingToken], None]
Call = Callable[[int, FencingToken], Awaitable[object]]
_ASYNC_HINT = "Write `async def`, or open the group with apportion.sync.open_group."
_PLAIN_HINT = "Write `def`, or open the group with apportion.open_group."


class NoHandler(InvalidInput):
    """The first call showed that the passed object is no handler, so a second call would not help."""


def awaited(name: str, handler: Handler | None) -> Call | None:
    """Return the call of an async handler; None if there is no handler. Raise `InvalidInput` for a plain function."""
    if handler is None:
        return None
    if not callable(handler) or _is_plain(handler):
        raise InvalidInput(name, handler, "an async function of a partition and its token", _ASYNC_HINT)
    require_parameters(name, handler, 2, "a partition and its token", f"Write: async def {name}(partition, token)")

    async def _call(partition: int, token: FencingToken) -> None:
        returned = handler(partition, token)
        if not inspect.isawaitable(returned):
            raise NoHandler(f"result of {name}", returned, "an awaitable", _ASYNC_HINT)
        await returned

    return _call


def threaded(name: str, handler: PlainHandler | None) -> Call | None:
    """Return the call of a plain handler in its own thread; None without a handler. `InvalidInput` for an async one.

    The call returns the error of the handler, or None, because SystemExit must not reach the loop that waits.
    """
    if handler is None:
        return None
    if not callable(handler) or is_async(handler):
        raise InvalidInput(name, handler, "a plain function of a partition and its token", _PLAIN_HINT)
    require_parameters(name, handler, 2, "a partition and its token", f"Write: def {name}(partition, token)")

    def _run(partition: int, token: FencingToken, ending: _Ending) -> None:
        with ending:
            returned: object = handler(partition, token)
            if inspect.isawaitable(returned):
                raise NoHandler(f"result of {name}", returned, "None", _PLAIN_HINT)

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
    """The outcome of a call in a thread, for the loop that made this object and waits for it."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.is_over = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> Literal[True]:
        self.error = error
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(self.is_over.set)
        return True


def require_parameters(name: str, function: Callable[..., object], count: int, expected: str, hint: str) -> None:
    """Refuse a function that cannot be called with this number of arguments, where Python can tell."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Python cannot tell for a function in C
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        raise InvalidInput(f"parameters of {name}", str(signature), expected, hint) from error


def is_async(handler: Callable[..., object]) -> bool:
    """Whether a call of a function returns an awaitable, where Python can tell."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is_plain(handler: Callable[..., object]) -> bool:
    """Whether a handler is a plain `def`. Lambdas and wrappers are none: they may return an awaitable."""
    function = handler
    while isinstance(function, functools.partial):
        function = function.func
    is_function = inspect.isfunction(function) or inspect.ismethod(function)
    may_hand_on = getattr(function, "__name__", "") == "<lambda>"
    return is_function and not may_hand_on and not inspect.iscoroutinefunction(inspect.unwrap(function))
