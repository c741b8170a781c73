"""Controller: one member decides the wanted owner of each partition and writes the target; it moves nothing itself.

Promises: a target is written only when its inputs have changed, and under the term of its writer. A wrong, late or
second controller costs moves, never two owners: see `handover`.
Refuses: to wait and to read clocks. Members become candidates in the order of their ids, so that few are candidates at
once.
"""

import json
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace

from apportion.balance import catalog
from apportion.balance.api import GroupView, Owners
from apportion.errors import ApportionError, InvalidInput
from apportion.groups.controller.arrivals import Arrivals
from apportion.groups.controller.isolation import isolated
from apportion.groups.opening import Options
from apportion.groups.view.records import GroupRecord, MemberRecord, Target, encoded_target, led_by
from apportion.groups.view.view import View
from apportion.model.assignment import Assignment
from apportion.model.epoch import content_digest
from apportion.model.rows import NOBODY, Rows
from apportion.model.topology import Node, Topology
from apportion.runtime.events import Observer, Unplanned
from apportion.stores.api import Compare, Put, Unchanged

TURN_SECONDS = 0.1
GHOST_SECONDS = 2.0
AGAIN_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A commit to make: a candidacy (`target` is None) or a target."""

    when: tuple[Compare, ...]
    put: Put
    target: Target | None = None


class Controller:
    """The steps of a member to become controller and to act as one. `throttle` bounds the planned moves under way.

    While members keep coming, the controller gives only partitions without an owner, and those of members that leave.
    It moves partitions to newcomers once no member has come for `settle_seconds`. While the balancer refuses the
    members, the target stays as it is, and the log gives the reason.
    """

    def __init__(self, view: View, options: Options, tell: Observer) -> None:
        self._tell = tell
        self._view, self._group, self._id = view, options.record, options.member_id
        self._throttle = options.throttle
        self._arrivals = Arrivals(options.settle_seconds)
        self._gone: dict[str, float] = {}
        self._vacant_since: float | None = None
        self._is_waiting = False
        self._wakes_at: float | None = None
        self._failures, self._again_at = 0, float("-inf")
        self._refused = ""
        self._planned: tuple[str, Owners] | None = None

    @property
    def term(self) -> int | None:
        """The term in which this member is the controller, None when it is not the controller."""
        leading = self._view.leading
        return None if leading is None or leading.holder != self._mark else leading.term

    def wakes_at(self) -> float | None:
        """Return the time of the next look if nothing changes before; None if no look is needed."""
        return self._wakes_at

    def answered(self, is_done: bool, now: float) -> None:
        """Take the outcome of the write. A failed write is tried again: at once the first time, then after pauses."""
        self._is_waiting = False
        self._failures = 0 if is_done else self._failures + 1
        self._again_at = self._wakes_at = now + (AGAIN_SECONDS if self._failures > 1 else 0.0)

    def look(self, now: float) -> Write | None:
        """Return the write to make now, None for nothing."""
        self._wakes_at = None
        self._arrivals.look(self._view.members, now)
        if self._is_waiting or self._view.session(self._id) is None:
            return None
        if now < self._again_at:
            self._wakes_at = self._again_at
            return None
        term = self.term
        write = self._campaign(now) if term is None else self._decide(term, now)
        self._is_waiting = write is not None
        return write

    @property
    def _mark(self) -> str:
        return led_by(self._id, self._view.session(self._id))

    def _campaign(self, now: float) -> Write | None:
        """Become a candidate if there is no controller and the members with lower ids had their turn."""
        view, keys = self._view, self._view.keys
        self._gone.clear()
        self._planned = None
        if view.is_led:
            self._vacant_since = None
            return None
        self._vacant_since = now if self._vacant_since is None else self._vacant_since
        # A record of an absent controller usually belongs to a leaving member, which deletes the record soon.
        turn = self._vacant_since + (0.0 if view.leading is None else GHOST_SECONDS)
        turn += TURN_SECONDS * sorted(view.members).index(self._id)
        if now < turn:
            self._wakes_at = turn
            return None
        me = view.members[self._id]
        when = (view.as_seen(keys.controller), Unchanged(key=keys.member(self._id), revision=me.session))
        return Write(when=when, put=Put(key=keys.controller, value=self._mark.encode(), lease=me.lease))

    def _decide(self, term: int, now: float) -> Write | None:
        nodes = self._nodes(now)
        digest = self._digest(nodes)
        before = self._view.target
        if before is not None and self._is_target_damaged:
            return self._written(term, replace(before, generation=_next_generation(self._view)))
        if (before is not None and before.digest == digest) or self._refused == digest:
            return None
        former = before if self._group.mode == "eager" and self._is_owned() else None
        if (former is not None and former.is_paused) or (self._keeps(now) and _is_given(before, nodes)):
            return None
        try:
            owners = self._plan(digest, nodes)
        except ApportionError as error:
            # A refusal of the balancer must not end this member: each next controller would end in the same way.
            self._tell(Unplanned(why=str(error)))
            self._refused = digest
            return None
        if former is not None:  # the former owners release everything first
            return self._write(term, "", former.owners, nodes, is_paused=True)
        keeps = self._keeps(now) and self._group.mode != "eager"
        step = self._throttled(self._kept(owners, nodes) if keeps else owners)
        return None if step is None else self._write(term, digest if step == owners else "", step, nodes)

    def _keeps(self, now: float) -> bool:
        """Whether members still keep joining. Until they stop, each member keeps the partitions that it should own."""
        before, levels_at = self._view.target, self._arrivals.levels_at
        keeps = before is not None and not before.is_paused and now < levels_at
        if keeps:
            self._wake(levels_at)
        return keeps

    def _plan(self, digest: str, nodes: tuple[Node, ...]) -> Owners:
        """Return the wanted owners. The balancer decides once per digest, even if a target takes many steps."""
        if self._planned is None or self._planned[0] != digest:
            before = self._view.target
            if before is None and self._is_target_damaged:
                before = self._as_owned()
            owners = assigned(self._view.keys.group, self._group, nodes, before)
            self._planned = digest, isolated(owners, self._view)
        return self._planned[1]

    @property
    def _is_target_damaged(self) -> bool:
        return self._view.keys.target in self._view.damaged

    def _as_owned(self) -> Target:
        """Return the present owners as a target, in place of an unreadable one: each owner keeps its partitions."""
        view = self._view
        records = [view.owned(partition).ownership for partition in range(self._group.partitions)]
        owners = tuple(each.owner if view.is_live(each) else None for each in records)
        return Target(generation=0, digest="", owners=owners)

    def _nodes(self, now: float) -> tuple[Node, ...]:
        """Return the nodes that may own: live members, and static members that are absent for less than their grace."""
        view = self._view
        present = {each: there.record.node(each, drains=each in view.drains) for each, there in view.members.items()}
        self._gone = {each: self._gone.get(each, now) for each in view.statics if each not in present}
        for each, since in self._gone.items():
            record: MemberRecord = view.statics[each][0]
            ends = since + record.grace_seconds
            if now < ends:
                present[each] = record.node(each)
                self._wake(ends)
        return tuple(present[each] for each in sorted(present))

    def _digest(self, nodes: Iterable[Node]) -> str:
        group = self._group
        said = [group.partitions, group.mode, group.balancer, [[node.id, node.weight, node.zone] for node in nodes]]
        return content_digest(json.dumps(said).encode())

    def _is_owned(self) -> bool:
        view = self._view
        return any(view.is_live(owned.ownership) for owned in view.own.values())

    def _kept(self, owners: Owners, nodes: Iterable[Node]) -> Owners:
        """Return a target in which members keep their wanted partitions; the rest goes to the planned owners."""
        before, there = self._view.target, able(nodes)
        if before is None:
            return owners
        return tuple(old if old in there else new for old, new in zip(before.owners, owners, strict=True))

    def _wake(self, at: float) -> None:
        self._wakes_at = at if self._wakes_at is None else min(self._wakes_at, at)

    def _throttled(self, owners: tuple[str | None, ...]) -> tuple[str | None, ...] | None:
        """Return the next step towards `owners`, with at most `throttle` planned moves under way; None to wait."""
        view, before = self._view, self._view.target
        if self._throttle is None or before is None:
            return owners
        busy = [
            partition
            for partition, owned in view.own.items()
            if view.is_live(owned.ownership)
            and owned.ownership.owner != before.owners[partition]
            # A partition that the target gives to a draining member stays with its owner, so it is not under way.
            and not (before.owners[partition] in view.drains and owned.ownership.owner not in view.drains)
        ]
        room = self._throttle - len(busy)
        step = list(owners)
        for partition, (old, new) in enumerate(zip(before.owners, owners, strict=True)):
            if old != new and view.is_live(view.owned(partition).ownership):
                room -= 1
                if room < 0:
                    step[partition] = old
        return None if tuple(step) == before.owners != owners else tuple(step)

    def _write(
        self, term: int, digest: str, owners: Owners, nodes: Iterable[Node], *, is_paused: bool = False
    ) -> Write:
        """Return the commit of the next target. A target without a digest is a step towards a later target."""
        idle = tuple(sorted({node.id for node in nodes if node.weight}.difference(owners)))
        target = Target(
            generation=_next_generation(self._view), digest=digest, owners=owners, is_paused=is_paused, idle=idle
        )
        return self._written(term, target)

    def _written(self, term: int, target: Target) -> Write:
        keys = self._view.keys
        when = (Unchanged(key=keys.controller, revision=term), self._view.as_seen(keys.target))
        return Write(when=when, put=Put(key=keys.target, value=encoded_target(target)), target=target)


def _next_generation(view: View) -> int:
    """Return a generation above all earlier ones. The generation of an unreadable target is at most its revision."""
    if view.keys.target in view.damaged:
        return max(view.revision, view.target_revision) + 1
    return 1 if view.target is None else view.target.generation + 1


def _is_given(target: Target | None, nodes: Iterable[Node]) -> bool:
    """Whether a target names, for every partition, a member that may own. O(partitions)."""
    return target is not None and able(nodes).issuperset(target.owners)


def able(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the ids of the nodes that may own partitions."""
    return frozenset(node.id for node in nodes if node.weight)


def assigned(name: str, group: GroupRecord, nodes: tuple[Node, ...], before: Target | None) -> Owners:
    """Return the owners that the group's balancer chooses, given the target before; all are None if nobody may own."""
    topology = Topology(nodes)
    if not any(node.weight for node in nodes):
        return (None,) * group.partitions
    previous = None if before is None else _assignment(before.owners, topology)
    view = GroupView(name=name, partitions=group.partitions, topology=topology, previous=previous)
    owners = catalog.get(group.balancer).owners(view)
    if len(owners) != group.partitions:
        expected, hint = f"one per partition, {group.partitions}", "Fix that balancer, or choose one of balance.names."
        raise InvalidInput(f"number of owners by balancer {group.balancer}", len(owners), expected, hint)
    return owners


def _assignment(owners: tuple[str | None, ...], topology: Topology) -> Assignment:
    known = Topology({*topology.ids, *(owner for owner in owners if owner is not None)})
    index: dict[str | None, int] = {owner: place for place, owner in enumerate(known.ids)} | {None: NOBODY}
    return Assignment(topology=known, rows=Rows(array("I", [index[owner] for owner in owners]), width=1))
