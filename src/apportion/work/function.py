"""Task functions: a function of the program, with the name and the budget of its tasks."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar

from apportion.errors import InvalidInput
from apportion.runtime.handler_calls import is_async
from apportion.work.call import Call, Signature, check_priority
from apportion.work.retry_budget import Budget, length
from apportion.work.wrappers import Wrappers

Params = ParamSpec("Params")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The options of a task function; see `Queue.task`."""

    name: str
    budget: Budget
    priority: int = 2
    time_limit: timedelta | None = None
    keep_result: bool = False


def check_options(name: str | None, *, priority: int, time_limit: timedelta | None, keep_result: bool) -> None:
    """Raise `InvalidInput` for an option that no task function can have."""
    if name is not None and not is_task_name(name):
        hint = "Leave it out for the name of the function."
        raise InvalidInput("name of the task", name, "a str of printable characters", hint)
    check_priority(priority)
    if time_limit is not None and not length("time_limit", time_limit):
        expected = "a time above 0, else no run could end in time"
        raise InvalidInput("time_limit", str(time_limit), expected, "Leave it out for no limit.")
    if type(keep_result) is not bool:
        raise InvalidInput("keep_result", keep_result, "True or False", "The default is False.")


def is_task_name(name: object) -> bool:
    """Whether a task function can have this name in the store."""
    return isinstance(name, str) and bool(name) and name.isprintable()


class TaskFunction(Generic[Params, Result]):
    """A function that a queue can run as a task. A direct call runs the function at once, without the queue.

    `call(...)` returns a call of it for `Queue.enqueue`, and checks the arguments at once.
    """

    def __init__(self, function: Callable[Params, Result], options: TaskOptions, wrappers: Wrappers) -> None:
        if getattr(function, "__name__", "<lambda>") == "<lambda>" or not hasattr(function, "__qualname__"):
            raise InvalidInput("task", function, "a function with a name", "Write def or async def, not a lambda.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            hint = "A call of a generator function runs none of its code. Write the loop into the function."
            raise InvalidInput("task", function, "a function without yield", hint)
        functools.update_wrapper(self, function)
        self.function: Callable[Params, Result] = function
        self.task_options: TaskOptions = options
        self.wrappers: Wrappers = wrappers
        self.is_async: bool = is_async(function)
        self.signature: Signature = Signature(function)

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        return self.function(*args, **kwargs)

    def call(self, *args: Params.args, **kwargs: Params.kwargs) -> Call:
        """Return a call with these arguments. `InvalidInput` if they do not fit, or if JSON cannot hold them."""
        options = self.task_options
        return Call(
            name=options.name,
            arguments=self.signature.encoded(args, kwargs),
            priority=options.priority,
            deaths=options.budget.deaths,
        )


AnyTaskFunction = TaskFunction[Any, Any]
