"""Pace: the speed of moves, the time that is left, and the time without progress, from one reading to the next.

    paces = paced({}, first.moves, at=0.0)
    paces = paced(paces, second.moves, at=1.0)

Progress of a move is one more copied row, or a state that it reaches for the first time. A lag below every earlier lag
of the state is progress too. So a move that falls back from its fence again and again makes no progress.

Promises: pure; `at` is the elapsed time of the caller's clock, in seconds. A rate covers the last ten seconds.
Refuses: to guess. A time that is left is unknown without a rate or without the number of rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from apportion.shards.admin.status import MoveStatus
from apportion.shards.reshard import BEFORE_SWITCH, MoveState

WINDOW_SECONDS = 10.0
"""The time that a rate covers at most, unless two readings are further apart."""

_ORDER: Mapping[MoveState, int] = {state: place for place, state in enumerate(get_args(MoveState))}
_AT_REST = frozenset({"complete", "cleaned"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePace:
    """The pace of one move at its last reading.

    - `rows_per_second`: rows copied per second. None before the second reading, and after the copy.
    - `seconds_left`: the time until all rows are copied. None if it is not known.
    - `idle_seconds`: the time since the last progress that a reading has seen. None for a move that rests: it is
      complete, or paused. Also None as long as no reading could tell its copied rows.
    """

    move: MoveStatus
    rows_per_second: float | None = None
    seconds_left: float | None = None
    idle_seconds: float | None = None
    _progress: "_Progress"


@dataclass(frozen=True, slots=True)
class _Progress:
    """The best values of a move so far, the time of the last progress, and its copied rows at the last readings."""

    state: MoveState
    copied: int
    lag: int | None
    at: float
    copies: tuple[tuple[float, int], ...]


def paced(before: Mapping[str, MovePace], moves: Iterable[MoveStatus], at: float) -> dict[str, MovePace]:
    """Return the pace of each move, by its id. `before` is the answer for the reading before, {} for the first one.

    O(moves). Moves that the reading lacks are left out.
    """
    return {move.id: _pace(before.get(move.id), move, at) for move in moves}


def is_at_rest(move: MoveStatus) -> bool:
    """Whether a move waits for an operator: it is complete, or paused before its switch."""
    return move.state in _AT_REST or (move.wish == "pause" and move.state in BEFORE_SWITCH)


def _pace(before: MovePace | None, move: MoveStatus, at: float) -> MovePace:
    is_new = before is not None and before.move.source != move.source  # a reversal swaps source and target
    progress = _first(move, at) if before is None or is_new else _next(before._progress, move, at)
    if before is not None and is_at_rest(before.move) and not is_at_rest(move):
        progress = _Progress(progress.state, progress.copied, progress.lag, at, progress.copies)
    rate = _rate(progress.copies) if move.state == "copying" else None
    left = None if not rate or move.rows is None or move.copied is None else max(0, move.rows - move.copied) / rate
    idle = None if is_at_rest(move) or not progress.copies else at - progress.at
    return MovePace(move=move, rows_per_second=rate, seconds_left=left, idle_seconds=idle, _progress=progress)


def _first(move: MoveStatus, at: float) -> _Progress:
    return _Progress(move.state, move.copied or 0, move.lag, at, () if move.copied is None else ((at, move.copied),))


def _next(best: _Progress, move: MoveStatus, at: float) -> _Progress:
    is_later = _ORDER[move.state] > _ORDER[best.state]
    copied = max(best.copied, move.copied or 0)
    lags = [lag for lag in (None if is_later else best.lag, move.lag) if lag is not None]
    lag = min(lags, default=None)
    is_shorter = move.state != "copying" and lag is not None and best.lag is not None and lag < best.lag
    since = at if is_later or copied > best.copied or is_shorter else best.at
    state = move.state if is_later else best.state
    return _Progress(state, copied, lag, since, _kept(best.copies, move.copied, at))


def _kept(copies: tuple[tuple[float, int], ...], copied: int | None, at: float) -> tuple[tuple[float, int], ...]:
    """Return the readings of copied rows within the window, and at least two if there are two."""
    if copied is None:
        return copies
    within = tuple(each for each in copies if at - each[0] <= WINDOW_SECONDS)
    return (*(within or copies[-1:]), (at, copied))


def _rate(copies: tuple[tuple[float, int], ...]) -> float | None:
    (since, first), (at, last) = (copies[0], copies[-1]) if copies else ((0.0, 0), (0.0, 0))
    return max(0, last - first) / (at - since) if at > since else None
