"""Plan file: a saved plan of the members of a group, with the basis of the plan and the members after it.

Promises: the file shows the changes since it was saved, member by member. A file that was cut or edited is refused
before it is read.
Refuses: to hold the URL of the store, which may hold a password.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.console.files.io import read_bounded, write_whole
from apportion.console.group.plan import TargetChange, members_of, target_of
from apportion.errors import BadSnapshot, InvalidInput
from apportion.groups.admin.found import Found
from apportion.groups.view.records import checked_id
from apportion.model.epoch import content_digest
from apportion.model.topology import Node, Topology

MAX_BYTES = 16 * 2**20
FORMAT_VERSION = 1
# As of every snapshot, so that `apportion apply` can name the kind of the file.
_FORM = '{{"apportion":"{kind}","format_version":{version},"cluster":"","checksum":"{checksum}","body":{body}}}\n'
_HEAD = re.compile(rb'\{"apportion":"([a-z]{1,16})","format_version":([0-9]{1,9}),')
_WHOLE = re.compile(_HEAD.pattern + rb'"cluster":"","checksum":"([0-9a-f]{32})","body":(.*)\}\n', re.DOTALL)
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
        """The target in a word; a target that is a step to another has no digest."""
        return f"{self.generation}:{self.digest[:8] or 'step'}"

    def changes_to(self, now: "Basis") -> list[str]:
        """Return the differences now, in words. O(members)."""
        said = []
        if now.incarnation != self.incarnation:
            said.append(f"the store is at incarnation {now.incarnation}, not {self.incarnation}: restored, or another")
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
        return [] if same else [f"{member_id} says another weight or zone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlan:
    """A change from the members of a group to other ones, and the line that summarized its moves."""

    basis: Basis
    after: Topology
    words: str
    summary: str


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


def save_plan(found: Found, change: TargetChange, output: Path) -> None:
    """Write a plan for `apportion group apply`."""
    plan = MemberPlan(basis=basis_of(found), after=change.nodes_after, words=change.words, summary=change.summary)
    write_whole(output, encoded_plan(plan), what="--output")


def encoded_plan(plan: MemberPlan) -> bytes:
    """Return the bytes of a plan: a snapshot, as those of `apportion plan` are."""
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
    body = json.dumps(said, separators=(",", ":"))
    checksum = _checksum(str(FORMAT_VERSION).encode(), body.encode())
    return _FORM.format(kind=_KIND, version=FORMAT_VERSION, checksum=checksum, body=body).encode()


def read_plan(path: Path) -> MemberPlan:
    """Return a saved plan; `BadSnapshot` for any other file."""
    data = read_bounded(path, MAX_BYTES, what="plan file")
    _check_kind(data)
    whole = _WHOLE.fullmatch(data)
    if whole is None or whole[3].decode() != _checksum(whole[2], whole[4]):
        hint = "It was cut or edited; make it again with: apportion group plan URL GROUP -o FILE"
        raise BadSnapshot("checksum", None if whole is None else whole[3].decode(), "that of the content", hint)
    try:
        return _plan(json.loads(whole[4]))
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        hint = "Make it again with: apportion group plan URL GROUP -o FILE"
        raise BadSnapshot("plan file", str(path), "a plan that apportion wrote", hint) from error


def _check_kind(data: bytes) -> None:
    head = _HEAD.match(data)
    if head is None:
        hint = "Check that it is the right file: one saved by apportion group plan -o"
        raise BadSnapshot("plan file", data, "bytes that apportion saved", hint)
    kind, version = head[1].decode(), int(head[2])
    if kind != _KIND:
        hint = "Pass a file saved by apportion group plan -o"
        hint += "; this one is for: apportion apply" if kind == "plan" else "."
        raise BadSnapshot("snapshot kind", kind, repr(_KIND), hint)
    if version != FORMAT_VERSION:
        hint = "Read it with the release that wrote it, or plan anew."
        raise BadSnapshot("format_version", version, str(FORMAT_VERSION), hint)


def _checksum(version: bytes, body: bytes) -> str:
    return content_digest(_KIND.encode(), version, b'""', body)


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
