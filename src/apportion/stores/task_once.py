"""The idempotency log of tasks: one entry per scope and key, begun before an effect and done after it.

Promises: an entry is begun under the receipt of an open claim alone, and by one caller at a time. Once it is done, its
value stays. An entry that was begun by a claim that is no longer open is `unknown`: its effect may have happened.
Refuses: to decide about such an entry. The caller decides, and names the receipt that it takes the entry over from.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from apportion.errors.brief import brief
from apportion.stores.task_values import Receipt

OnceFound = Literal["begun", "busy", "unknown", "done", "refused"]
MOST_ONCE_BYTES = 64 * 1024


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class OnceStep:
    """A step of a claim at an entry: without a `value` it begins the entry, with one it ends the entry.

    `instead_of` is the receipt of an unknown entry that this step takes over.
    """

    scope: str
    key: str
    receipt: Receipt
    value: bytes | None = None
    instead_of: Receipt | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class OnceState:
    """The answer to a step.

    - begun: the entry is the caller's, and it may do the effect now. `is_new` is False if the caller had begun it
      before: this step was sent again, or the run has tried the effect already.
    - busy: another open claim, of `receipt`, does the effect now.
    - unknown: a claim that is no longer open, of `receipt`, began the effect and did not end it.
    - done: the entry is done, with this `value`.
    - refused: the claim of the caller is no longer open, or the entry is no longer the caller's.
    """

    found: OnceFound
    is_new: bool = True
    receipt: Receipt | None = None
    value: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceEntry:
    """The entry of a scope and a key; without a value its effect has not ended."""

    receipt: Receipt
    at: int
    value: bytes | None = None


def once(
    entry: OnceEntry | None, step: OnceStep, *, is_open: Callable[[Receipt], bool], now: int
) -> tuple[OnceState, OnceEntry | None]:
    """Return the answer to a step, and the entry to write (None: it stays). `is_open`: whether a live claim holds it.

    >>> first, second = (Receipt(task=task, attempt=1, session=7) for task in "ab")
    >>> begin = OnceStep(scope="q", key="charge/7", receipt=first)
    >>> state, entry = once(None, begin, is_open={first, second}.__contains__, now=1)
    >>> state.found
    'begun'
    >>> other = OnceStep(scope="q", key="charge/7", receipt=second)
    >>> [once(entry, other, is_open=alive.__contains__, now=2)[0].found for alive in ({first, second}, {second})]
    ['busy', 'unknown']
    """
    if step.value is not None:
        return _ended(entry, step, now)
    found = _found(entry, step, is_open)
    is_new = found == "begun" and (entry is None or entry.receipt != step.receipt)
    state = OnceState(found=found, is_new=is_new or found != "begun")
    if entry is not None and found in ("busy", "unknown", "done"):
        state = OnceState(found=found, receipt=entry.receipt, value=entry.value)
    return state, OnceEntry(receipt=step.receipt, at=now) if is_new else None


def _found(entry: OnceEntry | None, step: OnceStep, is_open: Callable[[Receipt], bool]) -> OnceFound:
    if not is_open(step.receipt):
        return "refused"
    if entry is None:
        return "begun"
    if entry.value is not None:
        return "done"
    if entry.receipt == step.receipt:
        return "begun"
    if is_open(entry.receipt):
        return "busy"
    return "begun" if entry.receipt == step.instead_of else "unknown"


def _ended(entry: OnceEntry | None, step: OnceStep, now: int) -> tuple[OnceState, OnceEntry | None]:
    """End an entry of the caller, even if the caller's claim is over, because the effect has happened."""
    if entry is None or entry.receipt != step.receipt:
        return OnceState(found="refused"), None
    if entry.value is not None:
        return OnceState(found="done", receipt=entry.receipt, value=entry.value), None
    return OnceState(found="done", receipt=step.receipt, value=step.value), replace(entry, value=step.value, at=now)
