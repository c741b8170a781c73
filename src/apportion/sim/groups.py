"""Groups: what must always hold for the members of a group and what they work on, whatever fails.

They read facts alone: what the store's keys became (`cluster/records.py` says what they mean), and when a process
entered and left a partition, under which token. So the simulated world and tests of real processes, which keep a log
of their effects, are held against the same lines.
"""

from collections.abc import Callable, Iterator

from apportion.cluster.poison import SUSPECT_DEATHS
from apportion.cluster.records import QUARANTINE_DEATHS, Ownership, Target, decoded_target
from apportion.sim import ownership as owners
from apportion.sim.facts import Began, Changed, Delivered, Entered, Scanned, Watching
from apportion.sim.history import History
from apportion.sim.invariants import Invariant
from apportion.sim.ownership import ownership, split
from apportion.stores import Item, Unchanged

ORPHAN_SECONDS = 12.0
_LAG_SECONDS = 2.0  # what a member has been given, it has looked at by then
_NOBODY = Ownership()
Session = tuple[str, int]


class GroupInvariant(Invariant):
    """One promise about groups. `live` are the sessions that have not ended, with their leases."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self.live: dict[Session, int | None] = {}

    def began(self, fact: Began) -> None:
        """Take who is there in this life of the store."""
        self.live = {}
        self._join((item.key, item) for item in fact.items)

    def changed(self, fact: Changed) -> None:
        """Look at what changed, then take who came and went. One whose record was written over is still there."""
        self.look(fact)
        for key, item in fact.items:
            before = self.history.items.get(key)
            if item is None and before is not None:
                self.live = {
                    each: lease for each, lease in self.live.items() if (each[0], lease) != (key, before.lease)
                }
        self._join(fact.items)

    def look(self, fact: Changed) -> None:
        """Look at what changed; `live` and the history are as they were before."""

    def session_of(self, hold: Entered) -> Session:
        """Return the session under which a process works."""
        group, _, _ = hold.resource.rpartition("/")
        member, _, session = hold.holder.rpartition(" ")
        return f"live/{group}/member/{member}", int(session)

    def owned(self, fact: Changed) -> Iterator[tuple[str, Ownership, Ownership, Session]]:
        """Yield each ownership record that changed, as it was and is, and the session that owned it."""
        for key, item in fact.items:
            room, kind, _ = split(key)
            if kind == "own" and item is not None:
                before = self.history.items.get(key)
                old = _NOBODY if before is None else ownership(before.value)
                yield key, old, ownership(item.value), (f"{room}member/{old.owner}", old.session)

    def _join(self, items: "Iterator[tuple[str, Item | None]] | tuple[tuple[str, Item | None], ...]") -> None:
        for key, item in items:
            if item is not None and split(key)[1] == "member":
                self.live[key, item.revision] = item.lease


class OneSessionAnId(GroupInvariant):
    """Of one member id one session is there: a record of it is written only where there is none."""

    def look(self, fact: Changed) -> None:
        """Look at records of members."""
        for key, item in fact.items:
            if item is not None and split(key)[1] == "member" and key in self.history.items:
                self.broken(f"{key} was written over at {fact.revision}")


class TargetsHaveATerm(GroupInvariant):
    """A target is written by the process that is the controller, and compares its term."""

    def look(self, fact: Changed) -> None:
        """Look at targets."""
        for key, item in fact.items:
            room, kind, _ = split(key)
            if kind != "target":
                continue
            attempt, leading = self.history.cause.attempt, self.history.items.get(f"{room}controller")
            if item is None or attempt is None or leading is None:
                self.broken(f"{key} became {'nothing' if item is None else 'another'} without a controller")
            elif Unchanged(key=leading.key, revision=leading.revision) not in attempt.asked.when:
                self.broken(f"{key} was written without a look at the term {leading.revision}")
            elif attempt.asked.process != self.history.writers.get((leading.key, leading.revision)):
                self.broken(f"{key} was written by {attempt.asked.process} in the term {leading.revision} of another")


class GivenWhenQuiet(GroupInvariant):
    """What a live session gives away, or numbers anew, nobody works on any more."""

    def look(self, fact: Changed) -> None:
        """Look at the holds that are open on what changed."""
        for key, old, new, session in self.owned(fact):
            if new.epoch == old.epoch or session not in self.live:
                continue
            for hold in self.history.holds.values():
                is_under = (hold.incarnation, hold.epoch) == (fact.incarnation, old.epoch)
                if is_under and self.session_of(hold) == session and _key_of(hold) == key:
                    self.broken(f"{key} went to {new.owner} while hold {hold.hold} of {hold.process} was open")


class HoldsAreOwned(GroupInvariant):
    """Whoever enters a partition has a session that lives, and owns it under the token's epoch."""

    def entered(self, fact: Entered) -> None:
        """Look at who enters."""
        if fact.incarnation != self.history.incarnation:
            return  # of another life of the store: nobody can know before the session ends
        member, session = self.session_of(fact)
        if (member, session) not in self.live:
            self.broken(f"{fact.process} enters {fact.resource} though its session {session} is over")
            return
        item = self.history.items.get(_key_of(fact))
        own = _NOBODY if item is None else ownership(item.value)
        if (f"{split(member)[0]}member/{own.owner}", own.session, own.epoch) != (member, session, fact.epoch):
            self.broken(f"{fact.process} enters {fact.resource} under {fact.epoch}, and it belongs to {own}")


