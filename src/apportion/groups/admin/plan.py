"""Plan: the moves that a change of members would cause, computed by the controller's own function before the change.

Promises: a plan starts from the target in the store, and asks the balancer as the controller will.
Refuses: to expect that an absent member comes back. An absent static member counts only while the target names it.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from apportion.balance.api import Owners
from apportion.balance.solver.fair_loads import fair_shares
from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.groups.admin.found import Found
from apportion.groups.admin.member_plan import Basis, MemberPlan
from apportion.groups.controller.controller import assigned
from apportion.groups.view.records import Target
from apportion.model.topology import Topology


# Without slots: a cached property keeps its value in the object's own dictionary.
@brief
@dataclass(frozen=True, kw_only=True)
class TargetChange:
    """The change from the target of a group to the target that its controller would write, and the new members.

    `before` and `after` are the owners of the partitions, by number. `plan` can be saved and applied.
    """

    basis: Basis
    words: str
    is_eager: bool
    before: Owners
    after: Owners
    members: Topology

    @property
    def plan(self) -> MemberPlan:
        """The plan of the members. It is carried out only while the group is the same as when it was made."""
        return MemberPlan(basis=self.basis, after=self.members, words=self.words, summary=self.summary)

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
        """The fewest moves to an assignment that is as even as possible.

        Each member gives away the partitions above its share rounded down. Rounding leaves some partitions over. For
        each of these, one member keeps one partition more. A member that holds more than its rounded share comes first,
        because that saves a move.
        """
        total = len(self.after)
        weights = {node.id: node.millionths for node in self.members if node.weight}
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
        proof = "the minimum" if self.moved == self.least else f"at least {self.least} must move"
        parts = [f"{self.words} moves {self.moved} of {total} partitions ({self.moved / total:.2%}); {proof}"]
        unowned = sum(owner is None for owner in self.after)
        fresh = sum(old is None for _, old, _ in self.moves)
        parts += [f"{fresh} get a first owner"] if fresh else []
        parts += [f"{unowned} would have no owner"] if unowned else []
        parts += ["eager: every partition pauses"] if self.is_eager and self.moves else []
        return "; ".join(parts)


def change_to(found: Found, members: Topology, words: str = "") -> TargetChange:
    """Return the change of the target for other members. Without `words`, the change of the members describes it."""
    target, basis = target_of(found), basis_of(found)
    return TargetChange(
        basis=basis,
        words=words or _words(basis.members, members),
        is_eager=found.record.mode == "eager",
        before=target.owners,
        after=assigned(found.name, found.record, tuple(members), target),
        members=members,
    )


def basis_of(found: Found) -> Basis:
    """Return the basis of a plan that is made now."""
    target, members = target_of(found), members_of(found)
    there = {each: "drains" if each in found.view.drains else "there" for each in found.view.members}
    return Basis(
        group=found.name,
        incarnation=found.view.incarnation,
        generation=target.generation,
        digest=target.digest,
        members=members,
        presence={each: there.get(each, "away") for each in members.ids},
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


def _words(before: Topology, after: Topology) -> str:
    both = [(before[each], after[each]) for each in before.ids if each in after]
    weighed = [(new.id, not new.weight) for old, new in both if old.weight != new.weight]
    said = {
        "adding": [each for each in after.ids if each not in before],
        "removing": [each for each in before.ids if each not in after],
        "draining": [each for each, is_drain in weighed if is_drain],
        "re-weighting": [each for each, is_drain in weighed if not is_drain],
        "re-zoning": [new.id for old, new in both if old.zone != new.zone],
    }
    words = [f"{verb} {', '.join(ids)}" for verb, ids in said.items() if ids]
    return " and ".join(words) or "no change of members"
