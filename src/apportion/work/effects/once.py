"""Once: an effect of a task function under a key. The idempotency log of the queue has its begin and its end.

Promises: an effect that is done is not begun again under its key; its value is returned instead. While one run performs
the effect, other runs wait. Each entry in the log is on the disk before the run continues.
Refuses: to decide whether an effect happened if its run ended in the middle. `on_unknown` decides.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from apportion.errors import ClaimLost, InvalidInput, LeaseLost, StoreUnavailable
from apportion.stores.task_once import MOST_ONCE_BYTES, OnceState, OnceStep
from apportion.stores.task_values import Claim, Receipt
from apportion.work.call import Signature
from apportion.work.retry_budget import GiveUp

OnUnknown: TypeAlias = Literal["run", "fail"] | Callable[..., Any]
_AGAIN_SECONDS = 0.1
_MOST_KEY = 200


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a claim under a key: its steps in the log, and its value as bytes."""

    claim: Claim
    key: str
    function: Callable[..., Any]
    on_unknown: OnUnknown

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not 0 < len(self.key) <= _MOST_KEY:
            hint = 'Write await task.once("charge/7", charge, 7)'
            raise InvalidInput("key", self.key, f"a str of 1 to {_MOST_KEY} characters", hint)
        if not callable(self.function):
            hint = "Pass the function and its arguments separately: task.once(key, charge, 7)."
            raise InvalidInput("function", self.function, "a function", hint)
        if self.on_unknown not in ("run", "fail") and not callable(self.on_unknown):
            hint = "Your function gets the arguments of the effect, and returns the value of the effect or None."
            raise InvalidInput("on_unknown", self.on_unknown, "'run', 'fail' or a function", hint)

    def begin(self, instead_of: Receipt | None = None) -> OnceStep:
        """Return the step before the effect.

        `instead_of` is the receipt of an earlier begin whose effect has no known end. This step replaces that begin.
        """
        receipt = self.claim.receipt
        return OnceStep(scope=self.claim.queue, key=self.key, receipt=receipt, instead_of=instead_of)

    def end(self, value: object) -> OnceStep:
        """Return the step after the effect; `InvalidInput` for a value that is too large or that JSON cannot hold."""
        hint = "The effect has happened. Return less, or store the data and return its name."
        try:
            data = Signature(self.function).kept(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"value of {self.key}", value, "a value that JSON can hold", hint) from error
        if len(data) > MOST_ONCE_BYTES:
            expected = f"at most {MOST_ONCE_BYTES} bytes"
            raise InvalidInput(f"value of {self.key}", f"{len(data)} bytes", expected, hint)
        return OnceStep(scope=self.claim.queue, key=self.key, receipt=self.claim.receipt, value=data)

    def contended(self) -> ClaimLost:
        """Return the error of an effect that another run has taken over and also left unfinished."""
        return ClaimLost(self.claim.task, self.claim.attempt)

    def value(self, state: OnceState) -> Any:  # noqa: ANN401 - the effect's
        """Return the value in the log, in the annotated type; `InvalidInput` for any other value."""
        try:
            return Signature(self.function).result(state.value or b"")
        except (TypeError, ValueError) as error:
            hint = "The effect has happened. Its row is damaged, or the annotation of the function has changed."
            raise InvalidInput(f"value of {self.key} in the log", state.value, "JSON of its type", hint) from error

    def check(self) -> Callable[..., Any]:
        """Return the function that decides about an unfinished effect. It returns the value, or None to repeat it."""
        if callable(self.on_unknown):
            return self.on_unknown
        return self._run if self.on_unknown == "run" else self._fail

    @staticmethod
    def _run(*_: object) -> None:
        """Return None, so that the effect runs again."""

    def _fail(self, *_: object) -> None:
        raise GiveUp(f"an earlier run began the effect {self.key!r} and did not end it: the effect may have happened")


async def stepped(
    once: Callable[[OnceStep], Awaitable[OnceState]], step: OnceStep, seconds_left: Callable[[], float]
) -> OnceState:
    """Make a step on the I/O thread. Repeat it after an outage, and while another run performs the effect.

    If an earlier call of this run has begun the effect, the end of the effect is unknown. A step that this call sends
    again does not count as an earlier call.
    `LeaseLost` when the session of the run has no time left; `ClaimLost` if the store refuses the step.
    """
    receipt, is_again = step.receipt, False
    while seconds_left() > 0:
        try:
            state = await once(step)
        except StoreUnavailable:
            is_again = True
        else:
            if state.found == "refused":
                raise ClaimLost(receipt.task, receipt.attempt)
            if state.found == "begun" and not (state.is_new or is_again or step.instead_of == receipt):
                return OnceState(found="unknown", receipt=receipt)
            if state.found != "busy":
                return state
        await asyncio.sleep(_AGAIN_SECONDS)
    raise LeaseLost(receipt.session)


async def called_async(function: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - the function's
    """Call a function and return its value; await it if it is async. A plain function runs on the event loop."""
    value = function(*args)
    return await value if inspect.isawaitable(value) else value


def called_here(function: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - the function's
    """Call a plain function and return its value; `InvalidInput` for an async one."""
    if inspect.iscoroutinefunction(function):
        hint = "Call it from an async task function. Nothing was called."
        raise InvalidInput("function", function, "a plain function", hint)
    return function(*args)
