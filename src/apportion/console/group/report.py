"""Report: the output of the group commands, with a group on one screen, or as JSON with every partition."""

from collections import Counter
from collections.abc import Mapping, Sequence

from apportion.console.print.output import print_columns, print_json, print_json_line, print_text
from apportion.groups.admin import Explained, Found, HistoryLine, Repaired, remarks
from apportion.groups.admin.standing import standing, state_of
from apportion.groups.crash_loops import ended

MAX_PARTITIONS_SHOWN = 20
MAX_LINES_SHOWN = 10


def print_groups(store: str, groups: Sequence[Found], *, json: bool) -> None:
    """Print a line per group."""
    if json:
        members = ("partitions", "mode", "balancer")
        rows = [
            {"group": each.name, **{name: getattr(each.record, name) for name in members}}
            | {"members": len(each.view.members), "settled": each.is_settled}
            for each in groups
        ]
        print_json("group ls", store=store, groups=rows)
        return
    if groups:
        headings = ("group", "partitions", "members", "settled")
        print_columns(headings, [(*_cells_of_group(each), _yes(is_so=each.is_settled)) for each in groups])
        print()
    for each in groups:
        if not each.is_whole:
            print_text(f"note: the history of {each.name} was not read to its end in time")
    print_text(f"group ls: {store}: {_count(len(groups), 'group')}")


def print_group(found: Found, *, every: bool) -> None:
    """Print a group: its members, partitions that are not as they should be (or all), and its summary."""
    view = found.view
    if view.members or view.statics:
        headings = ("member", "weight", "zone", "owns", "should own", "state")
        print_columns(headings, [_cells_of_member(each) for each in _members(found)])
        print()
    shown = range(found.record.partitions) if every else _notable(found)
    if shown:
        rows = [_cells_of_partition(found, each) for each in (shown if every else shown[:MAX_PARTITIONS_SHOWN])]
        print_columns(("partition", "owner", "epoch", "deaths", "target", "state"), rows)
        if len(shown) > len(rows):
            print_text(f"and {len(shown) - len(rows)} more; --all shows every partition")
        print()
    for damage in found.damaged:
        print_text(f"damaged: {damage.key}: {damage.problem}")
    if found.damaged:
        print_text(f"Repair them with: apportion group repair URL {found.name}")
    for remark in remarks(found):
        print_text(f"note: {remark}")
    print_text(f"group show: {summary(found)}")


def summary(found: Found) -> str:
    """Return the state of a group in one line."""
    view, states = found.view, Counter(state_of(found, each) for each in range(found.record.partitions))
    parts = [
        f"{found.name} ({found.record.mode}): {_count(found.record.partitions, 'partition')}",
        _count(len(view.members), "member"),
        "no controller" if view.leading is None else f"controller {_leader(found)} (term {view.leading.term})",
        "no target" if view.target is None else f"target {view.target.generation}",
        *(f"{states[each]} {each}" for each in ("unowned", "orphaned", "crash-looping", "quarantined") if states[each]),
        *([f"{len(found.damaged)} damaged"] if found.damaged else ()),
    ]
    unsettled = len(found.unsettled)
    if found.unseen:
        return ", ".join([*parts, "no renewal was seen"])
    return ", ".join([*parts, "settled" if found.is_settled else f"{unsettled} not settled"])


def print_group_json(found: Found) -> None:
    """Print a group as JSON, with every partition."""
    view, target = found.view, found.view.target
    leading = None if view.leading is None else {"member": _leader(found), "term": view.leading.term}
    print_json(
        "group show",
        group=found.name,
        partitions=found.record.partitions,
        mode=found.record.mode,
        balancer=found.record.balancer,
        settled=found.is_settled,
        unsettled=len(found.unsettled),
        revision=view.revision,
        controller=leading,
        target=None
        if target is None
        else {"generation": target.generation, "paused": target.is_paused, "final": bool(target.digest)},
        damaged=[{"key": each.key, "problem": each.problem} for each in found.damaged],
        unseen=list(found.unseen),
        remarks=list(remarks(found)),
        members=_members(found),
        owners=[partition_member(found, each) for each in range(found.record.partitions)],
    )


def partition_member(found: Found, partition: int) -> dict[str, object]:
    """Return the facts of a partition as an object of JSON."""
    ownership, stands = found.view.owned(partition).ownership, standing(found, partition)
    return {
        "partition": partition,
        "owner": ownership.owner,
        "session": ownership.session,
        "epoch": ownership.epoch,
        "deaths": len(ended(found.view, partition)),
        "target": stands.wanted,
        "state": stands.state,
        "settled": not stands.step,
        "step": stands.step,
    }


