"""Groups: the invariants of a group's members and of their work, whatever fails.

They read two kinds of facts. The first kind gives the new values of the store's keys (`groups/view/keys.py` gives their
meaning). The second kind gives the time, the process and the token of each begin and end of work on a partition. So the
simulated world and tests of real processes, which keep a log of their effects, are checked by the same lines.
"""

from collections.abc import Callable, Iterator

from apportion.groups.crash_loops import wait_seconds
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import KEPT_DEATHS, LEAVES, OwnershipRecord, Target, decoded_target
from apportion.sim.facts import Asked, Began, Changed, Delivered, Entered, Scanned, Watching
from apportion.sim.invariants import ownership as owners
from apportion.sim.invariants.history import History
from apportion.sim.invariants.ownership import ownership
from apportion.sim.invariants.store import Invariant
from apportion.stores import Item, Unchanged

SLOWEST_CLOCK = 0.99
_LAG_SECONDS = 2.0  # the time after which a member has looked at everything it was given
_NOBODY = OwnershipRecord()
Session = tuple[str, int]


class GroupInvariant(Invariant):
    """One promise about groups. `live` are the sessions that have not ended, with their leases."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self.live: dict[Session, int | None] = {}

    def began(self, fact: Began) -> None:
        """Take the sessions that exist in this life of the store."""
        self.live = {}
        self._join((item.key, item) for item in fact.items)

    def changed(self, fact: Changed) -> None:
        """Check a change, then update the sessions. A session with an overwritten record still lives."""
        self.look(fact)
        for key, item in fact.items:
            before = self.history.item(key)
            if item is None and before is not None:
                self.live = {
                    each: lease for each, lease in self.live.items() if (each[0], lease) != (key, before.lease)
                }
        self._join(fact.items)

    def look(self, fact: Changed) -> None:
        """Check a change. `live` and the history do not contain it yet."""

    def session_of(self, hold: Entered) -> Session:
        """Return the session under which a process works."""
        group, _, _ = hold.resource.rpartition("/")
        member, _, session = hold.holder.rpartition(" ")
        return GroupKeys(group=group).member(member), int(session)

    def owned(self, fact: Changed) -> Iterator[tuple[str, OwnershipRecord, OwnershipRecord, Session]]:
        """Yield each ownership record that changed, its state before and after, and the session that owned it."""
        for key, item in fact.items:
            room, kind, _ = GroupKeys.parsed(key)
            if kind == "own" and item is not None:
                before = self.history.item(key)
                old = _NOBODY if before is None else ownership(before.value)
                yield key, old, ownership(item.value), (f"{room}member/{old.owner}", old.session)

    def _join(self, items: "Iterator[tuple[str, Item | None]] | tuple[tuple[str, Item | None], ...]") -> None:
        for key, item in items:
            if item is not None and GroupKeys.parsed(key)[1] == "member":
                self.live[key, item.revision] = item.lease


class OneSessionAnId(GroupInvariant):
    """A member id has one session at a time: the record of a member is only written if there is none."""

    def look(self, fact: Changed) -> None:
        """Check records of members."""
        for key, item in fact.items:
            if item is not None and GroupKeys.parsed(key)[1] == "member" and key in self.history.items:
                self.broken(f"{key} was written over at {fact.revision}")


class TargetsHaveATerm(GroupInvariant):
    """A target is written by the process that is the controller, and the commit compares its term."""

    def look(self, fact: Changed) -> None:
        """Check targets."""
        for key, item in fact.items:
            room, kind, _ = GroupKeys.parsed(key)
            if kind != "target":
                continue
            attempt, leading = self.history.attempt, self.history.item(f"{room}controller")
            if item is None or attempt is None or leading is None:
                self.broken(f"{key} was {'deleted' if item is None else 'written'} without a controller")
            elif Unchanged(key=leading.key, revision=leading.revision) not in attempt.asked.when:
                self.broken(f"{key} was written without a look at the term {leading.revision}")
            elif attempt.asked.process != self.history.writer(leading.key, leading.revision):
                self.broken(f"{key} was written by {attempt.asked.process}, which lacks term {leading.revision}")


class GivenWhenQuiet(GroupInvariant):
    """If the epoch of a live session's partition changes, the work on it has ended.

    The last commit of the session is excepted.
    """

    def look(self, fact: Changed) -> None:
        """Check the open holds on changed partitions."""
        for key, old, new, session in self.owned(fact):
            if new.epoch == old.epoch or session not in self.live or (session[0], None) in fact.items:
                continue
            for hold in self.history.holds.values():
                is_under = (hold.incarnation, hold.epoch) == (fact.incarnation, old.epoch)
                if is_under and self.session_of(hold) == session and _key_of(hold) == key:
                    self.broken(f"{key} went to {new.owner} while hold {hold.hold} of {hold.process} was open")


class HoldsAreOwned(GroupInvariant):
    """A process that enters a partition has a live session, which owns the partition under the token's epoch."""

    def entered(self, fact: Entered) -> None:
        if fact.incarnation != self.history.incarnation:
            return  # the hold is of another life of the store; the process cannot know that before its session ends
        member, session = self.session_of(fact)
        if (member, session) not in self.live:
            self.broken(f"{fact.process} enters {fact.resource} though its session {session} is over")
            return
        item = self.history.item(_key_of(fact))
        own = _NOBODY if item is None else ownership(item.value)
        owner = f"{GroupKeys.parsed(member)[0]}member/{own.owner}"
        if (owner, own.session, own.epoch) != (member, session, fact.epoch):
            self.broken(f"{fact.process} enters {fact.resource} under {fact.epoch}, and it belongs to {own}")


