"""Intake: reads the records of a group into one process, key by key, and sets damaged records aside.

Promises: each key has the newest record that was seen, from a watch or from a commit of our own. Times are those at
which this process first saw a record, on its own clock. A wrong record is kept as damaged, and affects no other record.
A damaged partition has no owner and gets none. A damaged request to leave has no effect. If a target is damaged, the
earlier target stays in use. A member with a damaged record has weight 0. It keeps its session and its partitions while
the record has the same lease.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from apportion.errors import BadSnapshot
from apportion.groups.view.damage import (
    NOBODY_OWNS,
    Damage,
    controller_of,
    drain_of,
    member_of,
    ownership_of,
    static_of,
    target_of,
)
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import (
    MAX_PARTITIONS,
    GroupRecord,
    MemberRecord,
    OwnershipRecord,
    Target,
    is_id,
    partition_of,
)
from apportion.stores.api import Absent, Compare, Item, Put, Scan, StoreChange, Unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMember:
    """A live member: its session, its record, its lease, and the time when we first saw it."""

    session: int
    record: MemberRecord
    lease: int | None
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOwnership:
    """An ownership record, the revision that wrote it, and the time when we first saw this owner."""

    ownership: OwnershipRecord
    revision: int
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """The controller, which writes the target, and its term: the revision that made it the controller."""

    holder: str
    term: int

    @property
    def member_id(self) -> str:
        """The id of the member."""
        return self.holder.rpartition(" ")[0]

    @property
    def session(self) -> int:
        """The session of the member."""
        return int(self.holder.rpartition(" ")[2])


@dataclass(slots=True, kw_only=True)
class IntakeChanges:
    """The news of one step: partitions, whether members or the target changed, and records found damaged."""

    partitions: set[int] = field(default_factory=set)
    members: bool = False
    target: bool = False
    damaged: list[Damage] = field(default_factory=list)


Value = TypeVar("Value")
_KEPT_SESSIONS = 4_096
_NOTHING = MemberRecord(nonce="", weight=0.0)  # stands for a damaged record of a member
_UNSEEN = SeenOwnership(ownership=NOBODY_OWNS, revision=0, since=0.0)


class Intake:
    """All records under `live/<group>/`, decoded. Keys that this release does not know are skipped.

    `settings` are the settings of the group. Without settings, a view accepts any partition number and any target.
    `moves` grows with every ownership record that is taken. `gone` has the end times of sessions. `lived` names
    the ended sessions that are no deaths: the member left, or its process lives on. `damaged` has records by key.
    """

    revision: int
    incarnation: int
    target_revision: int
    moves: int

    def __init__(self, keys: GroupKeys, settings: GroupRecord | None = None) -> None:
        self.keys = keys
        self.settings: GroupRecord = GroupRecord(partitions=MAX_PARTITIONS) if settings is None else settings
        self.partitions: int = self.settings.partitions
        self._agreed = settings
        self.revision = 0
        self.incarnation = 0
        self.members: dict[str, LiveMember] = {}
        self.drains: dict[str, Item] = {}
        self.statics: dict[str, tuple[MemberRecord, int]] = {}
        self.leading: Leading | None = None
        self.target: Target | None = None
        self.target_revision = 0
        self.own: dict[int, SeenOwnership] = {}
        self.moves = 0
        self.gone: dict[int, float] = {}
        self.lived: dict[int, None] = {}  # in the order in which they were named
        self.damaged: dict[str, Damage] = {}
        self._written: dict[str, int] = {}  # revisions of the records about members, by key
        self._wanted: dict[str, frozenset[int]] = {}

    def load(self, scan: Scan, now: float) -> IntakeChanges:
        """Replace all records by those of a scan. Known records keep their times, and our newer commits stay."""
        touched = IntakeChanges()
        if scan.incarnation != self.incarnation:  # revisions of two lives cannot be compared
            self._forget()
        there = {item.key for item in scan.items}
        for gone in [key for key in self._keys() if key not in there]:
            if self._revision_of(gone) <= scan.revision:
                self._take(gone, None, scan.revision, now, touched)
        for item in scan.items:
            self._take(item.key, item, item.revision, now, touched)
        self.revision, self.incarnation = max(self.revision, scan.revision), scan.incarnation
        return touched

    def apply(self, change: StoreChange, now: float) -> IntakeChanges:
        """Take the changes of one commit. Changes of our own later commits are newer, and stay."""
        touched = IntakeChanges()
        for event in change.events:
            item = None
            if event.value is not None:
                item = Item(key=event.key, value=event.value, revision=change.revision, lease=event.lease)
            self._take(event.key, item, change.revision, now, touched)
        self.revision = max(self.revision, change.revision)
        return touched

    def wrote(self, puts: Iterable[Put], revision: int, now: float) -> IntakeChanges:
        """Take the records that our own commit wrote, before a watch shows these records."""
        touched = IntakeChanges()
        for put in puts:
            item = Item(key=put.key, value=put.value, revision=revision, lease=put.lease)
            self._take(put.key, item, revision, now, touched)
        return touched

    def owned(self, partition: int) -> SeenOwnership:
        """Return the ownership record of a partition as seen."""
        return self.own.get(partition, _UNSEEN)

    def is_damaged(self, partition: int) -> bool:
        """Whether the record of a partition is damaged; then nobody may touch it."""
        return bool(self.damaged) and self.keys.own(partition) in self.damaged

    def as_seen(self, key: str) -> Compare:
        """Return the comparison that a key has not changed since we saw it: unchanged, or absent."""
        if key in self.damaged and self.damaged[key].is_deleted:
            return Absent(key=key)
        revision = self._written.get(key, 0) or self._revision_of(key)
        return Unchanged(key=key, revision=revision) if revision else Absent(key=key)

    def _forget(self) -> None:
        self.members, self.drains, self.statics, self.own = {}, {}, {}, {}
        self.leading, self.target, self.target_revision = None, None, 0
        self.gone, self.lived = {}, {}
        self.damaged.clear()
        self._written.clear()
        self._wanted.clear()
        self.revision = 0

    def _keys(self) -> list[str]:
        keys = [self.keys.member(each) for each in self.members] + [self.keys.drain(each) for each in self.drains]
        keys += [self.keys.static(each) for each in self.statics] + [self.keys.own(each) for each in self.own]
        keys += [each for each in self.damaged if self._place(each)[0] in ("drain", "static")]
        return [*keys, self.keys.controller, self.keys.target]

    def _place(self, key: str) -> tuple[str, str]:
        """Return the kind and the name of a key; the kind is "" where no release writes that key."""
        prefix, kind, name = GroupKeys.parsed(key)
        if prefix != self.keys.live:
            return "", ""
        if kind == "own":
            is_known = partition_of(name, self.partitions) is not None
        else:
            is_known = is_id(name) if kind in ("member", "drain", "static") else not name
        return (kind, name) if is_known else ("", "")

    def _revision_of(self, key: str) -> int:
        kind, name = self._place(key)
        if kind == "own":
            return self.owned(int(name)).revision
        return self.target_revision if kind == "target" else 0

    def _take(self, key: str, item: Item | None, revision: int, now: float, touched: IntakeChanges) -> None:
        kind, name = self._place(key)
        if kind == "own":
            self._take_own(int(name), item, revision, now, touched)
        elif kind == "target":
            self._take_target(item, revision, touched)
        elif kind:
            touched.members |= self._take_member(kind, name, item, now, touched)

    def _take_member(self, kind: str, name: str, item: Item | None, now: float, touched: IntakeChanges) -> bool:
        before, old = self._about(name), self.members.get(name) if kind == "member" else None
        key = self.keys.controller if kind == "controller" else f"{self.keys.live}{kind}/{name}"
        if item is not None and key in self.damaged and self.damaged[key].revision == item.revision:
            return False
        _set(self._written, key, None if item is None else item.revision)
        try:
            self._set_member(kind, name, item, now)
            self.damaged.pop(key, None)
        except BadSnapshot as error:
            self._set_member(kind, name, None, now)
            self._note(key, item.revision if item else 0, error, touched)
            if kind == "member" and item is not None:
                self.members[name] = _damaged(item, old, now)
        if old is not None and (name not in self.members or self.members[name].session != old.session):
            _keep(self.gone, {old.session: now})
        return before != self._about(name)

    def _set_member(self, kind: str, name: str, item: Item | None, now: float) -> None:
        if kind == "member":
            there = None if item is None else _present(item, self.members.get(name), now)
            _set(self.members, name, there)
            _keep(self.lived, {} if there is None else dict.fromkeys(there.record.former))
        elif kind == "drain":
            _set(self.drains, name, None if item is None else drain_of(item))
        elif kind == "static":
            static = None if item is None else static_of(item)
            _set(self.statics, name, static)
            _keep(self.lived, {} if static is None else {static[0].left_session: None})
        elif kind == "controller":
            self.leading = None if item is None else Leading(holder=controller_of(item), term=item.revision)

    def _about(self, name: str) -> tuple[object, ...]:
        return self.members.get(name), self.drains.get(name), self.statics.get(name), self.leading

    def _take_own(self, partition: int, item: Item | None, revision: int, now: float, touched: IntakeChanges) -> None:
        old, key = self.owned(partition), self.keys.own(partition)
        damage = self.damaged.get(key)
        is_known = not old.revision if damage is None else damage.is_deleted
        if revision <= old.revision or (item is None and is_known):
            return
        good = old.ownership if damage is None else damage.good
        try:
            ownership = ownership_of(item, good)
            self.damaged.pop(key, None)
        except BadSnapshot as error:
            ownership = OwnershipRecord(epoch=good.epoch)
            self._note(key, revision, error, touched, is_deleted=item is None, good=good)
        is_same = (ownership.owner, ownership.session) == (old.ownership.owner, old.ownership.session)
        since = old.since if is_same and old.revision else now
        self.own[partition] = SeenOwnership(ownership=ownership, revision=revision, since=since)
        self.moves += 1
        touched.partitions.add(partition)

    def _take_target(self, item: Item | None, revision: int, touched: IntakeChanges) -> None:
        """Take a target. If it is damaged or deleted, the earlier target stays in use."""
        if revision <= self.target_revision or (item is None and not self.target_revision):
            return
        try:
            self.target = target_of(item, self._agreed)
            self.damaged.pop(self.keys.target, None)
        except BadSnapshot as error:
            self._note(self.keys.target, revision, error, touched)
        self.target_revision = 0 if item is None else revision
        self._wanted.clear()
        touched.target = True

    def _note(
        self,
        key: str,
        revision: int,
        error: BadSnapshot,
        touched: IntakeChanges,
        *,
        is_deleted: bool = False,
        good: OwnershipRecord = NOBODY_OWNS,
    ) -> None:
        self.damaged[key] = Damage(key=key, revision=revision, problem=error.problem, is_deleted=is_deleted, good=good)
        touched.damaged.append(self.damaged[key])


def _set(values: dict[str, Value], name: str, value: Value | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def _keep(sessions: dict[int, Value], new: dict[int, Value]) -> None:
    """Take new sessions, and forget the oldest ones beyond the limit."""
    sessions |= new
    while len(sessions) > _KEPT_SESSIONS:
        del sessions[next(iter(sessions))]


def _damaged(item: Item, old: LiveMember | None, now: float) -> LiveMember:
    """Return a member with a damaged record: its weight is 0, and its session lasts as long as its lease."""
    if old is not None and old.lease == item.lease is not None:
        return replace(old, record=_NOTHING)
    return LiveMember(session=item.revision, record=_NOTHING, lease=item.lease, since=now)


def _present(item: Item, old: LiveMember | None, now: float) -> LiveMember:
    if old is not None and old.session == item.revision:
        return old
    return LiveMember(session=item.revision, record=member_of(item), lease=item.lease, since=now)
