"""History: every change of a group as a line of text, with the old owner, the new owner and the reason of each move.

Promises: each commit gives the lines of its effects, in the order of the store. Partitions that move the same way in
one commit share a line.
Refuses: to guess. Anything before the history that the store keeps is called unknown.
"""

from contextlib import suppress
from dataclasses import dataclass, field

from apportion.errors import BadSnapshot
from apportion.errors.brief import brief
from apportion.groups.view.intake import Leading
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import (
    DRAINED,
    LEAVES,
    REPLACED,
    OwnershipRecord,
    checked_controller,
    decoded,
    decoded_target,
    partition_of,
)
from apportion.groups.view.view import View
from apportion.stores.api import Event, Item, StoreChange

_ASKED = {
    LEAVES: "it leaves",
    DRAINED: "an operator drains it",
    REPLACED: "a newcomer with the same id asked for its place",
}
MAX_LISTED = 12


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One line: a change of a member, drain, static member, controller or target; a move; or a damaged record.

    A move has its partitions, the owners before and after (None: nobody), and the reason.
    """

    revision: int
    kind: str
    text: str
    partitions: tuple[int, ...] = ()
    source: str | None = None
    target: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One kind of move in a commit: the owners before and after, and the reason."""

    source: str | None
    target: str | None
    why: str


