"""Snapshots: tables and assignments in files, read with a bound. No write replaces a file that may be the only copy.

Promises: a table never replaces a table of a later epoch. An assignment replaces only its predecessor or itself.
`--force` lifts both. A replaced table or assignment stays beside the file: see `kept`.
"""

import os
from pathlib import Path
from typing import TypeVar

from apportion.console.files.io import read_bounded
from apportion.console.files.kept import replace_and_keep
from apportion.console.files.output_file import OutputFile
from apportion.errors import InvalidInput, StaleEpoch
from apportion.model import codec
from apportion.model.assignment import Assignment
from apportion.model.epoch import Epoch
from apportion.model.table import Table

Saved = TypeVar("Saved", Table, Assignment)


def read(path: Path, kind: type[Saved]) -> Saved:
    """Return a saved table or assignment."""
    return read_with_bytes(path, kind)[1]


def read_with_bytes(path: Path, kind: type[Saved]) -> tuple[bytes, Saved]:
    """Return a saved table or assignment, and the bytes of the file."""
    data = read_bounded(path, codec.MAX_BYTES, what=f"{kind.__name__.lower()} file")
    try:
        return data, codec.decode(data, kind)
    except InvalidInput as error:
        error.within(str(path))
        raise


def is_snapshot(path: Path) -> bool:
    """Whether a file looks like a snapshot; a topology file cannot begin with a brace."""
    is_there = os.path.isfile(path)  # noqa: PTH113 - a path that cannot be looked at is refused where it is read
    return is_there and read_bounded(path, codec.MAX_BYTES, what="--to").startswith(b"{")


def save(value: Table, output: OutputFile) -> None:
    """Write a table, but never over one of a later epoch: that file may be the only record of the owners."""
    output.check()
    with output.alone():
        replace_table(value, output)


def replace_table(value: Table, output: OutputFile, *, before: Epoch | None = None) -> None:
    """Do the same as `save`, but replace the table of the epoch `before` in any case. The caller holds the lock."""
    held = _held(output, Table)
    if held is not None and not output.force:
        current = held[1].epoch
        if current != before and current.number > value.epoch.number:
            raise StaleEpoch(seen=value.epoch, current=current)
    replace_and_keep(output, codec.encode(value), held and held[0])


def save_assignment(after: Assignment, output: OutputFile, *, before: Assignment | None, is_plan: bool) -> None:
    """Write the assignment that follows `before`. It may replace only `before` or an equal assignment.

    With `is_plan`, the assignment is the target of a plan. It may then also replace another target that was made from
    `before`, and the replaced file is not kept.
    """
    output.check()
    with output.alone():
        replace_assignment(after, output, before=before, is_plan=is_plan)


def replace_assignment(
    after: Assignment, output: OutputFile, *, before: Assignment | None, is_plan: bool = False
) -> None:
    """Do as `save_assignment` does; the caller holds the lock."""
    held = _held(output, Assignment)
    if held is not None and not output.force:
        _check_replaced(output.path, held[1], after, before, is_plan=is_plan)
    replace_and_keep(output, codec.encode(after), None if held is None or is_plan else held[0])


def _held(output: OutputFile, kind: type[Saved]) -> tuple[bytes, Saved] | None:
    """Return the value that an output file holds now. Only `force` lets an unreadable file be replaced."""
    output.check()
    if output.is_stream or not output.path.is_file() or not output.path.stat().st_size:
        return None
    try:
        return read_with_bytes(output.path, kind)
    except InvalidInput as error:
        if output.force:
            return None
        expected = f"a free name: the file there cannot be read as {output.kind.value}"
        hint = f"Choose another name, or pass --force to replace the file. Its fault: {error.problem}"
        raise InvalidInput(output.option, str(output.path), expected, hint) from error


def _check_replaced(
    path: Path, held: Assignment, after: Assignment, before: Assignment | None, *, is_plan: bool
) -> None:
    made_from = held.certificate.previous if is_plan and held.certificate else None
    if held == after or (before is not None and before.epoch.digest in (held.epoch.digest, made_from)):
        return
    go_on = "" if is_plan else f"pass --previous {path} to go on from it, "
    expected = f"a free name: the assignment there, of epoch {held.epoch}, is not the predecessor of the new one"
    raise InvalidInput("--output", str(path), expected, f"Choose another name, {go_on}or pass --force to replace it.")
