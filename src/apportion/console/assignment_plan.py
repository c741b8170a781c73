"""Assignment plan: edits the nodes of a saved assignment, plans the next assignment, and applies that plan.

The command saves the target of a plan, not the plan. The certificate of the target names, by digest, the assignment
that it was made from. It also proves that no other target moves fewer replicas.
Promises: the target replaces exactly that assignment; `apply` refuses the target for any other assignment.
"""

from pathlib import Path

from apportion.balance.verify import verify
from apportion.console.files.output_file import OutputFile
from apportion.console.files.snapshots import is_snapshot, read, replace_assignment, save_assignment
from apportion.console.options.edits import Edits
from apportion.console.options.outage import Outage
from apportion.console.options.partitions import PartitionOptions
from apportion.console.print.assignment_report import AssignmentStep, print_step, print_step_json
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput, PlanRefused, StaleEpoch
from apportion.model.assignment import Assignment, Spread
from apportion.model.epoch import Epoch


def plan_assignment(
    path: Path, edits: Edits, outage: Outage, output: OutputFile | None, *, spread: Spread | None, json: bool
) -> bool:
    """Print the effect of edited nodes, or of a saved target, on a saved assignment.

    Return whether the assignment changes.
    """
    with Progress("planning", is_shown=not json):
        step = _planned(path, edits, outage, output, spread=spread)
    if json:
        print_step_json("plan", step, with_owners=False)
    else:
        print_step("plan", step)
    return step.change.is_pending


def _planned(
    path: Path, edits: Edits, outage: Outage, output: OutputFile | None, *, spread: Spread | None
) -> AssignmentStep:
    """Return the step from a saved assignment, and save its target if the caller names a file."""
    before = read(path, Assignment)
    if output is not None:
        output.check()
    if isinstance(edits.to, Path) and is_snapshot(edits.to):
        if edits != Edits(to=edits.to) or outage.is_given or output is not None or spread is not None:
            hint = "The assignment is complete; leave the other options out."
            raise InvalidInput("--to", str(edits.to), "no change and no --output, with a saved assignment", hint)
        after = read(edits.to, Assignment)
    else:
        outage.check_beside(edits)
        topology = edits.applied_to(before.topology)
        after = PartitionOptions(spread=spread).assigned(topology, outage, before, is_saved=output is not None)
    step = AssignmentStep(before=before, after=after)
    keep(step, output, is_plan=True)
    return step


def keep(step: AssignmentStep, output: OutputFile | None, *, is_plan: bool) -> None:
    """Save the result of a step if the caller names a file. The certificate of the result is verified first."""
    if output is not None and step.verdict is not None:
        save_assignment(step.after, output, before=step.before, is_plan=is_plan)


def apply_target(target: Path, assignment: Path, output: OutputFile) -> tuple[Epoch, Epoch]:
    """Write the target of a plan to `output`; refuse an `assignment` that the plan was not made from.

    Return the epochs before and after.
    """
    after = read(target, Assignment)
    with output.alone():
        before = read(assignment, Assignment)
        if after.certificate is None:
            raise PlanRefused("it has no certificate that says which assignment it was made from")
        if after.certificate.previous != before.epoch.digest:
            raise StaleEpoch(
                seen=after.certificate.previous[:8] or "none, because this is a first assignment", current=before.epoch
            )
        verify(after, previous=before)
        replace_assignment(after, output, before=before)
    return before.epoch, after.epoch
