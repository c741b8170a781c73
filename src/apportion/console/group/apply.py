"""Apply: carries out a saved plan of members, draining some and forgetting others in one commit.

Promises: a plan is applied only to the group that it was made from, else refused before any change. A plan that was
applied is not applied again.
Refuses: acts that nobody can do from outside: to start, to stop, or to re-weigh a process.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from apportion.console.group.plan import TargetChange, change_to
from apportion.console.group.plan_file import Basis, MemberPlan, basis_of
from apportion.errors import PlanRefused, StaleEpoch
from apportion.groups.admin.acts import drain_and_forget
from apportion.groups.admin.found import Found, read
from apportion.model.topology import Node
from apportion.stores.api import CoordinationStore

_MOST_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Acts:
    """The acts to do: members to ask for their partitions, and static members to forget."""

    drains: tuple[str, ...]
    forgets: tuple[str, ...]

    def are_done(self, found: Found) -> bool:
        """Whether all acts were done before, by us or by another operator."""
        view = found.view
        there = {*view.members, *view.statics}
        return there.isdisjoint(self.forgets) and all(each in view.drains for each in self.drains)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of a plan; `is_new` unless all of it was done before."""

    found: Found
    acts: Acts
    is_new: bool


def acts_of(plan: MemberPlan) -> Acts:
    """Return the acts of a plan; `PlanRefused` when a part of it cannot be done from outside."""
    reasons = list(_beyond_us(plan))
    if reasons:
        problem = "it is a what-if, which nobody can carry out from here: " + _some([why for why, _ in reasons])
        error = PlanRefused(problem)
        error.hint = f"Nothing was changed. {'; '.join(dict.fromkeys(what for _, what in reasons))}."
        raise error
    before, after = plan.basis.members, plan.after
    return Acts(
        drains=tuple(each for each in before.ids if each in after and after[each] != before[each]),
        forgets=tuple(each for each in before.ids if each not in after),
    )


async def carry_out(
    store: CoordinationStore, plan: MemberPlan, shown: str, show: Callable[[TargetChange], None]
) -> Applied:
    """Show the moves of a plan, and carry it out; `StaleEpoch` when the group is not the one that it was made from."""
    acts = acts_of(plan)
    while True:
        found = await read(store, plan.basis.group)
        is_same_life = found.view.incarnation == plan.basis.incarnation
        if is_same_life and acts.are_done(found):
            return Applied(found=found, acts=acts, is_new=False)
        _check_unchanged(plan, basis_of(found))
        show(change_to(found, plan.after, plan.words))
        if await drain_and_forget(store, found, drains=acts.drains, forgets=acts.forgets, shown=shown):
            return Applied(found=found, acts=acts, is_new=True)


def told(plan: MemberPlan, applied: Applied, left: Mapping[str, int]) -> str:
    """Return the acts done in words, with the number of partitions that drained members still own."""
    asked = {each: f"is asked for {count} partition" + "s" * (count != 1) for each, count in left.items()}
    done = [f"{each} {words if left[each] else 'owns nothing now'}" for each, words in asked.items()]
    done += [f"{plan.basis.group} waits for {each} no longer" for each in applied.acts.forgets]
    words = ", ".join(done) or f"nothing to do: {plan.summary}"
    return words if applied.is_new or not done else f"nothing to do, all was done before: {words}"


def _check_unchanged(plan: MemberPlan, now: Basis) -> None:
    basis = plan.basis
    changes = basis.changes_to(now)
    if changes:
        error = StaleEpoch(seen=basis.target, current=now.target)
        error.problem = f"made from target {basis.target} of group {basis.group}, but since then {_some(changes)}."
        error.hint = f"Nothing was changed. Plan anew: apportion group plan URL {basis.group} ... -o FILE"
        raise error


def _beyond_us(plan: MemberPlan) -> Iterator[tuple[str, str]]:
    """Yield the parts of a plan that only the processes can do, and the way to have them done."""
    for each in sorted({*plan.basis.members.ids, *plan.after.ids}):
        reason = _reason(plan, each)
        if reason is not None:
            yield reason


def _reason(plan: MemberPlan, member_id: str) -> tuple[str, str] | None:
    before, after, presence = plan.basis.members, plan.after, plan.basis.presence.get(member_id)
    if presence is None:
        return f"{member_id} joins by being started", "Start what is to join, and it gets what was planned"
    if member_id not in after:
        words = f"{member_id} is there, and leaves by being stopped"
        return None if presence == "away" else (words, "Stop what is to leave, or plan with --drain")
    if before[member_id] == after[member_id]:
        return None
    if not _is_drain(before[member_id], after[member_id]):
        return f"{member_id} says its own weight and zone", "Start what is to weigh more or less anew, with its weight"
    words = f"{member_id} is away, and cannot be asked"
    return (words, "Plan to do without it with --remove") if presence == "away" else None


def _is_drain(before: Node, after: Node) -> bool:
    return after.weight == 0 < before.weight and before.zone == after.zone


def _some(words: list[str]) -> str:
    more = len(words) - _MOST_SHOWN
    return ", ".join(words[:_MOST_SHOWN]) + (f", ... {more} more" if more > 0 else "")
