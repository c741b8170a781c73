"""Member plan: a plan of the members of a group that can be saved, with its basis and the members after the plan.

Promises: the plan shows the changes since it was made, member by member. Bytes that were cut or edited are refused
before they are read.
Refuses: to hold the URL of the store, which may hold a password.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apportion.errors import BadSnapshot, InvalidInput
from apportion.errors.brief import brief
from apportion.groups.view.records import checked_id
from apportion.model import codec
from apportion.model.topology import Node, Topology

_KIND = "groupplan"
_PRESENCE = {"there": "is back", "drains": "drains now", "away": "is away"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The basis of a plan: the life of the store, the target of the group, and the members with their presence."""

    group: str
    incarnation: int
    generation: int
    digest: str
    members: Topology
    presence: Mapping[str, str]

    @property
    def target(self) -> str:
        """The generation and the digest of the target as one word. A step towards a later target has no digest."""
        return f"{self.generation}:{self.digest[:8] or 'step'}"

    def changes_to(self, now: "Basis") -> list[str]:
        """Return the differences between this basis and `now`, in words. O(members)."""
        said = []
        if now.incarnation != self.incarnation:
            said.append(f"the store is at incarnation {now.incarnation}, not {self.incarnation}: restored or replaced")
        if (now.generation, now.digest) != (self.generation, self.digest):
            said.append(f"target {now.target} was written")
        for each in sorted({*self.members.ids, *now.members.ids}):
            said += self._change_of(each, now)
        return said

    def _change_of(self, member_id: str, now: "Basis") -> list[str]:
        if member_id not in self.members:
            return [f"{member_id} joined"]
        if member_id not in now.members:
            return [f"{member_id} left"]
        if self.presence[member_id] != now.presence[member_id]:
            return [f"{member_id} {_PRESENCE[now.presence[member_id]]}"]
        same = self.members[member_id] == now.members[member_id]
        return [] if same else [f"{member_id} has another weight or zone"]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlan:
    """A change of the members of a group, and the line that summarized its moves."""

    basis: Basis
    after: Topology
    words: str
    summary: str

    @property
    def drains(self) -> tuple[str, ...]:
        """The members to ask for all their partitions."""
        before, after = self.basis.members, self.after
        return tuple(each for each in before.ids if each in after and after[each] != before[each])

    @property
    def forgets(self) -> tuple[str, ...]:
        """The static members to forget."""
        before = self.basis.members
        return tuple(each for each in before.ids if each not in self.after)


def encode_plan(plan: MemberPlan) -> bytes:
    """Return the bytes of a plan, for `decode_plan` and for `apportion group apply`."""
    basis = plan.basis
    said = {
        "group": basis.group,
        "incarnation": basis.incarnation,
        "generation": basis.generation,
        "digest": basis.digest,
        "before": [[*_row(node), basis.presence[node.id]] for node in basis.members],
        "after": [_row(node) for node in plan.after],
        "words": plan.words,
        "summary": plan.summary,
    }
    return codec.wrapped(_KIND, json.dumps(said, separators=(",", ":")).encode())


def decode_plan(data: bytes) -> MemberPlan:
    """Return the plan that bytes encode; `BadSnapshot` for any other bytes."""
    body = codec.body_in(data, _KIND)
    try:
        return _plan(json.loads(body))
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        hint = "Make it again with: apportion group plan URL GROUP -o FILE"
        raise BadSnapshot("plan file", body, "a plan that apportion wrote", hint) from error


def _row(node: Node) -> list[object]:
    return [node.id, node.weight, node.zone]


def _plan(said: Any) -> MemberPlan:  # noqa: ANN401 - any JSON
    basis = Basis(
        group=checked_id("name of the group", said["group"]),
        incarnation=int(said["incarnation"]),
        generation=int(said["generation"]),
        digest=_line(said["digest"]),
        members=Topology(_node(*row) for *row, _ in said["before"]),
        presence={member_id: _known(presence) for member_id, *_, presence in said["before"]},
    )
    after = Topology(_node(*row) for row in said["after"])
    return MemberPlan(basis=basis, after=after, words=_line(said["words"]), summary=_line(said["summary"]))


def _node(member_id: str, weight: float, zone: list[str]) -> Node:
    return Node(member_id, weight=weight, zone=tuple(zone))


def _known(presence: str) -> str:
    if presence not in _PRESENCE:
        raise InvalidInput("presence", presence, "one of " + ", ".join(_PRESENCE), "Plan anew.")
    return presence


def _line(text: str) -> str:
    if not text.isprintable():
        raise InvalidInput("words", text, "a line that can be printed", "Plan anew.")
    return text
