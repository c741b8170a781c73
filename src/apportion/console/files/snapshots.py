"""Snapshots: tables and assignments in files, read with a bound. No write replaces a file that may be the only copy.

Promises: a table never replaces a table of a later epoch. An assignment replaces only its predecessor or itself.
"""

from pathlib import Path
from typing import TypeVar

from apportion.console.files.io import alone_with, read_bounded, write_whole
from apportion.errors import BadSnapshot, InvalidInput, StaleEpoch
from apportion.model import codec
from apportion.model.assignment import Assignment
from apportion.model.table import Table

Saved = TypeVar("Saved", Table, Assignment)


def read(path: Path, kind: type[Saved]) -> Saved:
    """Return a saved table or assignment."""
    return codec.decode(read_bounded(path, codec.MAX_BYTES, what=f"{kind.__name__.lower()} file"), kind)


def save(value: Table, output: Path) -> None:
    """Write a table, but never over one of a later epoch: that file may be the only record of the owners."""
    data = codec.encode(value)
    with alone_with(output, what="--output"):
        if output.is_file():
            try:
                current = read(output, Table).epoch
            except BadSnapshot:
                pass  # the file holds no table, so no later version of this one
            else:
                if current.number > value.epoch.number:
                    raise StaleEpoch(seen=value.epoch, current=current)
        write_whole(output, data, what="--output")


def save_assignment(after: Assignment, output: Path, *, before: Assignment | None, is_plan: bool) -> None:
    """Write the assignment that follows `before`. It may replace only `before` or an equal assignment.

    A plan may also replace another plan that was made from `before`.
    """
    data = codec.encode(after)
    with alone_with(output, what="--output"):
        if output.is_file() and output.stat().st_size:
            _check_replaced(output, after, before, is_plan=is_plan)
        write_whole(output, data, what="--output")


def _check_replaced(output: Path, after: Assignment, before: Assignment | None, *, is_plan: bool) -> None:
    try:
        held = read(output, Assignment)
    except InvalidInput as error:
        expected = "a name that is free: the file there cannot be read as an assignment"
        raise InvalidInput("--output", str(output), expected, "Take another name, or remove the file.") from error
    made_from = held.certificate.previous if is_plan and held.certificate else None
    if held == after or (before is not None and before.epoch.digest in (held.epoch.digest, made_from)):
        return
    go_on = "" if is_plan else f"pass --previous {output} to go on from it, "
    expected = f"a name that is free: the assignment there, of epoch {held.epoch}, is not the one before"
    raise InvalidInput("--output", str(output), expected, f"Take another name, {go_on}or remove the file.")
