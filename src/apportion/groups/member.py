"""Member: decides for one member which partitions to serve or release, and which commits to send.

Promises: at most one commit per partition is under way at a time; see `Batches` in `unanswered_commits`. The cost of an
event grows with the partitions that it touches.
Refuses: to wait and to read clocks. `step` takes an event and returns the actions to carry out, in order. The driver
bounds the wait for an answer. A missing answer counts as a failure, and `handover` makes this safe.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from apportion.groups.crash_loops import HEALTHY_SECONDS, ended, next_try
from apportion.groups.handover import Act, HandOver, HandOverEvent, Known, OwnSession, Phase, outcome, request
from apportion.groups.unanswered_commits import Batches, Commit, CommitAnswered, PendingMove
from apportion.groups.view.intake import IntakeChanges
from apportion.groups.view.view import View
from apportion.stores.api import Compare, Put

AGAIN_SECONDS = 0.1
_WHY = {
    Act.CLAIM: "nobody owned it",
    Act.TAKE_OVER: "its owner's session is over",
    Act.RENUMBER: "its release had begun, and was withdrawn",
    Act.SERVE: "its owner gave it",
}
_AT_HOME = (Act.SERVE, Act.DRAIN, Act.STOP)  # all other acts are commits


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Our member record was written: a session begins."""

    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The view has taken the store's news."""

    touched: IntakeChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """All work that was begun under some partitions has ended."""

    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The session is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serve:
    """A partition is ours, under this epoch; `why` says how it became ours."""

    partition: int
    epoch: int
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A partition is to go to another owner; `Quiet` must report the end of the work on it."""

    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A partition is no longer ours, at once; `Quiet` must report the end of the work on it."""

    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """We take a partition only at `until`, because of `deaths`. If `until` is infinity, we take it after a release."""

    partition: int
    deaths: int
    until: float


MemberEvent = Admitted | Seen | CommitAnswered | Quiet | Ended | Tick
Action = Commit | Serve | Drain | Stop | Wait