def print_explanation(explained: Explained) -> None:
    """Print the standing of a partition, the step that it waits for, and its history."""
    found, stands, history = explained.found, explained.standing, explained.history
    ownership, target, leading = found.view.owned(stands.partition).ownership, found.view.target, found.view.leading
    deaths = len(ended(found.view, stands.partition))
    written = "" if target is None else f" (generation {target.generation})"
    facts = {
        "owner": f"{ownership.owner or 'nobody'}, epoch {ownership.epoch}, deaths {deaths}",
        "target": f"{stands.wanted or 'nobody'}{written}",
        "controller": "nobody" if leading is None else f"{_leader(found)} (term {leading.term})",
        "state": stands.state,
        "step": stands.step or "none: it is with its intended owner",
    }
    facts |= {"advice": stands.advice} if stands.advice else {}
    for name, words in facts.items():
        print_text(f"{name:<12}{words}")
    if history:
        print_text("history, as far as the store keeps it:")
    if len(history) > MAX_LINES_SHOWN:
        print_text(f"  {len(history) - MAX_LINES_SHOWN} older changes, then")
    for line in history[-MAX_LINES_SHOWN:]:
        print_text(f"  revision {line.revision}: {line.source or 'nobody'} -> {line.target or 'nobody'}: {line.why}")


def explanation_json(explained: Explained) -> None:
    """Print the explanation of a partition as JSON."""
    found, stands = explained.found, explained.standing
    names = ("revision", "source", "target", "why")
    lines = [{name: getattr(each, name) for name in names} for each in explained.history]
    one = partition_member(found, stands.partition)
    print_json("group explain", group=found.name, **one, advice=stands.advice, history=lines)


def print_repairs(name: str, repaired: Repaired, *, json: bool) -> None:
    """Print the repairs, one per record, and a note when history was left unread."""
    repairs, is_whole = repaired.repairs, repaired.is_whole
    if json:
        rows = [{"key": each.key, "problem": each.problem, "done": each.deed} for each in repairs]
        print_json("group repair", group=name, repaired=rows, left=repaired.left, history_read=is_whole)
        return
    for each in repairs:
        print_text(f"{each.key}: {each.problem}\n  {each.deed}")
    if repaired.left:
        print_text(
            f"group/{name}: {repaired.left}\n  the next member that joins knows the settings, and repairs the record"
        )
    words = f"{_count(len(repairs), 'record')} repaired" if repairs or repaired.left else "no record is damaged"
    unread = "; the history was not read to its end in time: run the command again, nearer to the store"
    print_text(f"group repair: {name}: {words}{'' if is_whole else unread}")


def print_line(name: str, line: HistoryLine, *, json: bool) -> None:
    """Print one change of a group, at once; as JSON, one object per line."""
    if not json:
        print(f"{line.revision:>6}  {line.text}", flush=True)
        return
    members = {"revision": line.revision, "kind": line.kind, "text": line.text}
    if line.kind == "move":
        members |= {"partitions": line.partitions, "source": line.source, "target": line.target, "why": line.why}
    print_json_line("group watch", {"group": name, **members})


def _notable(found: Found) -> tuple[int, ...]:
    """Return the partitions that are not settled, have no owner, or have seen an owner die."""
    ownerships = ((each, found.view.owned(each).ownership) for each in range(found.record.partitions))
    bad = {each for each, ownership in ownerships if ended(found.view, each) or ownership.owner is None}
    return tuple(sorted({*found.unsettled, *bad}))


def _cells_of_group(found: Found) -> tuple[str, ...]:
    return found.name, str(found.record.partitions), str(len(found.view.members))


def _cells_of_member(facts: Mapping[str, object]) -> tuple[str, ...]:
    names = ("zone", "owned", "wanted", "state")
    return (str(facts["member"]), f"{facts['weight']:g}", *(str(facts[name]) for name in names))


def _members(found: Found) -> list[dict[str, object]]:
    """Return the members that are there, and static members that are away, as objects of JSON."""
    view, (owned, wanted) = found.view, found.loads
    members: list[dict[str, object]] = []
    for each in sorted({*view.members, *view.statics}):
        there = view.members.get(each)
        record = view.statics[each][0] if there is None else there.record
        facts: dict[str, object] = {
            "member": each,
            "session": None if there is None else there.session,
            "weight": record.weight,
            "zone": "/".join(record.zone),
            "labels": record.labels,
            "static": each in view.statics,
            "owned": owned[each],
            "wanted": wanted[each],
            "state": _state_of_member(found, each),
        }
        members.append(facts)
    return members


def _state_of_member(found: Found, member: str) -> str:
    view = found.view
    if view.keys.member(member) in view.damaged:
        return "damaged"
    return "away" if member not in view.members else "drains" if member in view.drains else "there"


def _cells_of_partition(found: Found, partition: int) -> tuple[str, ...]:
    ownership = found.view.owned(partition).ownership
    stands = standing(found, partition)
    state = (
        stands.state
        if not stands.step or stands.state in ("crash-looping", "damaged", "quarantined")
        else f"{stands.state}, not settled"
    )
    owner, wanted = ownership.owner or "nobody", stands.wanted or "nobody"
    return str(partition), owner, str(ownership.epoch), str(len(ended(found.view, partition))), wanted, state


def _leader(found: Found) -> str:
    return "" if found.view.leading is None else found.view.leading.member_id


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _yes(*, is_so: bool) -> str:
    return "yes" if is_so else "NO"
