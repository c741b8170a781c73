"""Plan: the moves that a change of members would cause, computed by the controller's own function before the change.

Promises: a plan starts from the target in the store, and asks the balancer as the controller will.
Refuses: to count a member that comes back. Static members that are away count for as long as the target names them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from apportion.balance.solver.fair_loads import fair_shares
from apportion.console.options.edits import Edits, ids_in
from apportion.console.print.output import print_columns, print_json
from apportion.console.print.plan_report import print_transfers
from apportion.errors import InvalidInput
from apportion.groups.admin.found import Found
from apportion.groups.controller.controller import assigned
from apportion.groups.view.records import Target
from apportion.model.topology import Topology

Owners = tuple[str | None, ...]


# Without slots: a cached property keeps its value in the object's own dictionary.
@dataclass(frozen=True, kw_only=True)
class TargetChange:
    """The change from the target of a group to the one that its controller would write."""

    group: str
    words: str
    is_eager: bool
    before: Owners
    after: Owners
    nodes_before: Topology
    nodes_after: Topology

    @cached_property
    def moves(self) -> tuple[tuple[int, str | None, str | None], ...]:
        """Each partition with a change of owner, and the owners before and after."""
        pairs = enumerate(zip(self.before, self.after, strict=True))
        return tuple((each, old, new) for each, (old, new) in pairs if old != new)

    @property
    def moved(self) -> int:
        """The number of partitions that go from one member to another."""
        return sum(None not in (old, new) for _, old, new in self.moves)

    @property
    def least(self) -> int:
        """The fewest moves into any assignment that is as even as possible, whichever members have one more.

        Members give the partitions above their share rounded down. As many members as may keep one more give one less
        each.
        """
        total = len(self.after)
        weights = {node.id: node.millionths for node in self.nodes_after if node.weight}
        if not weights:
            return 0
        shares = fair_shares(weights, partitions=total, total=total)
        held = Counter(owner for owner in self.before if owner is not None)
        floors = {each: int(share) for each, share in shares.items()}
        above = sum(max(0, count - floors.get(each, 0)) for each, count in held.items())
        keepers = sum(floors[each] < share and floors[each] < held[each] for each, share in shares.items())
        return above - min(keepers, total - sum(floors.values()))

    @property
    def summary(self) -> str:
        """The moves in one line of text."""
        total = len(self.after)
        proof = "the minimum" if self.moved == self.least else f"at least {self.least} must"
        parts = [f"{self.words} moves {self.moved} of {total} partitions ({self.moved / total:.2%}); {proof}"]
        unowned = sum(owner is None for owner in self.after)
        fresh = sum(old is None for _, old, _ in self.moves)
        parts += [f"{fresh} get a first owner"] if fresh else []
        parts += [f"{unowned} would have no owner"] if unowned else []
        parts += ["eager: every partition pauses"] if self.is_eager and self.moves else []
        return "; ".join(parts)


def change_of(found: Found, edits: Edits) -> TargetChange:
    """Return the change that edits of the members would cause; `InvalidInput` when no target was written yet."""
    return change_to(found, edits.applied_to(members_of(found)), _words(edits))


def change_to(found: Found, after: Topology, words: str) -> TargetChange:
    """Return the change of the target if the members were `after`."""
    target = target_of(found)
    return TargetChange(
        group=found.name,
        words=words,
        is_eager=found.record.mode == "eager",
        before=target.owners,
        after=assigned(found.name, found.record, tuple(after), target),
        nodes_before=members_of(found),
        nodes_after=after,
    )


def target_of(found: Found) -> Target:
    """Return the target of a group; `InvalidInput` when none was written yet."""
    if found.view.target is None:
        hint = f"The first member that joins makes one; look with: apportion group show URL {found.name}"
        raise InvalidInput("target", None, "one that a controller wrote", hint)
    return found.view.target


def members_of(found: Found) -> Topology:
    """Return the members as the controller counts them: draining members weigh 0, static ones may be away."""
    view, named = found.view, set(target_of(found).owners)
    nodes = {each: there.record.node(each, drains=each in view.drains) for each, there in view.members.items()}
    away = {each: record.node(each) for each, (record, _) in view.statics.items() if each in named}
    return Topology((away | nodes).values())


def print_change(change: TargetChange) -> None:
    """Print the effect of a change on each member, the largest transfers first, and last its summary."""
    held, holds = Counter(change.before), Counter(change.after)
    ids = sorted({*change.nodes_before.ids, *change.nodes_after.ids, *filter(None, change.before)})
    rows = [(f"{_mark(change, each)} {each}", _weight(change, each), str(held[each]), str(holds[each])) for each in ids]
    print_columns(("  member", "weight", "partitions before", "after"), rows)
    transfers = Counter((old or "(nobody)", new or "(nobody)") for _, old, new in change.moves)
    ordered = sorted(transfers.items(), key=lambda entry: (-entry[1], entry[0]))
    print_transfers("partitions", [(*pair, str(count)) for pair, count in ordered])
    print()
    print(f"group plan: {change.summary}")


def print_change_json(change: TargetChange) -> None:
    """Print a change as JSON, with every single move."""
    held, holds = Counter(change.before), Counter(change.after)
    ids = sorted({*change.nodes_before.ids, *change.nodes_after.ids, *filter(None, change.before)})
    print_json(
        "group plan",
        group=change.group,
        pending=bool(change.moves),
        partitions=len(change.after),
        moved=change.moved,
        least_moves=change.least,
        summary=change.summary,
        members=[{"member": each, "before": held[each], "after": holds[each]} for each in ids],
        moves=[{"partition": each, "source": old, "target": new} for each, old, new in change.moves],
    )


def _words(edits: Edits) -> str:
    """Return the edits in words, as the beginning of a sentence."""
    said: Mapping[str, list[str]] = {
        "adding": ids_in(edits.add),
        "removing": ids_in(edits.remove),
        "draining": ids_in(edits.drain),
        "re-weighting": [each.rpartition("=")[0] for each in edits.weight or ()],
    }
    words = [f"{verb} {', '.join(ids)}" for verb, ids in said.items() if ids]
    words += ["another topology"] if edits.to is not None else []
    return " and ".join(words) or "no change of members"


def _mark(change: TargetChange, member_id: str) -> str:
    if member_id not in change.nodes_before:
        return "+" if member_id in change.nodes_after else "-"
    if member_id not in change.nodes_after:
        return "-"
    return " " if change.nodes_before[member_id] == change.nodes_after[member_id] else "~"


def _weight(change: TargetChange, member_id: str) -> str:
    sides = (side for side in (change.nodes_before, change.nodes_after) if member_id in side)
    return " -> ".join(dict.fromkeys(f"{side[member_id].weight:g}" for side in sides))