class NoLiveOverlap(GroupInvariant):
    """No two members whose sessions live work on one partition at once."""

    def entered(self, fact: Entered) -> None:
        """Look at who works there already."""
        mine = self.session_of(fact)
        for hold in self.history.holds.values():
            theirs = self.session_of(hold)
            is_same_place = (hold.resource, hold.incarnation) == (fact.resource, fact.incarnation)
            is_now = fact.incarnation == self.history.incarnation
            if is_same_place and is_now and theirs != mine and theirs in self.live:
                self.broken(f"{fact.process} enters {fact.resource} while {hold.process} works there")


class TokensAreUnique(GroupInvariant):
    """No two sessions hold a resource under one token, and a session that holds on holds it since the same time."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._holders: dict[tuple[str, int, int], Entered] = {}

    def entered(self, fact: Entered) -> None:
        """Look at a token."""
        token = (fact.resource, fact.incarnation, fact.epoch)
        first = self._holders.setdefault(token, fact)
        if (first.process, first.holder) != (fact.process, fact.holder):
            self.broken(f"{fact.holder} holds {fact.resource} under a token of {first.holder}: {token[1:]}")
        elif first.since != fact.since:
            self.broken(f"{fact.holder} got {fact.resource} twice under one token: {token[1:]}")


class UntouchedStays(GroupInvariant):
    """What a live session owns keeps its epoch as long as the targets that it can have seen name the same member."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._targets: dict[str, list[tuple[int, Target | None]]] = {}
        self._known: dict[str, list[tuple[float, int]]] = {}
        self._watches: dict[int, str] = {}
        self._since: dict[str, int] = {}

    def began(self, fact: Began) -> None:
        """Forget what was seen of another life."""
        super().began(fact)
        self._targets, self._known, self._watches, self._since = {}, {}, {}, {}
        for item in fact.items:
            room, kind, _ = split(item.key)
            if kind == "target":
                self._targets[room] = [(item.revision, decoded_target(item.value))]

    def watching(self, fact: Watching) -> None:
        """Remember whose watch it is."""
        self._watches[fact.watch] = fact.process

    def delivered(self, fact: Delivered) -> None:
        """Remember how far a process has seen."""
        if fact.watch in self._watches:
            self._known.setdefault(self._watches[fact.watch], []).append((fact.at, fact.revision))

    def scanned(self, fact: Scanned) -> None:
        """Remember how far a process has seen."""
        if fact.incarnation == self.history.incarnation:
            self._known.setdefault(fact.process, []).append((fact.at, fact.revision))

    def look(self, fact: Changed) -> None:
        """Look at owners whose epoch changed."""
        for key, old, new, session in self.owned(fact):
            room, _, partition = split(key)
            if new.epoch == old.epoch:
                continue
            if session in self.live and key in self._since:
                named = list(self._named(room, int(partition), since=self._since[key]))
                if set(named) == {old.owner}:
                    self.broken(f"{key} of {old.owner} went to {new} though every target names {old.owner}")
            self._since[key] = self._seen_by_owner(fact, (f"{room}member/{new.owner}", new.session))
        for key, item in fact.items:
            room, kind, _ = split(key)
            if kind == "target" and item is not None:
                self._targets.setdefault(room, [(0, None)]).append((fact.revision, decoded_target(item.value)))

    def _named(self, room: str, partition: int, *, since: int) -> Iterator[str | None]:
        """Yield whom the targets name that were there after a revision."""
        targets = self._targets.get(room, [(0, None)])
        first = max((index for index, (revision, _) in enumerate(targets) if revision <= since), default=0)
        for _, target in targets[first:]:
            yield None if target is None else target.owner(partition)

    def _seen_by_owner(self, fact: Changed, session: Session) -> int:
        """Return up to where an owner had seen the store at least, when the record was written."""
        attempt = self.history.cause.attempt
        if attempt is None:
            return 0
        if self.history.writers.get(session) != attempt.asked.process:
            return fact.revision  # a gift: who got it sees all before it first
        by = attempt.asked.at - _LAG_SECONDS
        return max((revision for at, revision in self._known.get(attempt.asked.process, ()) if at <= by), default=0)


