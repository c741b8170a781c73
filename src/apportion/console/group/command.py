"""`apportion group`: the commands with which an operator reads and changes a group, without being a member of it."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from apportion.console.group import report
from apportion.console.group.apply import Applied, acts_of, carry_out, told
from apportion.console.group.plan import TargetChange, change_of, print_change, print_change_json
from apportion.console.group.plan_file import MemberPlan, read_plan, save_plan
from apportion.console.group.repair import print_repairs, repair
from apportion.console.group.run import Joining, run
from apportion.console.options.edits import Edits
from apportion.console.plan import PENDING
from apportion.console.print.output import print_json
from apportion.errors import InvalidInput
from apportion.groups.admin import acts
from apportion.groups.admin.alive import looked_at
from apportion.groups.admin.found import Found, opened, read, read_all, shown_url
from apportion.groups.admin.history import HistoryLine
from apportion.groups.admin.standing import remarks, standing
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import administration

Reply = TypeVar("Reply")
Command = Annotated[str, Parameter(allow_leading_hyphen=True)]


def ls_group(url: str, /, *, json: bool = False) -> None:
    """List the groups of a store.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    json
        Print one JSON object instead.
    """

    report.print_groups(shown_url(url), _asked(url, read_all), json=json)


def show_group(
    url: str, name: str, /, *, every: Annotated[bool, Parameter(name="--all")] = False, json: bool = False
) -> None:
    """Show members, target, and what is not as it should be.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    every
        Show every partition, not only those that are not as they should be.
    json
        Print one JSON object instead, with every partition.
    """
    found = _asked(url, lambda store: looked_at(store, administration(url), name))
    if json:
        report.print_group_json(found)
    else:
        report.print_group(found, every=every)


def watch_group(url: str, name: str, /, *, json: bool = False) -> None:
    """Tell each change as it happens: who lost what to whom, and why. Ctrl-C ends it.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    json
        Print one JSON object a line instead.
    """

    with suppress(KeyboardInterrupt):  # how it is ended
        _asked(url, lambda store: _tell(store, name, json=json))


def drain_group(url: str, name: str, member: str, /, *, wait: bool = True, json: bool = False) -> None:
    """Ask a member for all its partitions, and wait until it has none. It stays, and gets none until it starts anew.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    member
        Id of the member.
    wait
        Wait until it owns nothing; a request that is not waited for stands all the same.
    json
        Print one JSON object instead.
    """

    left = _asked(url, lambda store: _drained(store, url, name, member, wait=wait, json=json))
    if json:
        print_json("group drain", group=name, member=member, owned=left)
    else:
        print(f"group drain: {member} " + (f"is asked for {left} partitions" if not wait else "owns nothing now"))


def explain_group(url: str, name: str, partition: int, /, *, json: bool = False) -> None:
    """Say who owns a partition, which step it waits for, and how it came there.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    partition
        Number of the partition.
    json
        Print one JSON object instead.
    """

    found, history = _asked(url, lambda store: _explained(store, name, partition))
    explain = report.explanation_json if json else report.print_explanation
    explain(found, standing(found, partition), history)


def forget_group(url: str, name: str, member: str, /, *, json: bool = False) -> None:
    """Forget a static member that will not come back, so that others get its partitions at once.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    member
        Id of the member.
    json
        Print one JSON object instead.
    """

    _asked(url, lambda store: acts.forget(store, name, member, shown_url(url)))
    if json:
        print_json("group forget", group=name, member=member)
    else:
        print(f"group forget: {name} waits for {member} no longer")


def release_group(url: str, name: str, partition: int, /, *, json: bool = False) -> None:
    """Let the next owner take a partition at once that is quarantined, or that waits because its owners died.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    partition
        Number of the partition.
    json
        Print one JSON object instead.
    """

    deaths = _asked(url, lambda store: acts.release(store, name, partition, shown_url(url)))
    if json:
        print_json("group release", group=name, partition=partition, deaths_before=deaths)
    else:
        done = f"{deaths} deaths are forgiven" if deaths else "no session ended under it: nothing to do"
        print(f"group release: partition {partition} of {name}: {done}")


def repair_group(url: str, name: str, /, *, json: bool = False) -> int:
    """Write damaged records anew, so that what they cost is served again. Epochs go on, and never back.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    json
        Print one JSON object instead.
    """

    done, is_whole = _asked(url, lambda store: repair(store, name, shown_url(url)))
    print_repairs(name, done, is_whole=is_whole, json=json)
    return 0 if is_whole else 1


def resize_group(url: str, name: str, partitions: int, /, *, json: bool = False) -> None:
    """Give a group that nobody is in another number of partitions. Epochs go on, and never back.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    partitions
        How many it is to have; its members say this number from now on.
    json
        Print one JSON object instead.
    """

    before = _asked(url, lambda store: acts.resize(store, name, partitions, shown_url(url))).record.partitions
    if json:
        print_json("group resize", group=name, before=before, after=partitions)
    else:
        print(f"group resize: {name} has {partitions} partitions now; it had {before}")


def plan_group(
    url: str,
    name: str,
    /,
    *,
    edits: Edits = Edits(),  # noqa: B008 - a frozen value
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    json: bool = False,
) -> int:
    """Show what members that join, leave or drain would move. Exit code 0: nothing, 2: changes, 1: an error.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    output
        Save the plan, for `apportion group apply`.
    json
        Print one JSON object instead.
    """
    found = _asked(url, lambda store: read(store, name))
    change = change_of(found, edits)
    if output is not None:
        save_plan(found, change, output)
    (print_change_json if json else print_change)(change)
    return PENDING if change.moves else 0


def apply_group(url: str, name: str, plan: Path, /, *, wait: bool = True, json: bool = False) -> None:
    """Carry a saved plan out: drain and forget members, all at once; refuse if the group has changed since.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    plan
        Plan saved by `apportion group plan -o`.
    wait
        Wait until members that are drained own nothing; requests that are not waited for stand all the same.
    json
        Print one JSON object instead.
    """
    saved = read_plan(plan)
    if saved.basis.group != name:
        raise InvalidInput("plan file", str(plan), f"a plan of group {name}", f"It is of group {saved.basis.group}.")
    acts_of(saved)
    applied, left = _asked(url, lambda store: _applied(store, url, saved, wait=wait, json=json))
    if json:
        drained = [{"member": member, "owned": owned} for member, owned in left.items()]
        members = {"done_before": not applied.is_new, "drained": drained, "forgotten": list(applied.acts.forgets)}
        print_json("group apply", group=name, summary=saved.summary, **members)
    else:
        print(f"group apply: {told(saved, applied, left)}")


def run_group(
    url: str,
    name: str,
    /,
    *command: Command,
    joining: Joining,
    json: bool = False,
) -> None:
    """Join, and run a command for each partition that is owned. SIGTERM or Ctrl-C: hand all over and leave.

    Parameters
    ----------
    url
        URL of the store, such as sqlite:///work.db
    name
        Name of the group.
    command
        The command, after --, with its arguments.
    json
        Report as JSON, an object a line; reports go to standard error.
    """
    run(url, name, command, joining, json=json)


def _asked(url: str, ask: Callable[[CoordinationStore], Coroutine[None, None, Reply]]) -> Reply:
    """Connect to a store, and return the answer of a call on it."""

    async def _answer() -> Reply:
        async with opened(url) as store:
            return await ask(store)

    return asyncio.run(_answer())


async def _tell(store: CoordinationStore, name: str, *, json: bool) -> None:
    async for line in acts.told(store, name):
        report.print_line(name, line, json=json)


async def _drained(store: CoordinationStore, url: str, name: str, member: str, *, wait: bool, json: bool) -> int:
    """Ask a member for its partitions, print the number that it still owns, and return that number."""
    found = await acts.drain(store, name, member, shown_url(url))
    return await _left(store, found, member, wait=wait, json=json)


async def _applied(
    store: CoordinationStore, url: str, saved: MemberPlan, *, wait: bool, json: bool
) -> tuple[Applied, dict[str, int]]:
    """Carry a plan out; return the result, and the number of partitions that each drained member still owns."""
    applied = await carry_out(store, saved, shown_url(url), _unshown if json else print_change)
    drains = applied.acts.drains
    return applied, {each: await _left(store, applied.found, each, wait=wait, json=json) for each in drains}


def _unshown(_: TargetChange) -> None:
    """Show nothing: one JSON object is all."""


async def _left(store: CoordinationStore, found: Found, member: str, *, wait: bool, json: bool) -> int:
    """Return the number of partitions that a drained member still owns; with `wait`, print each number."""
    left = len(found.owned_by(member))
    if not wait:
        return left
    async for now, left in acts.left_over(store, found, member):
        if not json:
            print(f"{member} owns {left} of {found.record.partitions} partitions", flush=True)
            for remark in remarks(now) if left else ():
                print(f"note: {remark}", flush=True)
    return left


async def _explained(store: CoordinationStore, name: str, partition: int) -> tuple[Found, tuple[HistoryLine, ...]]:
    found = await read(store, name)
    return found, await acts.history(store, found, found.checked_partition(partition))
