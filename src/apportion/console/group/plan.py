"""Plan: reads a saved plan for the members of a group, and prints the moves of a change and the acts of a plan."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from apportion.console.files.io import read_bounded
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.placement_plan_report import print_transfers
from apportion.errors import BadSnapshot
from apportion.groups.admin import Applied, MemberPlan, TargetChange, decode_plan
from apportion.model import codec


def read_plan(path: Path) -> MemberPlan:
    """Return a saved plan; `BadSnapshot` for any other file."""
    data = read_bounded(path, codec.MAX_BYTES, what="plan file")
    try:
        return decode_plan(data)
    except BadSnapshot as error:
        error.within(str(path))
        if error.field == "snapshot kind":
            taker = "; for this file, use: apportion apply" if data.startswith(b'{"apportion":"plan"') else ""
            error.hint = f"Pass a file saved by apportion group plan -o{taker}"
        raise


def print_change(change: TargetChange) -> None:
    """Print the effect of a change on each member, the largest transfers first, and its summary at the end."""
    held, holds = Counter(change.before), Counter(change.after)
    ids = sorted({*change.basis.members.ids, *change.members.ids, *filter(None, change.before)})
    rows = [(f"{_mark(change, each)} {each}", _weight(change, each), str(held[each]), str(holds[each])) for each in ids]
    print_columns(("  member", "weight", "partitions before", "after"), rows)
    transfers = Counter((old or "(nobody)", new or "(nobody)") for _, old, new in change.moves)
    ordered = sorted(transfers.items(), key=lambda entry: (-entry[1], entry[0]))
    print_transfers("partitions", [(*pair, str(count)) for pair, count in ordered])
    print()
    for each in change.plan.forgets:
        if change.basis.presence.get(each) == "away":
            print_text(f"note: to forget {each} cannot be undone; if it comes back, it joins as a new member")
    print_text(f"group plan: {change.summary}")


def print_change_json(change: TargetChange) -> None:
    """Print a change as JSON, with every single move."""
    held, holds = Counter(change.before), Counter(change.after)
    ids = sorted({*change.basis.members.ids, *change.members.ids, *filter(None, change.before)})
    print_json(
        "group plan",
        group=change.basis.group,
        pending=bool(change.moves),
        partitions=len(change.after),
        moved=change.moved,
        least_moves=change.least,
        summary=change.summary,
        members=[{"member": each, "before": held[each], "after": holds[each]} for each in ids],
        moves=[{"partition": each, "source": old, "target": new} for each, old, new in change.moves],
    )


def print_applied(applied: Applied, left: Mapping[str, int]) -> None:
    """Print the acts of a plan, with the number of partitions that drained members still own."""
    asked = {each: f"is asked for {count} partition" + "s" * (count != 1) for each, count in left.items()}
    done = [f"{each} {words if left[each] else 'owns nothing now'}" for each, words in asked.items()]
    group = applied.plan.basis.group
    done += [f"{group} no longer waits for {each}, and this cannot be undone" for each in applied.plan.forgets]
    words = ", ".join(done) or f"nothing to do: {applied.plan.summary}"
    before = "" if applied.is_new or not done else "nothing to do, because all was done before: "
    print_text(f"group apply: {before}{words}")


def print_applied_json(applied: Applied, left: Mapping[str, int]) -> None:
    """Print the acts of a plan as JSON."""
    drained = [{"member": member, "owned": owned} for member, owned in left.items()]
    members = {"done_before": not applied.is_new, "drained": drained, "forgotten": list(applied.plan.forgets)}
    print_json("group apply", group=applied.plan.basis.group, summary=applied.plan.summary, **members)


def _mark(change: TargetChange, member_id: str) -> str:
    if member_id not in change.basis.members:
        return "+" if member_id in change.members else "-"
    if member_id not in change.members:
        return "-"
    return " " if change.basis.members[member_id] == change.members[member_id] else "~"


def _weight(change: TargetChange, member_id: str) -> str:
    sides = (side for side in (change.basis.members, change.members) if member_id in side)
    return " -> ".join(dict.fromkeys(f"{side[member_id].weight:g}" for side in sides))
