"""Attempt: one run of a task function, and the settlement that follows from its end."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from apportion.runtime.interrupt import is_interrupted
from apportion.stores.task_values import Claim, Settlement
from apportion.work.budget import GiveUp, Snooze, milliseconds
from apportion.work.function import AnyTaskFunction
from apportion.work.observers.trace import span
from apportion.work.running_task import CURRENT, IS_PLAIN, RunningTask

_MOST_REASON = 2_000
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


async def attempt(function: AnyTaskFunction, task: RunningTask, in_thread: InThread) -> Settlement:
    """Run a claimed task, and return the settlement of its claim. One that is cancelled settles nothing.

    `in_thread` calls a plain function in a thread.
    """
    claim = task.claim
    try:
        args, kwargs = function.signature.decoded(claim.arguments)
    except ValueError as error:
        return Settlement(receipt=claim.receipt, fate="dead", reason=str(error)[:_MOST_REASON])
    CURRENT.set(task)
    call = asyncio.ensure_future(_called(function, task, partial(function, *args, **kwargs), in_thread))
    try:
        await asyncio.wait([call])
    except asyncio.CancelledError:
        call.cancel()
        await _until_its_end(call)
        if call.cancelled() or call.exception() is not None:
            raise
    failure = asyncio.CancelledError("it cancelled itself") if call.cancelled() else call.exception()
    if failure is None:
        return Settlement(receipt=claim.receipt, fate="done", result=call.result())
    task.desk.attempts.fail(claim.receipt, failure)
    return failed(claim, function, failure)


async def _until_its_end(call: "asyncio.Future[bytes | None]") -> None:
    """Wait for a call that was cancelled; its caller may be cancelled again while it cleans up."""
    while not call.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([call])


async def _called(
    function: AnyTaskFunction, task: RunningTask, call: Callable[[], Any], in_thread: InThread
) -> bytes | None:
    """Call the function within the wrappers of its queue; return its result as bytes if the task keeps it."""
    wrappers = function.wrappers
    with span(task.claim):
        async with nullcontext() if task.limit is None else task.limit.kept():
            if not function.is_async:
                plain = partial(wrappers.called, call) if wrappers else call
                call = partial(_threaded, plain, in_thread)
            try:
                result = await (wrappers.awaited(call, is_async=function.is_async) if wrappers else call())
            except (KeyboardInterrupt, SystemExit) as error:  # it would end each worker that gets the task, in turn
                if isinstance(error, KeyboardInterrupt) and is_interrupted():
                    raise
                raise RuntimeError(f"the function raised {error!r}") from error
    return function.signature.kept(result) if function.task_options.keep_result else None


async def _threaded(call: Callable[[], Any], in_thread: InThread) -> Any:  # noqa: ANN401 - the function's
    return await in_thread(partial(copy_context().run, _plainly, call))


def _plainly(call: Callable[[], Any]) -> Any:  # noqa: ANN401
    IS_PLAIN.set(True)
    return call()


def failed(claim: Claim, function: AnyTaskFunction, error: BaseException) -> Settlement:
    """Return the settlement of a run that raised an error."""
    reason = _reason(error)
    if isinstance(error, Snooze):
        return Settlement(receipt=claim.receipt, fate="released", reason=reason, delay_ms=milliseconds(error.after))
    budget = function.task_options.budget
    is_final = isinstance(error, (GiveUp, *budget.give_up_on))
    delay_ms = None if is_final else budget.delay_ms(claim.failures + 1, random.random)
    if delay_ms is None:
        return Settlement(receipt=claim.receipt, fate="dead", reason=reason)
    return Settlement(receipt=claim.receipt, fate="retry", reason=reason, delay_ms=delay_ms)


def _reason(error: BaseException) -> str:
    """Return an error as text. The text of an error is code of the program, and may raise too."""
    with suppress(Exception):
        return f"{type(error).__name__}: {error}"[:_MOST_REASON]
    return f"{type(error).__name__}, and its text cannot be made"
