"""Prompt start: runs the first step of some work at once. The work gets a task only if it waits after that step.

If the first step ends the work, no task and no turn of the loop are needed. They cost as much as a small transaction.
Promises: the outcome of the work is the same as in a task, whatever the first step does.
Refuses: work that needs its task in the first step, as `asyncio.timeout` does. Nobody can cancel that step.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

Result = TypeVar("Result")


def started(work: Coroutine[Any, Any, Result]) -> "asyncio.Future[Result]":
    """Run the first step of some work in the running loop. Return the outcome, or the task that runs the rest."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()
    with _Outcome(outcome):
        try:
            waits_for = work.send(None)
        except StopIteration as end:
            outcome.set_result(end.value)
        else:
            return loop.create_task(_Rest(work, waits_for))
    return outcome


def is_prompt_start() -> bool:
    """Whether this code runs in a first step: straight from the loop, and outside of any task."""
    return asyncio._get_running_loop() is not None and asyncio.current_task() is None


class _Outcome:
    """A block that makes its error the outcome of some work."""

    def __init__(self, outcome: "asyncio.Future[Any]") -> None:
        self._outcome = outcome

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, asyncio.CancelledError):
            return self._outcome.cancel()
        if isinstance(error, Exception):
            self._outcome.set_exception(error)
        return isinstance(error, Exception)


class _Rest(Coroutine[Any, Any, Result]):
    """The rest of some work after its first step, for a task. It begins with the wait that ended the first step."""

    def __init__(self, work: Coroutine[Any, Any, Result], waits_for: object) -> None:
        self._work, self._waits_for, self._is_begun = work, waits_for, False

    def send(self, value: object) -> object:
        """Give the task the wait of the first step; then run the further steps of the work."""
        # A bare yield (None) asks only for the next turn of the loop, and this task has started in that turn.
        if self._is_begun or self._waits_for is None:
            self._is_begun = True
            return self._work.send(value)
        self._is_begun = True
        return self._waits_for

    def throw(self, *error: Any) -> object:  # noqa: ANN401 - as in its base
        """Raise an error in the work."""
        self._is_begun = True
        return self._work.throw(*error)

    def close(self) -> None:
        """End the work."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Result]:
        return (yield from self._work.__await__())
