"""`apportion table`: save a placement as a table, read a foreign one, compare two, or repair a published one."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.output_file import FileKind, OutputFile
from apportion.console.files.ranges_csv import write_ranges
from apportion.console.files.snapshots import read, save
from apportion.console.options.arguments import Force, Json, Url, whole
from apportion.console.options.hasher import Hashing
from apportion.console.options.nodes import NodesSource
from apportion.console.options.placement import PlacementOptions
from apportion.console.options.table_place import StoredTable, TablePlace, file_at
from apportion.console.print.kept_report import print_kept, print_stored
from apportion.console.print.output import print_json, print_text
from apportion.console.print.placement_plan_report import print_plan, print_plan_json
from apportion.console.print.progress import Progress
from apportion.console.table_import import Reading, imported
from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.table import Table
from apportion.placement.plans import plan as plan_of
from apportion.tables.followed import repaired

Output = Annotated[Path, Parameter(name=("--output", "-o"))]


def export_table(
    *,
    source: PlacementOptions = PlacementOptions(),  # noqa: B008 - a frozen value
    output: Output = Path("table.json"),
    replicas: Annotated[int | None, Parameter(converter=whole)] = None,
    csv: bool = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Save every answer of a placement: ranges of the circle and their owners.

    Parameters
    ----------
    output
        File to write.
    replicas
        Owners of each range: the preference list of this length (default: 1).
    csv
        Write CSV instead of a table: start, end (hexadecimal, half-open) and owners.
    """
    reads = file_at(source.table), source.topology, source.hasher_key_file
    file = OutputFile(path=output, kind=FileKind.RANGES if csv else FileKind.TABLE, force=force, reads=reads)
    file.check()
    with Progress("exporting", is_shown=not json):
        table = _exported(source, replicas)
        if csv:
            file.write(write_ranges(table))
        else:
            save(table, file)
    _report("table export", table, output, json=json)


def import_table(
    file: Path,
    /,
    *,
    reading: Reading = Reading(),  # noqa: B008 - a frozen value
    nodes: NodesSource = NodesSource(),  # noqa: B008
    hashing: Hashing = Hashing(),  # noqa: B008
    output: Output = Path("table.json"),
    force: Force = False,
    json: Json = False,
) -> None:
    """Read ranges made elsewhere, or the output of a cluster, and save them as a table.

    Parameters
    ----------
    file
        CSV with the columns start, end (hexadecimal, half-open) and one or more owners, or another --format.
    output
        File to write.
    """
    written = OutputFile(path=output, kind=FileKind.TABLE, force=force, reads=(file, nodes.topology))
    written.check()
    with Progress("importing", is_shown=not json):
        found = imported(file, reading, nodes, hashing)
        save(found.table, written)
    _report("table import", found.table, output, json=json, notes=found.notes)


def diff_table(old: Path, new: Path, /, *, json: Json = False) -> None:
    """Show exactly the differences between two saved tables.

    Parameters
    ----------
    old
        Table to start from.
    new
        Table to compare with it.
    """
    with Progress("comparing", is_shown=not json):
        change = plan_of(read(old, Table), read(new, Table))
    (print_plan_json if json else print_plan)(change)


def log_table(*, table: TablePlace = None, assignment: Path | None = None, json: Json = False) -> None:
    """List the kept tables of a file, the newest first: since when, which change, how much moved.

    Parameters
    ----------
    table
        Table that was changed, a file or URL#NAME in a store (default: table.json).
    assignment
        Assignment that was changed, instead of a table.
    """
    if isinstance(table, StoredTable) and assignment is None:
        print_stored(table, json=json)
    elif assignment is None:
        print_kept(file_at(table) or Path("table.json"), Table, json=json)
    elif table is not None:
        raise InvalidInput("--table", str(table), "no --assignment with it", "List one of the two at a time.")
    else:
        print_kept(assignment, Assignment, json=json)


def repair_table(url: Url, name: str, /, *, json: Json = False) -> None:
    """Publish the newest version of a published table once more, whole and under a number that no follower saw.

    Parameters
    ----------
    name
        Name under which it was published.
    """
    done = asyncio.run(repaired(url, name))
    if json:
        print_json("table repair", table=name, version=str(done.version), epoch=str(done.epoch))
    else:
        print_text(f"table repair: {name} is version {done.version} now, epoch {done.epoch}")


def _exported(source: PlacementOptions, replicas: int | None) -> Table:
    if source.table is not None:
        if replicas is not None:
            hint = "A table holds a fixed number of owners."
            raise InvalidInput("--replicas", replicas, "no value, with --table", hint)
        return source.load_table()
    table = source.load_placement().table(1 if replicas is None else replicas)
    if table is None:
        hint = "Route with this placement directly: it has no table to save."
        raise InvalidInput("--placement", source.placement, "one that has a table, such as slots or ring", hint)
    return table


def _report(command: str, table: Table, output: Path, *, json: bool, notes: Sequence[str] = ()) -> None:
    if json:
        print_json(
            command,
            epoch=str(table.epoch),
            ranges=len(table.starts),
            nodes=len(table.topology),
            table=str(output),
            **({"notes": notes} if notes else {}),
        )
        return
    for note in notes:
        print_text(note)
    print_text(f"saved {output}: {table!r}")
