"""View: what one process knows of a group, as its store showed it; every decision is made from this.

Promises: of each key the newest that was seen, whether a watch showed it or our own commit did. Times are those at
which this process saw something first, on its own clock; nobody else's count.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from apportion.cluster.records import QUARANTINE_DEATHS, Keys, MemberRecord, Ownership, Target, decoded, decoded_target
from apportion.stores.api import Change, Item, Put, Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """A member that is there: its session, its record, the lease that keeps it there, and since when we see it."""

    session: int
    record: MemberRecord
    lease: int | None
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """An ownership record, the revision that wrote it, and since when we see this owner at this epoch."""

    ownership: Ownership
    revision: int
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """Who writes the target, and the term: the revision that made it so."""

    holder: str
    term: int


@dataclass(slots=True, kw_only=True)
class Touched:
    """What was new: some partitions, who is there, what should be."""

    partitions: set[int] = field(default_factory=set)
    members: bool = False
    target: bool = False


Value = TypeVar("Value")
_KEPT_SESSIONS = 4_096
NOBODY_OWNS = Ownership()
_UNSEEN = Owned(ownership=NOBODY_OWNS, revision=0, since=0.0)


class View:
    """All that is under `live/<group>/`, read; keys that this release does not know are passed over.

    `moves` grows with every ownership record that is taken, `gone` says when sessions ended.
    """

    def __init__(self, keys: Keys, partitions: int) -> None:
        self.keys = keys
        self.partitions = partitions
        self.revision = 0
        self.incarnation = 0
        self.members: dict[str, Present] = {}
        self.drains: dict[str, Item] = {}
        self.statics: dict[str, tuple[MemberRecord, int]] = {}
        self.leading: Leading | None = None
        self.target: Target | None = None
        self.target_revision = 0
        self.own: dict[int, Owned] = {}
        self.moves = 0
        self.gone: dict[int, float] = {}
        self._wanted: dict[str, frozenset[int]] = {}

    def load(self, scan: Scan, now: float) -> Touched:
        """Take all that is there in the place of what was; what is not new keeps its time, our newer commits stay."""
        touched = Touched()
        if scan.incarnation != self.incarnation:  # revisions of another life say nothing of this one's
            self._forget()
        there = {item.key for item in scan.items}
        for gone in [key for key in self._keys() if key not in there]:
            if self._revision_of(gone) <= scan.revision:
                self._take(gone, None, now, touched)
        for item in scan.items:
            if self._revision_of(item.key) < item.revision:
                self._take(item.key, item, now, touched)
        self.revision, self.incarnation = max(self.revision, scan.revision), scan.incarnation
        return touched

    def apply(self, change: Change, now: float) -> Touched:
        """Take what one commit changed; what our own later commits changed is newer, and stays."""
        touched = Touched()
        for event in change.events:
            item = None
            if event.value is not None:
                item = Item(key=event.key, value=event.value, revision=change.revision, lease=event.lease)
            if self._revision_of(event.key) < change.revision:
                self._take(event.key, item, now, touched)
        self.revision = max(self.revision, change.revision)
        return touched

    def wrote(self, puts: Iterable[Put], revision: int, now: float) -> Touched:
        """Take what a commit of our own wrote, before any watch shows it."""
        touched = Touched()
        for put in puts:
            if self._revision_of(put.key) < revision:
                item = Item(key=put.key, value=put.value, revision=revision, lease=put.lease)
                self._take(put.key, item, now, touched)
        return touched

    def owned(self, partition: int) -> Owned:
        """Return who owns a partition."""
        return self.own.get(partition, _UNSEEN)

    def session(self, member_id: str | None) -> int | None:
        """Return the session of a member that is there, else None."""
        there = self.members.get(member_id) if member_id is not None else None
        return None if there is None else there.session

    def is_live(self, ownership: Ownership) -> bool:
        """Whether the session that owns something still lives."""
        return ownership.owner is not None and self.session(ownership.owner) == ownership.session

    def is_settled(self, partition: int, wanted: str | None) -> bool:
        """Whether a partition belongs to a living session of whom it should, or to nobody where it should not."""
        ownership = self.owned(partition).ownership
        if wanted is None or ownership.deaths >= QUARANTINE_DEATHS:
            return ownership.owner is None
        return ownership.owner == wanted and self.is_live(ownership)

    @property
    def is_at_rest(self) -> bool:
        """Whether every partition belongs to whom a target names that knows of all members. O(partitions)."""
        target = self.target
        if target is None or target.is_paused or not target.digest or not self.knows_all(target):
            return False
        return all(self.is_settled(partition, owner) for partition, owner in enumerate(target.owners))

    def knows_all(self, target: Target) -> bool:
        """Whether all members that may own were there when a target was decided. O(partitions)."""
        named = {*target.owners, *target.idle}
        may_own = (each for each, there in self.members.items() if there.record.weight and each not in self.drains)
        return all(each in named for each in may_own)

    def has_left(self, ownership: Ownership) -> bool:
        """Whether a static member ended the session that owns something by itself, and did not die."""
        static = self.statics.get(ownership.owner or "")
        return static is not None and static[0].left_session == ownership.session

    def wanted(self, member_id: str) -> frozenset[int]:
        """Return the partitions that a member should own. O(partitions) after a new target."""
        if member_id not in self._wanted:
            owners = () if self.target is None or self.target.is_paused else self.target.owners
            self._wanted[member_id] = frozenset(
                partition for partition, owner in enumerate(owners) if owner == member_id
            )
        return self._wanted[member_id]

    def _forget(self) -> None:
        self.members, self.drains, self.statics, self.own = {}, {}, {}, {}
        self.leading, self.target, self.target_revision = None, None, 0
        self._wanted.clear()
        self.revision = 0

    def _keys(self) -> list[str]:
        keys = [self.keys.member(each) for each in self.members] + [self.keys.drain(each) for each in self.drains]
        keys += [self.keys.static(each) for each in self.statics] + [self.keys.own(each) for each in self.own]
        return [*keys, self.keys.controller, self.keys.target]

    def _revision_of(self, key: str) -> int:
        kind, _, name = key.removeprefix(self.keys.live).partition("/")
        if kind == "own":
            return self.owned(int(name)).revision
        if kind == "target":
            return self.target_revision
        return 0

    def _take(self, key: str, item: Item | None, now: float, touched: Touched) -> None:
        kind, _, name = key.removeprefix(self.keys.live).partition("/")
        if kind == "own":
            self._take_own(int(name), item, now, touched)
        elif kind == "target":
            self._take_target(item, touched)
        else:
            touched.members |= self._take_member(kind, name, item, now)

    def _take_member(self, kind: str, name: str, item: Item | None, now: float) -> bool:
        """Take what is about members; whether anything is new."""
        before = self._about(name)
        if kind == "member":
            _note_gone(self.gone, self.members.get(name), now)
            _set(self.members, name, None if item is None else _present(item, self.members.get(name), now))
        elif kind == "drain":
            _set(self.drains, name, item)
        elif kind == "static":
            _set(self.statics, name, None if item is None else (decoded(MemberRecord, item.value), item.revision))
        elif kind == "controller":
            self.leading = None if item is None else Leading(holder=item.value.decode(), term=item.revision)
        return before != self._about(name)

    def _about(self, name: str) -> tuple[object, ...]:
        return self.members.get(name), self.drains.get(name), self.statics.get(name), self.leading

    def _take_own(self, partition: int, item: Item | None, now: float, touched: Touched) -> None:
        old = self.owned(partition)
        if item is None or item.revision == old.revision:
            return  # ownership records are never deleted
        ownership = decoded(Ownership, item.value)
        is_same = (ownership.owner, ownership.session) == (old.ownership.owner, old.ownership.session)
        since = old.since if is_same and old.revision else now
        self.own[partition] = Owned(ownership=ownership, revision=item.revision, since=since)
        self.moves += 1
        touched.partitions.add(partition)

    def _take_target(self, item: Item | None, touched: Touched) -> None:
        if self.target_revision == (0 if item is None else item.revision):
            return
        self.target = None if item is None else decoded_target(item.value)
        self.target_revision = 0 if item is None else item.revision
        self._wanted.clear()
        touched.target = True


def known(view: View) -> View:
    """Return what a view knows of ownership now: what it takes later does not show."""
    found = copy(view)
    found.own = dict(view.own)
    return found


def lacking_in(scan: Scan, view: View) -> tuple[str, str] | None:
    """Return what was seen that a scan should show, and what it shows instead; None where it lacks nothing.

    A store that was restored from an older copy may have had other writes since, and be past the revision that was
    seen: then the ownership records tell, whose epochs only grow, and are each given once. O(partitions).
    """
    seen, found = (view.incarnation, view.revision), (scan.incarnation, scan.revision)
    if found < seen:
        return f"revision {seen[1]} of life {seen[0]}", f"revision {found[1]} of life {found[0]}"
    if scan.incarnation == view.incarnation:
        shown = {item.key: item for item in scan.items}
        for partition, owned in view.own.items():
            item = shown.get(view.keys.own(partition))
            if item is None or _is_undone(owned, item):
                was = f"partition {partition} at epoch {owned.ownership.epoch}"
                return was, "its ownership record is an older one, or its epoch was given to another member"
    return None


def _is_undone(seen: Owned, item: Item) -> bool:
    """Whether a record shows that one which was seen has been taken back, or its epoch been given to somebody else."""
    if item.revision <= seen.revision:
        return item.revision < seen.revision
    old, new = seen.ownership, decoded(Ownership, item.value)
    is_same = (old.owner, old.session) == (new.owner, new.session)
    return new.epoch < old.epoch or (new.epoch == old.epoch and not is_same)


def _set(values: dict[str, Value], name: str, value: Value | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def _note_gone(gone: dict[int, float], there: Present | None, now: float) -> None:
    if there is not None:
        gone[there.session] = now
    while len(gone) > _KEPT_SESSIONS:
        del gone[next(iter(gone))]


def _present(item: Item, old: Present | None, now: float) -> Present:
    if old is not None and old.session == item.revision:
        return old
    return Present(session=item.revision, record=decoded(MemberRecord, item.value), lease=item.lease, since=now)