@dataclass(slots=True)
class Story:
    """Follows one group; `view` begins as the group before the first change, and takes each change.

    The changes up to and including the revision `unknown_until` are not known.
    """

    view: View
    asked: dict[str, bytes] = field(default_factory=dict)
    unknown_until: int = 0
    _endings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def begin(cls, view: View, items: tuple[Item, ...]) -> "Story":
        """Begin at the records of a scan."""
        parsed = ((GroupKeys.parsed(each.key), each.value) for each in items)
        return cls(view, {name: value for (_, kind, name), value in parsed if kind == "drain"})

    def tell(self, change: StoreChange) -> list[HistoryLine]:
        """Return the lines of one change, and take it into the view."""
        lines: dict[str, HistoryLine] = {}
        ways: dict[str, _Way] = {}
        for event in change.events:
            _, kind, name = GroupKeys.parsed(event.key)
            partition = partition_of(name, self.view.partitions) if kind == "own" else None
            with suppress(BadSnapshot):  # the next loop yields the damage
                if partition is not None and event.value is not None:
                    ways[event.key] = self._way(partition, decoded(OwnershipRecord, event.value))
                elif text := self._text(kind, name, event, change):
                    lines[event.key] = HistoryLine(revision=change.revision, kind=kind, text=text)
        for each in self.view.apply(change, 0.0).damaged:
            text = f"{each.key.removeprefix(self.view.keys.live)} is damaged: {each.problem}"
            lines[each.key] = HistoryLine(revision=change.revision, kind="damage", text=text)
            ways.pop(each.key, None)
        together: dict[_Way, list[int]] = {}
        for key, way in ways.items():
            together.setdefault(way, []).append(int(GroupKeys.parsed(key)[2]))
        return [*lines.values(), *(_moved(change.revision, way, partitions) for way, partitions in together.items())]

    def _text(self, kind: str, name: str, event: Event, change: StoreChange) -> str:
        if kind == "member":
            return self._member(name, event, change)
        if kind == "drain":
            return self._drain(name, event, change)
        if kind == "static" and event.value is None:
            return f"static member {name} is forgotten"
        if kind == "controller":
            return self._controller(event, change.revision)
        if kind == "target" and event.value is not None:
            return self._target(event.value)
        return ""

    def _member(self, name: str, event: Event, change: StoreChange) -> str:
        if event.value is not None:
            self._endings.pop(name, None)
            self.asked.pop(name, None)
            return f"{name} joined (session {change.revision})"
        self._endings[name] = "it left" if self._has_left(name, change) else "its lease ended"
        there = self.view.members.get(name)
        session = "" if there is None else f" (session {there.session})"
        return f"{name} is gone{session}: {self._endings[name]}"

    def _has_left(self, name: str, change: StoreChange) -> bool:
        """Whether a member left before its lease ended.

        A static member records that it left. Any other member was asked to leave, and owns nothing now.
        """
        view, touched = self.view, {each.key for each in change.events}
        if view.keys.static(name) in touched or name not in self.asked:
            return view.keys.static(name) in touched
        had = {partition for partition, owned in view.own.items() if owned.ownership.owner == name}
        return touched.issuperset(map(view.keys.own, had))

    def _drain(self, name: str, event: Event, change: StoreChange) -> str:
        if event.value is None:
            keys = self.view.keys
            if keys.member(name) in {each.key for each in change.events}:
                return ""  # the member is gone in the same change
            self.asked.pop(name, None)
            return f"{name} is no longer asked for its partitions: an operator withdrew the drain"
        self.asked[name] = event.value
        return f"{name} is asked for all its partitions: {_ASKED.get(event.value, 'somebody asked it')}"

    def _controller(self, event: Event, revision: int) -> str:
        if event.value is None:
            before = self.view.leading
            return f"no controller: {'it' if before is None else before.member_id} is gone"
        leading = Leading(holder=checked_controller(event.value), term=revision)
        return f"{leading.member_id} is controller (term {revision})"

    def _target(self, value: bytes) -> str:
        target, before = decoded_target(value), self.view.target
        if target.is_paused:
            return f"target {target.generation}: paused, all members release everything first (eager mode)"
        old = () if before is None else before.owners
        moves = sum(each != owner for each, owner in zip(old, target.owners, strict=False))
        moves += abs(len(target.owners) - len(old))
        step = "" if target.digest else ", as a step to a later target"
        return f"target {target.generation}: {moves} of {len(target.owners)} partitions change owner{step}"

    def _way(self, partition: int, new: OwnershipRecord) -> _Way:
        owned = self.view.owned(partition)
        old = owned.ownership
        if self.view.is_damaged(partition):
            return _Way(source=None, target=new.owner, why="its damaged record was written anew")
        if new.epoch > old.epoch + 1:
            return _Way(source=None, target=new.owner, why="the store does not keep its earlier owner")
        return _Way(source=old.owner, target=new.owner, why=self._why(old, new))

    def _why(self, old: OwnershipRecord, new: OwnershipRecord) -> str:
        if new.epoch == old.epoch:
            return "its deaths are forgiven: it was served for 60 s, or released"
        if old.owner is None:
            return "claim: nobody owned it"
        if (old.owner, old.session) == (new.owner, new.session):
            return "a new epoch: the owner had begun to release it, and keeps it"
        if not self.view.is_live(old):
            return self._takeover(old.owner, old.session, new)
        how = self.asked.get(old.owner)
        if how is not None:
            return f"drain: {_ASKED.get(how, 'somebody asked it')}"
        return "target" if self.view.target is None else f"target {self.view.target.generation}"

    def _takeover(self, owner: str, session: int, new: OwnershipRecord) -> str:
        if new.owner is None:
            return "released: its next owner does not wait"
        if session <= self.unknown_until:
            return "the store does not keep the end of the session before"
        if owner == new.owner:
            return f"takeover: its earlier session {session} ended"
        return f"takeover: {self._endings.get(owner, 'its session had ended')}"


def listed(partitions: tuple[int, ...]) -> str:
    """Return some partitions in one line, and the number of further ones."""
    some = ", ".join(map(str, partitions[:MAX_LISTED]))
    more = len(partitions) - MAX_LISTED
    return some if more <= 0 else f"{some}, ... {more} more"


def _moved(revision: int, way: _Way, partitions: list[int]) -> HistoryLine:
    several = tuple(sorted(partitions))
    noun = "partition" if len(several) == 1 else f"{len(several)} partitions"
    text = f"{way.source or 'nobody'} -> {way.target or 'nobody'}: {noun} {listed(several)} ({way.why})"
    source, target, why = way.source, way.target, way.why
    return HistoryLine(
        revision=revision, kind="move", text=text, partitions=several, source=source, target=target, why=why
    )
