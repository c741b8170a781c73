"""`apportion undo`: go back to the table (or assignment) before the last change.

Promises: an undo brings the earlier file back, byte for byte. In a store, the earlier table is published as the next
version. A second undo goes back further. The undone table stays kept, so the same plan can be applied again.
Refuses: to move data. `apportion plan --to` tells the moves before an undo.
"""

from pathlib import Path

from apportion.console.files.kept import kept_before, kept_folder
from apportion.console.files.output_file import FileKind, OutputFile
from apportion.console.files.snapshots import Saved, read_with_bytes
from apportion.console.options.arguments import Json
from apportion.console.options.table_place import StoredTable, TablePlace
from apportion.console.print.kept_report import moved_between
from apportion.console.print.output import print_json, print_text
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.table import Table

FILE = Path("table.json")


def undo(*, table: TablePlace = None, assignment: Path | None = None, json: Json = False) -> None:
    """Go back to the table before the last change. A second undo goes to the table before that one.

    Parameters
    ----------
    table
        Table to change, a file or URL#NAME in a store (default: table.json).
    assignment
        Assignment to change, instead of a table.
    """
    after: Table | Assignment
    before: Table | Assignment
    if assignment is not None and table is not None:
        raise InvalidInput("--table", str(table), "no --assignment with it", "Undo one of the two at a time.")
    with Progress("undoing", is_shown=not json):
        version: dict[str, str] = {}
        if isinstance(table, StoredTable):
            done = table.undone()
            after, before, version = done.before, done.after, {"version": str(done.published.version)}
        elif assignment is None:
            after, before = _undone(OutputFile(path=table or FILE, kind=FileKind.TABLE, option="--table"), Table)
        else:
            after, before = _undone(
                OutputFile(path=assignment, kind=FileKind.ASSIGNMENT, option="--assignment"), Assignment
            )
        moved = moved_between(after, before)
    place = str(assignment or table or FILE)
    if json:
        word = "table" if assignment is None else "assignment"
        epochs = {"epoch_before": str(after.epoch), "epoch_after": str(before.epoch)}
        print_json("undo", **epochs, moved_ratio=moved, **{word: place}, **version)
    else:
        ends = (
            "" if moved is None else f"; {moved:.2%} moves back",
            *(f", version {each}" for each in version.values()),
        )
        print_text(f"undone: {place} is at epoch {before.epoch} now (was {after.epoch}){''.join(ends)}")


def _undone(file: OutputFile, kind: type[Saved]) -> tuple[Saved, Saved]:
    """Replace a file by the kept file before it; return the value that it held, and the value that it holds now."""
    with file.alone():
        hint = f"Earlier files are in {kept_folder(file.path)}. Copy one of them over this file."
        held, after = _read(file.path, kind, hint=hint if kept_folder(file.path).is_dir() else "")
        kept = kept_before(file, held)
        data, before = _read(
            kept.path, kind, hint="apportion table log lists the others. Copy one of them over this file."
        )
        file.write(data)
    return after, before


def _read(path: Path, kind: type[Saved], *, hint: str) -> tuple[bytes, Saved]:
    try:
        return read_with_bytes(path, kind)
    except InvalidInput as error:
        if error.field != "format_version":  # a later release can read it
            error.hint = hint or error.hint
        raise
