"""Hand-over: one member's acts on one partition; planned moves never overlap, and no epoch is served twice.

Promises: a member serves only under an epoch that a commit gave to its session, and that it has not released before. A
member never resumes a partition under an epoch it has released: a late commit of its own may still give the partition
away. To resume the partition, the member first writes the next epoch. A live owner is never robbed: it gives the
partition away itself, in one commit that names the receiver's session.
Refuses: to wait, and to read a clock or a store. `step` takes the known state and returns the act; `request` returns
its commit. Each commit compares all records that it depends on. A member with an old view is therefore refused and does
no harm.
Source: KIP-848's target and current ownership. All transitions were explored exhaustively beforehand, by `models/`.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord, encoded
from apportion.stores.api import Absent, Compare, Put, Unchanged


class Phase(Enum):
    """The phase of one partition at one member."""

    IDLE = auto()
    ASKING = auto()  # a commit that makes us the owner is under way
    SERVING = auto()
    DRAINING = auto()  # no new work begins; waits until the work that was begun has ended
    GIVING = auto()  # a commit that makes another the owner is under way


class HandOverEvent(Enum):
    """An event: a state of the record together with the target's choice, or the result of our own act."""

    WANTED_FREE = auto()
    WANTED_ORPHANED = auto()  # its owner's session is over
    WANTED_GRANTED = auto()  # the record names our session, at an epoch that we have not served
    WANTED_USED = auto()  # the record names our session, at an epoch that we serve or have released
    UNWANTED_GRANTED = auto()
    UNWANTED_USED = auto()
    TAKEN = auto()  # the record does not name our session, or not at the epoch that we serve
    PROVEN = auto()  # we have served for a minute after the death of an earlier owner
    QUIET = auto()  # all work that was begun on the partition has ended
    DONE = auto()  # our commit happened
    FAILED = auto()  # our commit did not happen, or nobody knows
    OVER = auto()  # our session has ended


class Act(Enum):
    """An act of a member on a partition."""

    CLAIM = auto()
    TAKE_OVER = auto()
    RENUMBER = auto()
    SERVE = auto()
    DRAIN = auto()
    STOP = auto()
    GIVE = auto()
    ABSOLVE = auto()