class MemberMachine:
    """The partitions of a group as one member sees them.

    `width` is the number of moves that fit in a commit, `ways` the number of commits that may be under way at once.
    """

    me: OwnSession

    def __init__(self, view: View, member_id: str, *, width: int, ways: int = 4) -> None:
        self.me = OwnSession(id=member_id, session=0)
        self._view = view
        self._hands: dict[int, HandOver] = {}
        self._batches = Batches(width=width, ways=ways)
        self._again: dict[int, float] = {}
        self._stopped: set[int] = set()  # partitions with work that must stop and has not ended

    @property
    def serving(self) -> Iterator[int]:
        """The partitions that are served now."""
        return (each for each, hand in self._hands.items() if hand.phase is Phase.SERVING)

    @property
    def session(self) -> int:
        """Our session, 0 before it begins."""
        return self.me.session

    @property
    def has_nothing(self) -> bool:
        """Whether we have nothing: no partition is owned, wanted, served or drained, and no commit is under way.

        O(partitions).
        """
        me, own = (self.me.id, self.me.session), self._view.own.values()
        mine = any((owned.ownership.owner, owned.ownership.session) == me for owned in own)
        is_idle = all(hand.phase is Phase.IDLE for hand in self._hands.values())
        return not mine and is_idle and not self._view.wanted(self.me.id)

    def phase(self, partition: int) -> Phase:
        """Return the phase of a partition's hand-over."""
        return self._hand(partition).phase

    def wakes_at(self) -> float | None:
        """Return when a `Tick` is due, None if none is due."""
        return min(self._again.values(), default=None)

    def step(self, event: MemberEvent, now: float) -> tuple[Action, ...]:
        """Take one event; return the actions to carry out, in order."""
        actions: list[Action] = []
        match event:
            case Admitted(session=session):
                self.me = OwnSession(id=self.me.id, session=session)
                ours = {each for each, owned in self._view.own.items() if owned.ownership.owner == self.me.id}
                self._look(self._near() | ours, now, actions)  # others may have given us partitions before this event
            case Seen(touched=touched):
                everything = touched.members or touched.target
                self._look(self._near() | touched.partitions if everything else touched.partitions, now, actions)
            case CommitAnswered():
                self._answered(event, now, actions)
            case Quiet(partitions=partitions):
                for partition in sorted(partitions):
                    self._advance(partition, HandOverEvent.QUIET, actions)
                self._look(partitions, now, actions)
            case Ended():
                self._end(actions)
            case Tick():
                due = [partition for partition, at in self._again.items() if at <= now]
                self._look(due, now, actions)
        actions.extend(self._batches.commits(self._request))
        return tuple(actions)

    def _near(self) -> set[int]:
        """Return the partitions that we deal with now, or should own."""
        return set(self._hands) | self._view.wanted(self.me.id)

    def _hand(self, partition: int) -> HandOver:
        return self._hands.get(partition, HandOver())

    def _look(self, partitions: Iterable[int], now: float, actions: list[Action]) -> None:
        if not self.me.session:
            return
        for partition in sorted(partitions):
            before = self._again.pop(partition, None)
            hand = self._hand(partition)
            if partition not in self._batches:
                known = self._known(partition, now)
                if known.is_wanted and known.waits and hand.phase is not Phase.DRAINING:
                    self._wait(partition, known, before, actions)
                after, act = hand.look(known, self.me)
                self._become(partition, after, known.record.epoch, act, actions)
                if act is not None and act not in _AT_HOME:
                    self._batches.add(PendingMove(partition=partition, act=act, known=known))

    def _known(self, partition: int, now: float) -> Known:
        view, owned = self._view, self._view.owned(partition)
        record, target = owned.ownership, view.target
        wanted = None if target is None else target.owner(partition)
        is_ours, leave = (record.owner, record.session) == (self.me.id, self.me.session), view.drains
        if is_ours and wanted in leave and self.me.id not in leave:
            wanted = self.me.id  # the partition stays with us until a target names a member that is not leaving
        session = view.session(wanted)
        proven_at = owned.since + HEALTHY_SECONDS if record.ended else float("inf")
        if now < proven_at < float("inf") and self.phase(partition) is Phase.SERVING:
            self._again[partition] = proven_at
        return Known(
            record=record,
            revision=owned.revision,
            session=view.session(record.owner),
            is_wanted=wanted == self.me.id and not view.is_damaged(partition),
            receiver=None if wanted is None or session is None else OwnSession(id=wanted, session=session),
            stays=None
            if wanted is None or session is None or wanted in leave
            else view.as_seen(view.keys.drain(wanted)),
            ended=ended(view, partition),
            waits=now < next_try(view, partition),
            is_proven=now >= proven_at,
        )

    def _wait(self, partition: int, known: Known, before: float | None, actions: list[Action]) -> None:
        """Note when the next owner may take a partition, and return the action that tells it, once."""
        until = self._again[partition] = next_try(self._view, partition)
        if before != until:
            actions.append(Wait(partition=partition, deaths=len(known.ended), until=until))

    def _advance(
        self, partition: int, event: HandOverEvent, actions: list[Action], *, epoch: int = 0, after: Act = Act.SERVE
    ) -> None:
        hand, act = self._hand(partition).step(event, epoch=epoch)
        self._become(partition, hand, epoch, act, actions, after=after)

    def _become(
        self,
        partition: int,
        hand: HandOver,
        epoch: int,
        act: Act | None,
        actions: list[Action],
        *,
        after: Act = Act.SERVE,
    ) -> None:
        if hand == HandOver():
            self._hands.pop(partition, None)
        else:
            self._hands[partition] = hand
        if hand.phase is not Phase.DRAINING:
            self._stopped.discard(partition)
        if act is Act.SERVE:
            actions.append(Serve(partition=partition, epoch=epoch, why=_WHY.get(after, "")))
        elif act is Act.DRAIN:
            actions.append(Drain(partition=partition))
        elif act is Act.STOP and partition not in self._stopped:
            self._stopped.add(partition)
            actions.append(Stop(partition=partition))

    def _answered(self, answer: CommitAnswered, now: float, actions: list[Action]) -> None:
        moves = self._batches.answered(answer, self._is_fresh)
        if moves.done and answer.revision is not None:
            self._view.wrote((self._request(move)[1] for move in moves.done), answer.revision, now)
        for move in moves.done:
            epoch = outcome(move.act, move.known, self.me).epoch
            if move.act is not Act.ABSOLVE:
                self._advance(move.partition, HandOverEvent.DONE, actions, epoch=epoch, after=move.act)
        for move in (*moves.failed, *moves.stale):
            self._advance(move.partition, HandOverEvent.FAILED, actions)
            self._again[move.partition] = now if move.partition in moves.at_once else now + AGAIN_SECONDS
        self._look([move.partition for move in (*moves.done, *moves.stale)], now, actions)

    def _is_fresh(self, move: PendingMove) -> bool:
        """Whether the state on which a move was decided is still the current one."""
        view, known = self._view, move.known
        receiver = known.receiver
        return (
            view.owned(move.partition).revision == known.revision
            and view.session(known.record.owner) == known.session
            and (receiver is None or view.session(receiver.id) == receiver.session)
            and (known.stays is None or view.as_seen(known.stays.key) == known.stays)
        )

    def _end(self, actions: list[Action]) -> None:
        for partition in sorted(self._hands):
            self._advance(partition, HandOverEvent.OVER, actions)
        self._stopped.update(each for each, hand in self._hands.items() if hand.phase is Phase.DRAINING)
        self._batches.clear()
        self._again.clear()
        self.me = OwnSession(id=self.me.id, session=0)

    def _request(self, move: PendingMove) -> tuple[tuple[Compare, ...], Put]:
        return request(move.act, move.partition, move.known, self.me, self._view.keys)
