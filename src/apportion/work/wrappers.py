"""Wrappers: the code of a program around each run.

A wrapper is a generator function. Its code before `yield` runs before the task, and its other code afterwards.

Promises: the first wrapper that was added is the outermost. A wrapper may call `current_task()`, and the run sees the
context variables that the wrapper sets. An error of the run is raised at the `yield`. An error of a wrapper is the
failure of the run. A plain wrapper runs in the thread of the task function.
Refuses: to pass arguments; `current_task()` describes the task.
Source: the generators of `contextlib.contextmanager`, which pytest's fixtures and FastAPI's dependencies use too.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import TypeVar

from apportion.errors import InvalidInput
from apportion.runtime.handler_calls import require_parameters

AsyncWrapper = Callable[[], AsyncGenerator[None, None]] | Callable[[], AsyncIterator[None]]
PlainWrapper = Callable[[], Generator[None, None, None]] | Callable[[], Iterator[None]]
Wrapper = TypeVar("Wrapper", bound=AsyncWrapper | PlainWrapper)
Result = TypeVar("Result")
_HINT = "Write @queue.around above async def timed() or def timed(), with one yield and no parameters."


class Wrappers:
    """The wrappers of the runs of one queue, in the order in which they were added."""

    def __init__(self) -> None:
        self._async: list[Callable[[], AsyncIterator[None]]] = []
        self._plain: list[Callable[[], Iterator[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._async or self._plain)

    def add(self, wrapper: Callable[[], object]) -> None:
        """Add a wrapper; `InvalidInput` for any function but a generator function without parameters."""
        is_async = inspect.isasyncgenfunction(wrapper)
        if not (is_async or inspect.isgeneratorfunction(wrapper)):
            raise InvalidInput("around", wrapper, "a generator function, async or plain, with one yield", _HINT)
        require_parameters("around", wrapper, 0, "none", _HINT)
        if is_async:
            self._async.append(wrapper)  # type: ignore[arg-type] # as `isasyncgenfunction` has said
        else:
            self._plain.append(wrapper)  # type: ignore[arg-type]

    async def awaited(self, run: Callable[[], Awaitable[Result]], *, is_async: bool) -> Result | None:
        """Await a run within the async wrappers, and within the plain ones too if the task function is async.

        None if a wrapper has caught the error of the run.
        """
        async with AsyncExitStack() as stack:
            for each in self._async:
                await stack.enter_async_context(asynccontextmanager(each)())
            for plain in self._plain if is_async else ():
                stack.enter_context(contextmanager(plain)())
            return await run()
        return None

    def called(self, run: Callable[[], Result]) -> Result | None:
        """Call a plain function within the plain wrappers; None if a wrapper has caught its error."""
        with ExitStack() as stack:
            for each in self._plain:
                stack.enter_context(contextmanager(each)())
            return run()
        return None
