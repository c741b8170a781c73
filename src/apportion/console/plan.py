"""`apportion plan`: the moves of a change of nodes, before they happen."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.balance.succession import succeed
from apportion.console.assignment_plan import plan_assignment
from apportion.console.files.io import write_whole
from apportion.console.files.key_stream import Column, KeysFile, keys_of
from apportion.console.options.arguments import Json
from apportion.console.options.edits import Edits
from apportion.console.options.outage import Outage
from apportion.console.options.placement import PlacementOptions
from apportion.console.print.plan_report import print_plan, print_plan_json
from apportion.errors import InvalidInput
from apportion.model import codec
from apportion.model.assignment import Spread
from apportion.placement.change import plan as plan_of

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
    json: Json = False,
) -> int:
    """Show the moves of a change. Exit code 0: nothing would change, 2: changes pending, 1: an error.

    Parameters
    ----------
    assignment
        Assignment of partitions to plan from, saved by `assign`, instead of nodes.
    spread
        Of an assignment: refuse too few zones (strict), or share them (default: the saved rule).
    keys
        Count over the keys of this file; placements without a table need it.
    output
        Save the plan, for `apportion apply`.
    """
    if assignment is not None:
        if source != PlacementOptions() or keys is not None or column is not None:
            hint = "An assignment has nodes, partitions and replicas; leave the options of placements and keys out."
            raise InvalidInput("--assignment", str(assignment), "no nodes, placement or keys beside it", hint)
        is_pending = plan_assignment(assignment, edits, outage, output, spread=spread, json=json)
        return PENDING if is_pending else 0
    if outage.is_given or spread is not None:
        hint = "Placements of keys know no outage and keep no rule."
        raise InvalidInput("--assignment", None, "one beside --live, --down or --spread", hint)
    if output is not None and keys is not None:
        hint = "Only an exact plan can be saved and applied."
        raise InvalidInput("--output", str(output), "no --keys beside it", hint)
    old = source.load_placement()
    target = edits.applied_to(old.topology)
    new = old if target == old.topology else succeed(old, target)
    counted = None if keys is None else keys_of((), keys, column)
    change = plan_of(old, new, counted)
    if output is not None:
        write_whole(output, codec.encode(change), what="--output")
    (print_plan_json if json else print_plan)(change)
    return PENDING if change.is_pending else 0
