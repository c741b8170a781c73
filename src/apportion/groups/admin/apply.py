"""Apply: carries out a saved plan of members, draining some and forgetting others in one commit.

Promises: a plan is applied only to the group state that it was made from. In any other state it is refused before any
change. A plan that was applied is not applied again.
Refuses: acts that need the process of the member: its start, its stop, or a change of its weight.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from apportion.errors import PlanRefused, StaleEpoch
from apportion.errors.brief import brief
from apportion.groups.admin.acts import drain_and_forget
from apportion.groups.admin.found import Found, read
from apportion.groups.admin.member_plan import Basis, MemberPlan
from apportion.groups.admin.plan import TargetChange, basis_of, change_to
from apportion.stores.api import CoordinationStore

_MOST_SHOWN = 8


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A plan that was carried out, and the group as it was read before; `is_new` is false if nothing was left to do."""

    plan: MemberPlan
    found: Found
    is_new: bool

    @property
    def change(self) -> TargetChange:
        """The moves that the plan causes. Costs one run of the balancer."""
        return change_to(self.found, self.plan.after, self.plan.words)


def check_possible(plan: MemberPlan) -> None:
    """Raise `PlanRefused` when a part of a plan cannot be done from outside."""
    reasons = list(_beyond_us(plan))
    if reasons:
        problem = "it is a what-if that no command can carry out: " + _some([why for why, _ in reasons])
        error = PlanRefused(problem)
        error.hint = f"Nothing was changed. {'; '.join(dict.fromkeys(what for _, what in reasons))}."
        raise error


async def carry_out(store: CoordinationStore, plan: MemberPlan, shown: str) -> Applied:
    """Carry a plan out, in one commit; `StaleEpoch` when the group is not the one that the plan was made from."""
    check_possible(plan)
    while True:
        found = await read(store, plan.basis.group)
        if found.view.incarnation == plan.basis.incarnation and _is_done(plan, found):
            return Applied(plan=plan, found=found, is_new=False)
        _check_unchanged(plan, basis_of(found))
        if await drain_and_forget(store, found, drains=plan.drains, forgets=plan.forgets, shown=shown):
            return Applied(plan=plan, found=found, is_new=True)


def _is_done(plan: MemberPlan, found: Found) -> bool:
    """Whether all acts were done before, by us or by another operator."""
    there = {*found.view.members, *found.view.statics}
    return there.isdisjoint(plan.forgets) and all(each in found.view.drains for each in plan.drains)


def _check_unchanged(plan: MemberPlan, now: Basis) -> None:
    basis = plan.basis
    changes = basis.changes_to(now)
    if changes:
        error = StaleEpoch(seen=basis.target, current=now.target)
        error.problem = f"made from target {basis.target} of group {basis.group}, but since then {_some(changes)}."
        error.hint = f"Nothing was changed. Plan again: apportion group plan URL {basis.group} ... -o FILE"
        raise error


def _beyond_us(plan: MemberPlan) -> Iterator[tuple[str, str]]:
    """Yield the parts of a plan that only the processes can do, each with the next step for the operator."""
    for each in sorted({*plan.basis.members.ids, *plan.after.ids}):
        reason = _reason(plan, each)
        if reason is not None:
            yield reason


def _reason(plan: MemberPlan, member_id: str) -> tuple[str, str] | None:
    before, after, presence = plan.basis.members, plan.after, plan.basis.presence.get(member_id)
    if presence is None:
        return (
            f"{member_id} joins only when its process starts",
            "Start the new member, and it gets the planned partitions",
        )
    if member_id not in after:
        words = f"{member_id} leaves only when its process stops"
        return None if presence == "away" else (words, "Stop that member, or plan with --drain")
    if before[member_id] == after[member_id]:
        return None
    old, new = before[member_id], after[member_id]
    if old.zone != new.zone or not new.weight == 0 < old.weight:
        return f"{member_id} sets its own weight and zone", "Restart that member with its new weight"
    words = f"{member_id} is away and gets no request"
    return (words, "Plan its removal with --remove") if presence == "away" else None


def _some(words: list[str]) -> str:
    more = len(words) - _MOST_SHOWN
    return ", ".join(words[:_MOST_SHOWN]) + (f", ... {more} more" if more > 0 else "")
