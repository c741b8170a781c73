"""The idempotency log of tasks: one entry per scope and key, begun before an effect and done after it.

Promises: only an open claim can begin an entry, and only one at a time. The value of a done entry stays. If the claim
that began an entry is no longer open, the entry is `unknown`: its effect may have happened.
Refuses: to decide about an unknown entry. The caller decides. To take an entry over, the caller names
the entry's receipt.
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
    """One step of a claim. It begins an entry if it has no `value`, and ends the entry if it has one.

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

    - begun: the entry belongs to the caller, which may do the effect now. `is_new` is False if the caller had begun the
      entry before: this step was sent again, or the run has tried the effect already.
    - busy: another open claim, with this `receipt`, does the effect now.
    - unknown: the claim with this `receipt` began the effect, did not end it, and is no longer open.
    - done: the entry is done, with this `value`.
    - refused: the claim of the caller is no longer open, or the entry no longer belongs to the caller.
    """

    found: OnceFound
    is_new: bool = True
    receipt: Receipt | None = None
    value: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceEntry:
    """The entry of a scope and a key. If it has no value, its effect has not ended."""

    receipt: Receipt
    at: int
    value: bytes | None = None


def once(
    entry: OnceEntry | None, step: OnceStep, *, is_open: Callable[[Receipt], bool], now: int
) -> tuple[OnceState, OnceEntry | None]:
    """Return the answer to a step, and the entry to write (None: no change). `is_open` checks the claim of a receipt.

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
