"""Refusal: the error for a call that a world cannot see, repeat or disturb.

Promises: the running world remembers the first refusal and ends with it, also when the program caught the error. So a
test cannot pass when its program did nothing because the world refused its calls.
"""

import asyncio
from collections.abc import Callable
from typing import NoReturn, Protocol, runtime_checkable

from apportion.errors import ApportionError


class LeavesTheWorld(ApportionError):
    """A call that the simulated world cannot see, repeat or disturb."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} would leave the simulated world.", f"Use {instead}.")


@runtime_checkable
class Remembers(Protocol):
    """The event loop of a world."""

    def refused(self, error: LeavesTheWorld) -> None:
        """Take a refusal, which ends the run."""


def refuse(what: str, instead: str) -> NoReturn:
    """Raise `LeavesTheWorld`, and let the running world remember it."""
    error = LeavesTheWorld(what, instead)
    loop = asyncio._get_running_loop()
    if isinstance(loop, Remembers):
        loop.refused(error)
    raise error


def refusing(what: str, instead: str) -> Callable[..., NoReturn]:
    """Return a function that refuses, whatever it is called with."""

    def _refuse(*args: object, **options: object) -> NoReturn:  # noqa: ARG001
        refuse(what, instead)

    return _refuse


def is_simulated() -> bool:
    """Return whether a world runs in this thread."""
    return isinstance(asyncio._get_running_loop(), Remembers)
