"""`apportion group`: the commands with which an operator reads and changes a group, without being a member of it."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.output_file import FileKind, OutputFile
from apportion.console.group import report
from apportion.console.group.plan import print_applied, print_applied_json, print_change, print_change_json, read_plan
from apportion.console.group.run import Joining, run
from apportion.console.options.arguments import Force, GroupName, Json, MemberId, PartitionNumber, Url, Whole
from apportion.console.options.command import Command
from apportion.console.options.edits import Edits
from apportion.console.options.table_place import file_at
from apportion.console.plan import PENDING
from apportion.console.print.live import show_live
from apportion.console.print.output import print_json, print_text, wrapped
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput
from apportion.groups.admin import Found, encode_plan, remarks
from apportion.stores.catalog import shown_url
from apportion.sync import admin


def ls_group(url: Url, /, *, json: Json = False) -> None:
    """List the groups of a store."""
    with Progress("reading", is_shown=not json):
        groups = admin.read_all(url)
    report.print_groups(shown_url(url), groups, json=json)


def show_group(
    url: Url, name: GroupName, /, *, every: Annotated[bool, Parameter(name="--all")] = False, json: bool = False
) -> None:
    """Show members, target, and all that is out of order.

    Parameters
    ----------
    every
        Show every partition, not only those out of order.
    json
        Print one JSON object instead, with every partition.
    """
    with Progress("reading", is_shown=not json):
        found = admin.read(url, name)
    if json:
        report.print_group_json(found)
    else:
        report.print_group(found, every=every)


def top_group(url: Url, name: GroupName, /) -> None:
    """Show members, target, and all that is out of order, again every second. Ctrl-C ends it."""
    show_live(lambda: admin.read(url, name), lambda found: report.print_group(found, every=False))


def watch_group(url: Url, name: GroupName, /, *, json: bool = False) -> None:
    """Print each change as it happens: the partition, its old and new owner, and the reason. Ctrl-C ends it.

    Parameters
    ----------
    json
        Print one JSON object per line instead.
    """
    with suppress(KeyboardInterrupt):  # the user ends the command with Ctrl-C
        for line in admin.watch(url, name):
            report.print_line(name, line, json=json)


def drain_group(url: Url, name: GroupName, member: MemberId, /, *, wait: bool = True, json: Json = False) -> None:
    """Take all partitions from a member, and wait until it has none. It gets none until `group undrain`.

    Parameters
    ----------
    wait
        Wait until the member owns nothing. The request also holds without the wait.
    """
    left = _left(url, admin.drain(url, name, member), member, wait=wait, json=json)
    if json:
        print_json("group drain", group=name, member=member, owned=left)
    else:
        print_text(f"group drain: {member} " + (f"is asked for {left} partitions" if not wait else "owns nothing now"))


def undrain_group(url: Url, name: GroupName, member: MemberId, /, *, json: Json = False) -> None:
    """Withdraw a drain, so that the member gets partitions again."""
    was_asked = member in admin.undrain(url, name, member).view.drains
    if json:
        print_json("group undrain", group=name, member=member, was_asked=was_asked)
    else:
        print_text(
            f"group undrain: {member} " + ("gets partitions again" if was_asked else "does not drain: nothing to do")
        )


def explain_group(url: Url, name: GroupName, partition: PartitionNumber, /, *, json: Json = False) -> None:
    """Show the owner of a partition, the step it waits for, and its history."""
    with Progress("reading", is_shown=not json):
        explained = admin.explain(url, name, partition)
    (report.explanation_json if json else report.print_explanation)(explained)


def forget_group(url: Url, name: GroupName, member: MemberId, /, *, json: Json = False) -> None:
    """Forget a static member that will not come back, so that others get its partitions at once.

    This cannot be undone: if its process comes back, it joins as a new member.
    """
    if not json:
        print(
            wrapped(
                f"group forget: this cannot be undone; if {member} comes back, it joins as a new member", sys.stdout
            ),
            flush=True,
        )
    admin.forget(url, name, member)
    if json:
        print_json("group forget", group=name, member=member, can_be_undone=False)
    else:
        print_text(f"group forget: {name} no longer waits for {member}, and this cannot be undone")


def release_group(url: Url, name: GroupName, partition: PartitionNumber, /, *, json: Json = False) -> None:
    """Let the next owner take a partition at once, if it is quarantined or waits because its owners died."""
    deaths = admin.release(url, name, partition)
    if json:
        print_json("group release", group=name, partition=partition, deaths_before=deaths)
    else:
        done = f"{deaths} deaths are forgiven" if deaths else "it has no deaths: nothing to do"
        print_text(f"group release: partition {partition} of {name}: {done}")


def repair_group(url: Url, name: GroupName, /, *, json: Json = False) -> int:
    """Rewrite damaged records, so that members serve their partitions again. Epochs never go back."""
    repaired = admin.repair(url, name)
    report.print_repairs(name, repaired, json=json)
    return 0 if repaired.is_whole else 1


def resize_group(url: Url, name: GroupName, partitions: Whole, /, *, json: Json = False) -> None:
    """Give an empty group another number of partitions. Epochs never go back.

    Parameters
    ----------
    partitions
        New number of partitions. From now on, the members of the group pass this number.
    """
    before = admin.resize(url, name, partitions).record.partitions
    if json:
        print_json("group resize", group=name, before=before, after=partitions)
    else:
        print_text(f"group resize: {name} has {partitions} partitions now; it had {before}")


def plan_group(
    url: Url,
    name: GroupName,
    /,
    *,
    edits: Edits = Edits(),  # noqa: B008 - a frozen value
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """Preview the moves if members join, leave or drain. Exit code 0: nothing, 2: changes, 1: an error.

    Parameters
    ----------
    output
        Save the plan, for `apportion group apply`.
    """
    reads = (file_at(edits.to),)
    file = None if output is None else OutputFile(path=output, kind=FileKind.GROUP_PLAN, force=force, reads=reads)
    if file is not None:
        file.check()
    with Progress("planning", is_shown=not json):
        change = admin.plan(url, name, edits.applied_to)
    if file is not None:
        file.write(encode_plan(change.plan))
    (print_change_json if json else print_change)(change)
    return PENDING if change.moves else 0


def apply_group(url: Url, name: GroupName, plan: Path, /, *, wait: bool = True, json: Json = False) -> None:
    """Apply a saved plan: drain and forget members, all at once; refuse if the group has changed since.

    Parameters
    ----------
    plan
        Plan saved by `apportion group plan -o`.
    wait
        Wait until drained members own nothing. The requests also hold without the wait.
    """
    saved = read_plan(plan)
    if saved.basis.group != name:
        raise InvalidInput(
            "plan file", str(plan), f"a plan for group {name}", f"The plan is for group {saved.basis.group}."
        )
    with Progress("applying", is_shown=not json):
        applied = admin.apply(url, saved)
    if applied.is_new and not json:
        print_change(applied.change)
    left = {each: _left(url, applied.found, each, wait=wait, json=json) for each in applied.plan.drains}
    (print_applied_json if json else print_applied)(applied, left)


def run_group(url: Url, name: GroupName, /, *command: Command, joining: Joining, json: bool = False) -> None:
    """Join a group, and run a command for each owned partition. SIGTERM or Ctrl-C: hand all over and leave.

    Parameters
    ----------
    command
        The command, after --, with its arguments.
    json
        Report as JSON, one object per line; reports go to standard error.
    """
    run(url, name, command, joining, json=json)


def _left(url: str, before: Found, member: str, *, wait: bool, json: bool) -> int:
    """Return the number of partitions that a drained member still owns; with `wait`, print each number."""
    last = len(before.owned_by(member))
    _print_left(before, member, last, is_shown=wait and not json)
    for now, left in admin.left_over(url, before.name, member) if wait else ():
        if left != last:
            _print_left(now, member, left, is_shown=not json)
        last = left
    return last


def _print_left(found: Found, member: str, left: int, *, is_shown: bool) -> None:
    if is_shown:
        print(wrapped(f"{member} owns {left} of {found.record.partitions} partitions", sys.stdout), flush=True)
        for remark in remarks(found) if left else ():
            print(wrapped(f"note: {remark}", sys.stdout), flush=True)