class QuarantineNeedsDeaths(GroupInvariant):
    """No death is counted but of an owner whose session is over, and without three of them nobody is robbed.

    The third is of one that tried no other suspect: a session owns no more of them than each says are tried together.
    """

    def look(self, fact: Changed) -> None:
        """Look at the deaths that are counted."""
        for key, old, new, session in self.owned(fact):
            if new.deaths >= QUARANTINE_DEATHS > old.deaths and old.among > 1:
                self.broken(f"{key} is convicted though {old.among} were tried together: {old}")
            is_dead = old.owner is not None and session not in self.live
            if new.deaths > old.deaths + is_dead:
                self.broken(f"{key} counts {new.deaths} deaths after {old}")
            if is_dead and new.owner is None and new.deaths < QUARANTINE_DEATHS:
                self.broken(f"{key} was taken from {old.owner}, which is gone, and given to nobody")
            if new.owner is not None and old.owner is None and old.deaths >= QUARANTINE_DEATHS:
                self.broken(f"{key} went to {new.owner} out of its quarantine")
            if _is_tried(new):
                self._together(fact, split(key)[0], new)

    def _together(self, fact: Changed, room: str, new: Ownership) -> None:
        items = (self.history.items | dict(fact.items)).items()
        there = [ownership(item.value) for key, item in items if item is not None and split(key)[:2] == (room, "own")]
        tried = [own for own in there if _is_tried(own) and (own.owner, own.session) == (new.owner, new.session)]
        if len(tried) > min(max(1, own.among) for own in tried):
            self.broken(f"{len(tried)} suspects are tried together: {tried}")


class BoundedOrphan(GroupInvariant):
    """Once nothing fails any more, what has no owner that lives gets one within a bound. Measures the longest."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._since: dict[str, float] = {}
        self._known: set[str] = set()
        self._began = 0.0

    def began(self, fact: Began) -> None:
        """Take who has an owner in this life of the store."""
        super().began(fact)
        self._since, self._began = {}, fact.at
        self._known = {item.key for item in fact.items if split(item.key)[1] == "own"}

    def changed(self, fact: Changed) -> None:
        """Look at who got an owner, and remember who lost it."""
        super().changed(fact)
        calm = self.history.calm_since
        for key, _, new, _ in self.owned(fact):
            since = self._since.pop(key, fact.at if key in self._known else self._began)
            self._known.add(key)
            self.figure = max(self.figure, fact.at - since)
            may_wait = new.owner is None or new.deaths >= SUSPECT_DEATHS  # of such some wait for others
            if calm is not None and not may_wait and fact.at - max(since, calm) > ORPHAN_SECONDS:
                self.broken(f"{key} had no owner for {fact.at - since:.3f} s")
            if new.owner is None:
                self._since[key] = since
        gone = {key for key, item in fact.items if item is None and split(key)[1] == "member"}
        if gone:
            self._orphan(gone, fact.at)

    def _orphan(self, gone: set[str], at: float) -> None:
        for key, item in self.history.items.items():
            room, kind, _ = split(key)
            if kind == "own" and f"{room}member/{ownership(item.value).owner}" in gone:
                self._since.setdefault(key, at)


INVARIANTS: tuple[type[Invariant], ...] = (
    *owners.INVARIANTS,
    OneSessionAnId,
    TargetsHaveATerm,
    GivenWhenQuiet,
    HoldsAreOwned,
    NoLiveOverlap,
    TokensAreUnique,
    UntouchedStays,
    QuarantineNeedsDeaths,
    BoundedOrphan,
)


def _key_of(hold: Entered) -> str:
    group, _, partition = hold.resource.rpartition("/")
    return f"live/{group}/own/{partition}"


def _is_tried(own: Ownership) -> bool:
    return own.owner is not None and own.deaths >= SUSPECT_DEATHS
