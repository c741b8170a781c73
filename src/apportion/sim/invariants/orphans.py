"""Orphans: how long a partition of a group stays without a live owner, once nothing fails any more.

This is the one promise of groups about time; the promises about safety are in `sim/invariants/groups.py`.
"""

from collections.abc import Callable, Iterable

from apportion.groups.crash_loops import wait_seconds
from apportion.groups.view.keys import GROUPS, GroupKeys
from apportion.groups.view.records import MemberRecord, OwnershipRecord, decoded
from apportion.sim.facts import Began, Changed
from apportion.sim.invariants.groups import SLOWEST_CLOCK, GroupInvariant
from apportion.sim.invariants.history import History
from apportion.sim.invariants.ownership import ownership
from apportion.stores import Item

ORPHAN_SECONDS = 3.0  # the time to live in the worlds, plus a second
STATIC_SECONDS = 3.0  # the grace of static members in the worlds
EAGER_SECONDS = 6.0  # the longest work in the worlds, its drain and one more time to live


class BoundedOrphan(GroupInvariant):
    """Once nothing fails any more, a partition without a live owner gets one within a bound.

    `figure` is the longest time without an owner.

    The bound is the sum of a time to live, the back-off after the deaths of the partition's owners, and a second. The
    end of a session is no death if its process has reported that it lives on. The bound is longer by the grace if
    members are static, and by the release of all partitions in an eager group. Time does not count while all members
    are asked to leave: none of them may own anything.
    """

    figure: float

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._since: dict[str, float] = {}
        self._known: set[str] = set()
        self._began = 0.0
        self._lived: set[int] = set()
        self._leaving: dict[str, float] = {}  # groups with all members asked to leave, and the end of that time

    def began(self, fact: Began) -> None:
        super().began(fact)
        self._since, self._began, self._lived, self._leaving = {}, fact.at, set(), {}
        self._known = {item.key for item in fact.items if GroupKeys.parsed(item.key)[1] == "own"}
        self._note_lived((item.key, item) for item in fact.items)
        self._note_leaving({item.key for item in fact.items}, fact.at)

    def changed(self, fact: Changed) -> None:
        super().changed(fact)
        calm = self.history.calm_since
        for key, old, new, _ in self.owned(fact):
            since = self._since.pop(key, fact.at if key in self._known else self._began)
            self._known.add(key)
            self.figure = max(self.figure, fact.at - since)
            begins = max(since, fact.at if calm is None else calm, self._leaving.get(GroupKeys.parsed(key)[0], 0.0))
            late = fact.at - begins - self._bound_seconds(key, old)
            if new.owner is not None and late > 0:
                self.broken(f"{key} had no owner for {fact.at - since:.3f} s, {late:.3f} s too long: {old}")
            if new.owner is None:
                self._since[key] = since
        self._note_lived(fact.items)
        if not {"member", "drain"}.isdisjoint(GroupKeys.parsed(key)[1] for key, _ in fact.items):
            items = self.history.items | dict(fact.items)
            self._note_leaving({key for key, item in items.items() if item is not None}, fact.at)
        gone = {key for key, item in fact.items if item is None and GroupKeys.parsed(key)[1] == "member"}
        if gone:
            self._orphan(gone, fact.at)

    def _bound_seconds(self, key: str, old: OwnershipRecord) -> float:
        room, _, _ = GroupKeys.parsed(key)
        items, deaths = self.history.items, {*old.ended, old.session}.difference(self._lived)
        is_static = any(GroupKeys.parsed(each)[:2] == (room, "static") for each in items)
        is_eager = any(b'"mode":"eager"' in item.value for each, item in items.items() if each.startswith(GROUPS))
        slack = (STATIC_SECONDS if is_static else 0.0) + (EAGER_SECONDS if is_eager else 0.0)
        return ORPHAN_SECONDS + slack + wait_seconds(len(deaths)) / SLOWEST_CLOCK

    def _note_lived(self, items: Iterable[tuple[str, Item | None]]) -> None:
        for key, item in items:
            if item is not None and GroupKeys.parsed(key)[1] == "member":
                self._lived.update(decoded(MemberRecord, item.value).former)

    def _note_leaving(self, keys: set[str], at: float) -> None:
        self._leaving = {room: min(until, at) for room, until in self._leaving.items()}
        members = {key for key in keys if GroupKeys.parsed(key)[1] == "member"}
        staying = {key for key in members if key.replace("/member/", "/drain/") not in keys}
        rooms, stays = ({GroupKeys.parsed(key)[0] for key in some} for some in (members, staying))
        self._leaving |= dict.fromkeys(rooms - stays, float("inf"))

    def _orphan(self, gone: set[str], at: float) -> None:
        for key, item in self.history.items.items():
            room, kind, _ = GroupKeys.parsed(key)
            if kind == "own" and f"{room}member/{ownership(item.value).owner}" in gone:
                self._since.setdefault(key, at)
