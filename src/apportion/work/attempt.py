"""Attempt: one run of a task function, and the settlement that follows from its end.

A run is an asyncio task of its own. Its outcome is that of the function: a result, an error, or a cancellation.
"""

import asyncio
import inspect
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from apportion.runtime.interrupt import is_interrupted
from apportion.stores.task_values import Claim, Settlement
from apportion.work.function import AnyTaskFunction
from apportion.work.observers.trace import span
from apportion.work.retry_budget import GivenBack, GiveUp, Snooze, milliseconds
from apportion.work.running_task import CURRENT, IS_PLAIN, RunningTask

_MOST_REASON = 2_000
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class _Unfit(Exception):
    """The arguments of a call no longer fit its function."""


async def attempt(function: AnyTaskFunction, task: RunningTask, in_thread: InThread) -> Settlement:
    """Run a claimed task, and return the settlement of its claim. A cancelled run is not settled, unless it completes.

    `in_thread` calls a plain function in a thread.
    """
    run = asyncio.ensure_future(called(function, task, in_thread))
    try:
        await asyncio.wait([run])
    except asyncio.CancelledError:
        run.cancel()
        await _until_its_end(run)
        if run.cancelled() or run.exception() is not None:
            raise
    return ended(run, function, task)


async def _until_its_end(run: "asyncio.Future[bytes | None]") -> None:
    """Wait for the end of a cancelled run, even if the caller is cancelled again while the run cleans up."""
    while not run.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([run])


async def called(function: AnyTaskFunction, task: RunningTask, in_thread: InThread) -> bytes | None:
    """Call the function of a claimed task; return its result as bytes if the task keeps it."""
    call = _bound(function, task.claim)
    CURRENT.set(task)
    with span(task.claim):
        if task.limit is None:
            result = await _result(function, call, in_thread)
        else:
            async with task.limit.kept():
                result = await _result(function, call, in_thread)
    return function.signature.kept(result) if function.task_options.keep_result else None


def _bound(function: AnyTaskFunction, claim: Claim) -> Callable[[], Any]:
    """Return the call of a function with the arguments of a claim."""
    try:
        args, kwargs = function.signature.decoded(claim.arguments)
    except ValueError as error:
        raise _Unfit(f"{error}") from error
    return partial(function.function, *args, **kwargs)


async def _result(function: AnyTaskFunction, call: Callable[[], Any], in_thread: InThread) -> Any:  # noqa: ANN401 - the function's
    """Call a function within the wrappers of its queue."""
    wrappers, process = function.wrappers, os.getpid()
    if not function.is_async:
        call = partial(_threaded, partial(wrappers.called, call) if wrappers else call, in_thread)
    try:
        return await (wrappers.awaited(call, is_async=function.is_async) if wrappers else call())
    except (KeyboardInterrupt, SystemExit) as error:  # it would end every worker that gets the task
        if isinstance(error, KeyboardInterrupt) and is_interrupted():
            raise
        raise RuntimeError(f"the function raised {error!r}") from error
    finally:
        if os.getpid() != process:  # the function has forked, and this is the forked process
            os._exit(0)


async def _threaded(call: Callable[[], Any], in_thread: InThread) -> Any:  # noqa: ANN401
    return await in_thread(partial(copy_context().run, _plainly, call))


def _plainly(call: Callable[[], Any]) -> Any:  # noqa: ANN401
    IS_PLAIN.set(True)
    result = call()
    if inspect.isawaitable(result):  # the call of an async function runs none of its code
        raise GiveUp(
            f"the function returned a {type(result).__name__} that nobody awaits:"
            " a decorator of an async function must return an async function"
        )
    return result


def ended(run: "asyncio.Future[bytes | None]", function: AnyTaskFunction, task: RunningTask) -> Settlement:
    """Return the settlement of a run that has ended; a cancelled run has failed."""
    error = error_of(run)
    if error is None:
        receipt = task.claim.receipt
        is_repeat = task.desk.attempts.is_completed(receipt)
        return Settlement(receipt=receipt, fate="done", result=run.result(), is_repeat=is_repeat)
    if not isinstance(error, _Unfit):
        task.desk.attempts.fail(task.claim.receipt, error)
    return failed(task.claim, function, error)


def error_of(run: "asyncio.Future[Any]") -> BaseException | None:
    """Return the error of a run that has ended, None without one; a cancellation is an error."""
    return asyncio.CancelledError("the task function cancelled itself") if run.cancelled() else run.exception()


def failed(claim: Claim, function: AnyTaskFunction, error: BaseException) -> Settlement:
    """Return the settlement of a run that raised an error."""
    if isinstance(error, _Unfit):
        return Settlement(receipt=claim.receipt, fate="dead", reason=f"{error}"[:_MOST_REASON])
    reason = _reason(error)
    if isinstance(error, KeyboardInterrupt):  # this is Ctrl-C: `_result` replaces a KeyboardInterrupt of the function
        return Settlement(receipt=claim.receipt, fate="released", reason="the program was interrupted")
    if isinstance(error, Snooze):
        later_ms, has_run = milliseconds(error.after), not isinstance(error, GivenBack)
        return Settlement(receipt=claim.receipt, fate="released", reason=reason, delay_ms=later_ms, has_run=has_run)
    budget = function.task_options.budget
    is_final = isinstance(error, (GiveUp, *budget.give_up_on))
    delay_ms = None if is_final else budget.delay_ms(claim.failures + 1, random.random)
    if delay_ms is None:
        return Settlement(receipt=claim.receipt, fate="dead", reason=reason)
    return Settlement(receipt=claim.receipt, fate="retry", reason=reason, delay_ms=delay_ms)


def _reason(error: BaseException) -> str:
    """Return an error as text. `str(error)` calls code of the program, which may raise too."""
    with suppress(Exception):
        return f"{type(error).__name__}: {error}"[:_MOST_REASON]
    return f"{type(error).__name__}: no text, because str() raised an error"
