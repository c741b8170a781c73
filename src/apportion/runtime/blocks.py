"""Blocks: context managers that explain each wrong use of themselves in an error.

There are four wrong ways: `async with` where `with` is meant, `with` where `async with` is meant, `await`, and an
attribute before anything is open. Each of them raises an error that names the right call, and opens nothing. The
methods that raise are hidden from type checkers. So a type checker refuses the same programs.
"""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from apportion.errors import InvalidInput

Shown = TypeVar("Shown")
Raised = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class _Block:
    """A block; `_call` is the call that the user writes after `_word`."""

    _call = ""
    _word = ""
    _is_entered = False

    def _enter_once(self) -> None:
        """Note that the block is entered. Raise `InvalidInput` at a second entry: each block needs its own call."""
        if self._is_entered:
            hint = f"Write for each block: {self._word} {self._call} as opened:"
            raise InvalidInput(f"number of blocks of {self._call}", 2, "one for each call", hint)
        self._is_entered = True

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise self._refused("await")

        def __getattr__(self, name: str) -> NoReturn:
            how = f"Write: {self._word} {self._call} as opened: and use opened.{name} in the block"
            raise AttributeError(f"{type(self).__name__}.{name}: nothing is open yet. {how}")

    def _refused(self, written: str) -> InvalidInput:
        return InvalidInput(
            f"the word before {self._call}", written, repr(self._word), f"Write: {self._word} {self._call} as opened:"
        )


class OnlyAsync(_Block):
    """A block for `async with`."""

    _word = "async with"

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise self._refused("with")

        def __exit__(self, *_: object) -> None: ...


class OnlySync(_Block):
    """A block for `with`."""

    _word = "with"

    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            raise self._refused("async with")

        async def __aexit__(self, *_: object) -> None: ...


class AsyncBlock(OnlyAsync, Generic[Shown]):
    """A context manager for one `async with`; its errors name the call that made it."""

    def __init__(self, call: str, inner: AbstractAsyncContextManager[Shown]) -> None:
        self._call, self._inner = call, inner

    async def __aenter__(self) -> Shown:
        self._enter_once()
        return await self._inner.__aenter__()

    async def __aexit__(self, *raised: *Raised) -> bool | None:
        return await self._inner.__aexit__(*raised)


class SyncBlock(OnlySync, Generic[Shown]):
    """A context manager for one `with`; its errors name the call that made it."""

    def __init__(self, call: str, inner: AbstractContextManager[Shown]) -> None:
        self._call, self._inner = call, inner

    def __enter__(self) -> Shown:
        self._enter_once()
        return self._inner.__enter__()

    def __exit__(self, *raised: *Raised) -> bool | None:
        return self._inner.__exit__(*raised)
