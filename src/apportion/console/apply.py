"""`apportion apply`: apply a saved plan to the saved table or assignment that it was made from."""

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.assignment_plan import apply_target
from apportion.console.files.io import read_bounded
from apportion.console.files.output_file import FileKind, OutputFile
from apportion.console.files.snapshots import replace_table
from apportion.console.options.arguments import Force, Json
from apportion.console.options.table_place import StoredTable, TablePlace, file_at, load_table
from apportion.console.print.output import print_json, print_text
from apportion.console.print.progress import Progress
from apportion.errors import BadSnapshot, InvalidInput
from apportion.model import codec
from apportion.model.epoch import Epoch
from apportion.model.plan import Plan
from apportion.placement.plans import apply as apply_to


def apply(
    plan: Path,
    /,
    *,
    table: TablePlace = None,
    assignment: Path | None = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make the table that a plan leads to; refuse if the table is not the one that the plan was made from.

    The replaced table is kept in the folder FILE.kept, or in the store, for `apportion undo`.

    Parameters
    ----------
    plan
        Plan saved by `apportion plan -o`.
    table
        Table to change, a file or URL#NAME in a store (default: table.json).
    assignment
        Assignment to change, if the plan was made from an assignment.
    output
        Write the result here, and leave the table or assignment unchanged.
    """
    if isinstance(table, StoredTable) and assignment is None and output is None:
        _publish(plan, table, force=force, json=json)
        return
    if assignment is None:
        changed = table or Path("table.json")
        option = "--table" if output is None else "--output"
        path = output or file_at(changed) or Path()
        file = OutputFile(path=path, kind=FileKind.TABLE, option=option, force=force, reads=(plan,))
        with Progress("applying", is_shown=not json):
            before, after = _applied(plan, changed, file)
    elif table is not None:
        hint = "Name only the file that the plan was made from."
        raise InvalidInput("--table", str(table), "no --assignment with it", hint)
    else:
        option = "--assignment" if output is None else "--output"
        path = output or assignment
        file = OutputFile(path=path, kind=FileKind.ASSIGNMENT, option=option, force=force, reads=(plan,))
        with Progress("applying", is_shown=not json):
            before, after = apply_target(plan, assignment, file)
    kind, target = "table" if assignment is None else "assignment", file.path
    if json:
        print_json("apply", epoch_before=str(before), epoch_after=str(after), **{kind: str(target)})
    else:
        print_text(f"applied: {target} is at epoch {after} now (was {before})")


def _publish(plan: Path, table: StoredTable, *, force: bool, json: bool) -> None:
    """Publish the table that a plan leads to, and report it."""
    if force:
        hint = "Leave it out: --force replaces files. A plan changes only the stored table that it was made from."
        raise InvalidInput("--force", "given", "no --force with a table in a store", hint)
    with Progress("applying", is_shown=not json):
        done = table.changed(partial(apply_to, _plan_in(plan)))
    before, after, version = done.before.epoch, done.after.epoch, str(done.published.version)
    if json:
        print_json("apply", epoch_before=str(before), epoch_after=str(after), table=str(table), version=version)
    else:
        print_text(f"applied: {table} is at epoch {after} now (was {before}), version {version}")


def _applied(plan: Path, table: Path | StoredTable, output: OutputFile) -> tuple[Epoch, Epoch]:
    change = _plan_in(plan)
    with output.alone():
        replace_table(apply_to(change, load_table(table)), output, before=change.before)
    return change.before, change.after


def _plan_in(path: Path) -> Plan:
    data = read_bounded(path, codec.MAX_BYTES, what="plan file")
    try:
        return codec.decode(data, Plan)
    except BadSnapshot as error:
        error.within(str(path))
        if error.field == "snapshot kind" and data.startswith(b'{"apportion":"assignment"'):
            error.hint = "The plan is an assignment. Pass --assignment FILE too, with the assignment that it replaces."
        elif error.field == "snapshot kind" and data.startswith(b'{"apportion":"groupplan"'):
            error.hint = "This is the plan of a group. Apply it with: apportion group apply URL GROUP FILE"
        elif error.field == "snapshot kind" and data.startswith(b'{"apportion":"shardplan"'):
            error.hint = "This is a plan of shards. Apply it with: apportion shards apply URL SET FILE"
        raise
