"""`apportion plan`: the moves of a change of nodes, before they happen."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.balance.succession import succeed
from apportion.console.assignment_plan import plan_assignment
from apportion.console.files.key_stream import Column, KeysFile, batches_of
from apportion.console.files.output_file import FileKind, OutputFile
from apportion.console.files.snapshots import is_snapshot
from apportion.console.options.arguments import Force, Json
from apportion.console.options.edits import Edits
from apportion.console.options.outage import Outage
from apportion.console.options.placement import PlacementOptions
from apportion.console.options.table_place import StoredTable, file_at, load_table
from apportion.console.print.placement_plan_report import print_plan, print_plan_json
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput
from apportion.model import codec
from apportion.model.assignment import Spread
from apportion.model.plan import Plan
from apportion.placement.plans import plan as plan_of

PENDING = 2


def plan(
    *,
    source: PlacementOptions = PlacementOptions(),  # noqa: B008 - a frozen value
    assignment: Path | None = None,
    edits: Edits = Edits(),  # noqa: B008
    outage: Outage = Outage(),  # noqa: B008
    spread: Spread | None = None,
    keys: KeysFile = None,
    column: Column = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """Show the moves of a change. Exit code 0: nothing would change, 2: changes pending, 1: an error.

    Parameters
    ----------
    assignment
        Plan from this assignment of partitions, saved by `assign`, instead of nodes.
    spread
        For an assignment: refuse too few zones (strict), or share them (best-effort; default: the saved rule).
    keys
        Count over the keys of this file; placements without a table need it.
    output
        Save the plan, for `apportion apply`.
    """
    reads = assignment, file_at(source.table), source.topology, file_at(edits.to)
    kind = FileKind.PLAN if assignment is None else FileKind.ASSIGNMENT
    file = None if output is None else OutputFile(path=output, kind=kind, force=force, reads=reads)
    if assignment is not None:
        if source != PlacementOptions() or keys is not None or column is not None:
            hint = "An assignment has nodes, partitions and replicas; leave the options of placements and keys out."
            raise InvalidInput("--assignment", str(assignment), "no nodes, placement or keys with it", hint)
        is_pending = plan_assignment(assignment, edits, outage, file, spread=spread, json=json)
        return PENDING if is_pending else 0
    if outage.is_given or spread is not None:
        hint = "Placements of keys have no outages and no rule."
        raise InvalidInput("--assignment", None, "a file, with --live, --down or --spread", hint)
    if output is not None and keys is not None:
        hint = "Only an exact plan can be saved and applied."
        raise InvalidInput("--output", str(output), "no --keys with it", hint)
    if file is not None:
        file.check()
    with Progress("planning", "keys" if keys else "", is_shown=not json) as progress:
        change = _planned(source, edits, keys, column, progress)
        if file is not None:
            file.write(codec.encode(change))
    (print_plan_json if json else print_plan)(change)
    return PENDING if change.is_pending else 0


def _planned(source: PlacementOptions, edits: Edits, keys: str | None, column: str | None, progress: Progress) -> Plan:
    if isinstance(edits.to, StoredTable) or (edits.to is not None and is_snapshot(edits.to)):
        if edits != Edits(to=edits.to) or keys is not None or column is not None:
            hint = "A saved table is complete, and its plan is exact; leave the other options out."
            raise InvalidInput("--to", str(edits.to), "no change of nodes and no keys, with a saved table", hint)
        table = source.load_placement() if source.table is None else source.load_table()
        return plan_of(table, load_table(edits.to))
    old = source.load_placement()
    target = edits.applied_to(old.topology)
    new = old if target == old.topology else succeed(old, target)
    listed: Iterable[bytes] | None = None if keys is None else progress.joined(batches_of((), keys, column))
    return plan_of(old, new, listed)
