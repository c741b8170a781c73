"""`apportion assign`: which nodes hold each partition of a fixed list, evenly and with the fewest moves."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.assignment_plan import keep
from apportion.console.files.output_file import FileKind, OutputFile
from apportion.console.files.snapshots import read
from apportion.console.options.arguments import Force
from apportion.console.options.nodes import NodesSource
from apportion.console.options.outage import Outage
from apportion.console.options.partitions import PartitionOptions
from apportion.console.print.assignment_report import AssignmentStep, print_step, print_step_json
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology


def assign(
    *,
    source: NodesSource = NodesSource(),  # noqa: B008 - a frozen value
    wanted: PartitionOptions = PartitionOptions(),  # noqa: B008
    outage: Outage = Outage(),  # noqa: B008
    previous: Path | None = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    force: Force = False,
    json: bool = False,
) -> None:
    """Tell which nodes hold each partition: as evenly as possible, with the fewest moved replicas.

    Parameters
    ----------
    previous
        Saved assignment to start from; other options replace its values.
    output
        Save the assignment here.
    json
        Print one JSON object instead, with the owners of every partition.
    """
    reads = source.topology, wanted.file
    file = None if output is None else OutputFile(path=output, kind=FileKind.ASSIGNMENT, force=force, reads=reads)
    if file is not None:
        file.check()
    with Progress("assigning", is_shown=not json):
        before = None if previous is None else read(previous, Assignment)
        after = wanted.assigned(_topology(source, before), outage, before, is_saved=file is not None)
        step = AssignmentStep(before=before, after=after)
        keep(step, file, is_plan=False)
    if json:
        print_step_json("assign", step, with_owners=True)
    else:
        print_step("assignment", step)


def _topology(source: NodesSource, before: Assignment | None) -> Topology:
    """Return the nodes of the options. Nodes that differ from those of `before` get a later epoch."""
    if before is None:
        return source.load_topology()
    old = before.topology
    if source == NodesSource():
        return old
    new = source.load_topology()
    if source.nodes is not None and old.cluster:
        expected = f"--topology instead, because --nodes names no cluster and --previous has cluster {old.cluster!r}"
        hint = "Pass --topology FILE: it names the cluster, the zones and the weights."
        raise InvalidInput("--nodes", source.nodes, expected, hint)
    if new == old:
        return old
    return Topology(new, cluster=new.cluster, number=max(new.number, old.number + 1))
