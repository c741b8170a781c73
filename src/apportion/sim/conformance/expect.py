"""Expect: the conditions that a case requires. A false one raises `AssertionError`, also under `python -O`.

`python -O` would leave out the statement `assert`, and every store would then be certified.
"""

from collections.abc import Awaitable
from reprlib import Repr
from typing import TypeVar, cast

from apportion.errors import ApportionError
from apportion.stores import Committed, Outcome, Refused

Raised = TypeVar("Raised", bound=ApportionError)

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxdict = 12


def holds(condition: object, claim: str) -> None:
    """Fail with the claim unless the condition is true."""
    if not condition:
        raise AssertionError(f"this does not hold: {claim}")


def same(expected: object, actual: object, what: str) -> None:
    """Fail unless both are equal, and show them."""
    if expected != actual:
        raise AssertionError(f"{what}: expected {_SHORT.repr(expected)}, was {_SHORT.repr(actual)}")


def committed(outcome: Outcome) -> int:
    """Return the revision of a commit; fail when it did not happen."""
    holds(isinstance(outcome, Committed), f"a commit happens when its compares hold: {outcome}")
    return cast(Committed, outcome).revision


async def raises(kind: type[Raised], deed: Awaitable[object], what: str) -> Raised:
    """Return the error that a deed raises; fail if the deed ends without one."""
    try:
        answer = await deed
    except kind as error:
        return error
    raise AssertionError(f"{what} was answered with {_SHORT.repr(answer)}")


def refused(outcome: Outcome) -> None:
    """Fail unless a commit was refused."""
    holds(isinstance(outcome, Refused), f"a commit is refused when a compare does not hold: {outcome}")
