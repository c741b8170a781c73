"""Pace report of shards: the moves with their pace, as a table for a screen, and as a line per changed move."""

from collections.abc import Sequence

from apportion.console.print.output import print_columns, print_text
from apportion.shards.admin import MoveStatus
from apportion.shards.admin.pace import MovePace
from apportion.shards.plan.size_text import size_text
from apportion.shards.reshard import BEFORE_SWITCH

_UNKNOWN = "?"
_HEADINGS = ("move", "shards", "state", "rows", "rows/s", "left", "lag", "WAL", "attempt", "paused", "idle")


def print_paces(paces: Sequence[MovePace]) -> None:
    """Print a line per move. Reasons of silent shards come after the table."""
    print_columns(_HEADINGS, [_cells(each) for each in paces], words=3)
    for each in paces:
        if each.move.problem:
            print_text(f"- {each.move.id}: {each.move.problem}")


def pace_line(pace: MovePace) -> str:
    """Return the pace of a move as one line."""
    move = pace.move
    facts = [
        _state(move),
        *([f"{_rows(move)} rows"] if move.state in BEFORE_SWITCH else []),
        *([f"{pace.rows_per_second:.0f} rows/s"] if pace.rows_per_second is not None else []),
        *([f"{_duration(pace.seconds_left)} left"] if pace.seconds_left is not None else []),
        f"lag {_UNKNOWN if move.lag is None else move.lag}",
        *([wal_text(move)] if move.wal_kept_bytes is not None else []),
        f"attempt {move.attempt}",
        f"paused {_pause(move)}",
        *([f"idle for {_duration(pace.idle_seconds)}"] if pace.idle_seconds else []),
        *([move.problem] if move.problem else []),
    ]
    return f"{move.id} {move.source} -> {move.target}: {', '.join(facts)}"


def wal_text(move: MoveStatus) -> str:
    """Return the amount of WAL that the source keeps for a move, in words."""
    return f"shard {move.source} keeps {size_text(move.wal_kept_bytes or 0)} of WAL"


def _cells(pace: MovePace) -> tuple[str, ...]:
    move = pace.move
    return (
        move.id,
        f"{move.source} -> {move.target}",
        _state(move),
        _rows(move) if move.state in BEFORE_SWITCH else "",
        "" if pace.rows_per_second is None else f"{pace.rows_per_second:.0f}",
        "" if pace.seconds_left is None else _duration(pace.seconds_left),
        _UNKNOWN if move.lag is None else str(move.lag),
        "" if move.wal_kept_bytes is None else size_text(move.wal_kept_bytes),
        str(move.attempt),
        _pause(move),
        "" if pace.idle_seconds is None else _duration(pace.idle_seconds),
    )


def _state(move: MoveStatus) -> str:
    """Return the state of a move, with the wish of the operator."""
    return move.state if move.wish == "go" else f"{move.state} ({move.wish})"


def _rows(move: MoveStatus) -> str:
    """Return the number of copied rows and the number of all rows; a question mark stands for an unknown number."""
    copied = _UNKNOWN if move.copied is None else str(move.copied)
    return f"{copied} of {_UNKNOWN if move.rows is None else max(move.rows, move.copied or 0)}"


def _pause(move: MoveStatus) -> str:
    return f"{1_000 * move.pause_seconds:.0f} ms"


def _duration(seconds: float) -> str:
    """Return a duration as a person reads it.

    >>> _duration(7.6), _duration(754), _duration(7_321)
    ('8 s', '12 min 34 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"