class NoLiveOverlap(GroupInvariant):
    """No two members with live sessions work on one partition at the same time."""

    def entered(self, fact: Entered) -> None:
        mine = self.session_of(fact)
        for hold in self.history.holds.values():
            theirs = self.session_of(hold)
            is_same_place = (hold.resource, hold.incarnation) == (fact.resource, fact.incarnation)
            is_now = fact.incarnation == self.history.incarnation
            if is_same_place and is_now and theirs != mine and theirs in self.live:
                self.broken(f"{fact.process} enters {fact.resource} while {hold.process} works there")


class TokensAreUnique(GroupInvariant):
    """No two sessions hold a resource under one token. Holds of one session under one token have one `since`."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._holders: dict[tuple[str, int, int], Entered] = {}

    def entered(self, fact: Entered) -> None:
        token = (fact.resource, fact.incarnation, fact.epoch)
        first = self._holders.setdefault(token, fact)
        if (first.process, first.holder) != (fact.process, fact.holder):
            self.broken(f"{fact.holder} holds {fact.resource} under a token of {first.holder}: {token[1:]}")
        elif first.since != fact.since:
            self.broken(f"{fact.holder} got {fact.resource} twice under one token: {token[1:]}")


class UntouchedStays(GroupInvariant):
    """A live session's partition keeps its epoch, unless the owner may have seen a target that does not name it.

    A leaving member may free partitions that it cannot hand over. It does so after its request to be drained, or in
    the commit that deletes its member record.
    """

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._targets: dict[str, list[tuple[int, Target | None]]] = {}
        self._known: dict[str, list[tuple[float, int]]] = {}
        self._watches: dict[int, str] = {}
        self._since: dict[str, int] = {}
        self._leaving: set[tuple[str, str]] = set()  # requests to be drained, which may never arrive

    def asked(self, fact: Asked) -> None:
        self._leaving.update((put.key, fact.process) for put in fact.puts if put.value == LEAVES)

    def began(self, fact: Began) -> None:
        super().began(fact)
        self._targets, self._known, self._watches, self._since = {}, {}, {}, {}
        for item in fact.items:
            room, kind, _ = GroupKeys.parsed(item.key)
            if kind == "target":
                self._targets[room] = [(item.revision, decoded_target(item.value))]

    def watching(self, fact: Watching) -> None:
        self._watches[fact.watch] = fact.process

    def delivered(self, fact: Delivered) -> None:
        if fact.watch in self._watches:
            self._known.setdefault(self._watches[fact.watch], []).append((fact.at, fact.revision))

    def scanned(self, fact: Scanned) -> None:
        if fact.incarnation == self.history.incarnation:
            self._known.setdefault(fact.process, []).append((fact.at, fact.revision))

    def look(self, fact: Changed) -> None:
        """Check owners with a new epoch."""
        for key, old, new, session in self.owned(fact):
            room, _, partition = GroupKeys.parsed(key)
            if new.epoch == old.epoch:
                continue
            is_kept = session in self.live and key in self._since and not self._leaves(fact, room, new, session)
            if is_kept and {old.owner} == set(self._named(room, int(partition), since=self._since[key])):
                self.broken(f"{key} of {old.owner} went to {new} though every target names {old.owner}")
            self._since[key] = self._seen_by_owner(fact, (f"{room}member/{new.owner}", new.session))
        for key, item in fact.items:
            room, kind, _ = GroupKeys.parsed(key)
            if kind == "target" and item is not None:
                self._targets.setdefault(room, [(0, None)]).append((fact.revision, decoded_target(item.value)))

    def _leaves(self, fact: Changed, room: str, new: OwnershipRecord, session: Session) -> bool:
        """Whether the owner frees a partition because it leaves."""
        request = (f"{room}drain/{GroupKeys.parsed(session[0])[2]}", self.history.writer(*session))
        return new.owner is None and (request in self._leaving or (session[0], None) in fact.items)

    def _named(self, room: str, partition: int, *, since: int) -> Iterator[str | None]:
        """Yield the owner in each target that was valid after a revision."""
        targets = self._targets.get(room, [(0, None)])
        first = max((index for index, (revision, _) in enumerate(targets) if revision <= since), default=0)
        for _, target in targets[first:]:
            yield None if target is None else target.owner(partition)

    def _seen_by_owner(self, fact: Changed, session: Session) -> int:
        """Return a revision that the owner had certainly seen when its ownership record was written."""
        if (attempt := self.history.attempt) is None:
            return 0
        if self.history.writer(*session) != attempt.asked.process:
            return fact.revision  # another member handed it over; the receiver first sees all earlier revisions
        by = attempt.asked.at - _LAG_SECONDS
        return max((revision for at, revision in self._known.get(attempt.asked.process, ()) if at <= by), default=0)


class DeathsAreTrue(GroupInvariant):
    """A record lists ended sessions, each once.

    Only the end of the owner's session adds a session to the list, and delays the next owner.
    """

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._gone: dict[Session, float] = {}

    def began(self, fact: Began) -> None:
        super().began(fact)
        self._gone = {}

    def changed(self, fact: Changed) -> None:
        before = set(self.live)
        super().changed(fact)
        self._gone |= dict.fromkeys(before - self.live.keys(), fact.at)

    def look(self, fact: Changed) -> None:
        """Check the listed sessions, and how long the next owner waited."""
        for key, old, new, session in self.owned(fact):
            is_dead = old.owner is not None and session not in self.live
            added = {*new.ended}.difference(old.ended, [old.session] if is_dead else [])
            if added or len({*new.ended}) < len(new.ended) or len(new.ended) > KEPT_DEATHS:
                self.broken(f"{key} lists the sessions {new.ended} after {old}")
            if is_dead and new.owner is None:
                self.broken(f"{key} was taken from {old.owner}, which is gone, and given to nobody")
            waited = fact.at - self._gone.get(session, float("-inf"))
            if is_dead and waited < wait_seconds(len(new.ended)) * SLOWEST_CLOCK:
                self.broken(f"{key} was taken {waited:.3f} s after the end of {session}, too soon after {new.ended}")


# The invariants of ownership, and those of this file, in its order.
INVARIANTS: tuple[type[Invariant], ...] = (*owners.INVARIANTS, *GroupInvariant.__subclasses__())


def _key_of(hold: Entered) -> str:
    group, _, partition = hold.resource.rpartition("/")
    return GroupKeys(group=group).own(int(partition))