TRANSITIONS: dict[tuple[Phase, HandOverEvent], tuple[Act | None, Phase]] = {
    (Phase.IDLE, HandOverEvent.WANTED_FREE): (Act.CLAIM, Phase.ASKING),
    (Phase.IDLE, HandOverEvent.WANTED_ORPHANED): (Act.TAKE_OVER, Phase.ASKING),
    (Phase.IDLE, HandOverEvent.WANTED_GRANTED): (Act.SERVE, Phase.SERVING),
    (Phase.IDLE, HandOverEvent.WANTED_USED): (Act.RENUMBER, Phase.ASKING),
    (Phase.IDLE, HandOverEvent.UNWANTED_GRANTED): (Act.GIVE, Phase.GIVING),
    (Phase.IDLE, HandOverEvent.UNWANTED_USED): (Act.GIVE, Phase.GIVING),
    (Phase.ASKING, HandOverEvent.DONE): (Act.SERVE, Phase.SERVING),
    (Phase.ASKING, HandOverEvent.FAILED): (None, Phase.IDLE),
    (Phase.GIVING, HandOverEvent.DONE): (None, Phase.IDLE),
    (Phase.GIVING, HandOverEvent.FAILED): (None, Phase.IDLE),
    (Phase.SERVING, HandOverEvent.UNWANTED_USED): (Act.DRAIN, Phase.DRAINING),
    (Phase.SERVING, HandOverEvent.PROVEN): (Act.ABSOLVE, Phase.SERVING),
    (Phase.SERVING, HandOverEvent.TAKEN): (Act.STOP, Phase.DRAINING),
    (Phase.SERVING, HandOverEvent.OVER): (Act.STOP, Phase.DRAINING),
    (Phase.DRAINING, HandOverEvent.TAKEN): (Act.STOP, Phase.DRAINING),
    (Phase.DRAINING, HandOverEvent.QUIET): (None, Phase.IDLE),
    (Phase.ASKING, HandOverEvent.OVER): (None, Phase.IDLE),
    (Phase.GIVING, HandOverEvent.OVER): (None, Phase.IDLE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSession:
    """A member in one session; the session is the revision of its member record."""

    id: str
    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The known state of one partition at one time; `revision` wrote the record (0: there is none yet).

    `session` is the current session of the owner's id (None: that member is absent). `receiver` is the live member that
    the target names. `stays` is a comparison of the commit; it fails if the receiver was asked to leave. `ended` are
    the sessions of the partition's owners that ended in a row; every act except ABSOLVE writes them. `waits` says that
    these deaths still delay the next owner. `is_proven` says that we have served for a minute after the last of them.
    """

    record: OwnershipRecord
    revision: int
    session: int | None
    is_wanted: bool
    receiver: OwnSession | None = None
    stays: Compare | None = None
    ended: tuple[int, ...] = ()
    waits: bool = False
    is_proven: bool = False

    @property
    def is_free(self) -> bool:
        """Whether no live session owns the partition."""
        return self.record.owner is None or self.session != self.record.session


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """One partition at one member: the phase, and the highest epoch that this session has served or given (0: none).

    An epoch counts even if the session only tried to give it. That commit may still happen later, while the session
    serves again.
    """

    phase: Phase = Phase.IDLE
    served: int = 0

    def look(self, known: Known, me: OwnSession) -> "tuple[HandOver, Act | None]":
        """Take the state known now; return the next hand-over state, and the act."""
        event = standing(known, me, self)
        return (self, None) if event is None else self.step(event, epoch=known.record.epoch)

    def step(self, event: HandOverEvent, *, epoch: int = 0) -> "tuple[HandOver, Act | None]":
        """Take one event; return the next state, and the act. `epoch` is the epoch that would be served or given.

        >>> HandOver().step(HandOverEvent.WANTED_FREE)[1]
        <Act.CLAIM: 1>
        """
        act, phase = TRANSITIONS.get((self.phase, event), (None, self.phase))
        served = epoch if act in (Act.SERVE, Act.GIVE) else 0 if event is HandOverEvent.OVER else self.served
        return HandOver(phase=phase, served=served), act


def standing(known: Known, me: OwnSession, now: HandOver) -> HandOverEvent | None:
    """Return the event for the state of a record; None if the state is no event for this member."""
    record = known.record
    if (record.owner, record.session) != (me.id, me.session):
        return _foreign(known, now)
    if record.epoch > now.served and now.phase is Phase.SERVING:
        return HandOverEvent.TAKEN  # a repair named us under a new epoch, and we serve under the old one
    if record.epoch > now.served:
        return HandOverEvent.WANTED_GRANTED if known.is_wanted else HandOverEvent.UNWANTED_GRANTED
    if known.is_wanted:
        return HandOverEvent.PROVEN if known.is_proven and now.phase is Phase.SERVING else HandOverEvent.WANTED_USED
    return HandOverEvent.UNWANTED_USED


def _foreign(known: Known, now: HandOver) -> HandOverEvent | None:
    record = known.record
    if now.phase in (Phase.SERVING, Phase.DRAINING):
        return HandOverEvent.TAKEN
    if not known.is_wanted or not known.is_free or known.waits:
        return None
    return HandOverEvent.WANTED_FREE if record.owner is None else HandOverEvent.WANTED_ORPHANED


def outcome(act: Act, known: Known, me: OwnSession) -> OwnershipRecord:
    """Return the record that an act writes. Each act except ABSOLVE raises the epoch."""
    record = known.record
    if act is Act.ABSOLVE:
        return replace(record, ended=())
    after = replace(record, epoch=record.epoch + 1, ended=known.ended)
    if act is Act.RENUMBER:
        return after
    to = known.receiver if act is Act.GIVE else me
    return replace(after, owner=None, session=0) if to is None else replace(after, owner=to.id, session=to.session)


def request(act: Act, partition: int, known: Known, me: OwnSession, keys: GroupKeys) -> tuple[tuple[Compare, ...], Put]:
    """Return the comparisons of an act's commit, and its write."""
    own = keys.own(partition)
    when: dict[str, Compare] = {
        own: Unchanged(key=own, revision=known.revision) if known.revision else Absent(key=own),
        keys.member(me.id): Unchanged(key=keys.member(me.id), revision=me.session),
    }
    owner, receiver = known.record.owner, known.receiver
    if act is Act.TAKE_OVER and owner is not None and owner != me.id:
        gone = keys.member(owner)
        when[gone] = Absent(key=gone) if known.session is None else Unchanged(key=gone, revision=known.session)
    if act is Act.GIVE and receiver is not None:
        there = keys.member(receiver.id)
        when[there] = Unchanged(key=there, revision=receiver.session)
        if known.stays is not None:  # a leaving member gets no further partition, so it knows all that it must free
            when[known.stays.key] = known.stays
    return tuple(when.values()), Put(key=own, value=encoded(outcome(act, known, me)))
