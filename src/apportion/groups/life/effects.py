"""Effects: carries out one member's decisions in this process: it grants and withdraws partitions, and tells events.

Promises: an event is told after its effect: a partition that was gained can be held, and a lost one cannot.
Refuses: to wait and to commit; see `commits`.
"""

from collections.abc import Iterable, Sequence

from apportion.errors import ApportionError
from apportion.groups.handover import Act, OwnSession
from apportion.groups.holdings import Holdings
from apportion.groups.life.deadlines import Deadlines
from apportion.groups.member import Action, Drain, Serve, Stop, Wait
from apportion.groups.unanswered_commits import PendingMove
from apportion.groups.view.damage import Damage
from apportion.groups.view.view import View
from apportion.model.epoch import FencingToken
from apportion.runtime.events import AskedAgain, Damaged, Delayed, EventStream, Gained, HandedOver, Lost, TookOver


class Effects:
    """Carries out the decisions of one member."""

    def __init__(self, view: View, holdings: Holdings, deadlines: Deadlines, events: EventStream) -> None:
        self._view, self._holdings, self._deadlines, self._events = view, holdings, deadlines, events
        self._told = ""

    def act(self, actions: Sequence[Action], me: OwnSession, now: float) -> None:
        """Carry out all actions except commits: first every gain, then every loss."""
        gained = {action.partition: self._token(action, me) for action in actions if isinstance(action, Serve)}
        lost = [action for action in actions if isinstance(action, Drain | Stop)]
        if gained:
            self._holdings.grant(gained)
        for action in actions:
            if isinstance(action, Serve):
                self._events.tell(Gained(partition=action.partition, epoch=action.epoch, why=action.why))
            elif isinstance(action, Wait):
                seconds = None if action.until == float("inf") else action.until - now
                self._events.tell(Delayed(partition=action.partition, deaths=action.deaths, seconds=seconds))
        if lost:
            self._withdraw(lost, me, now)

    def moved(self, moves: Iterable[PendingMove], now: float) -> None:
        """Tell the moves that a commit has carried out."""
        for move in moves:
            if move.act is Act.GIVE:
                receiver = None if move.known.receiver is None else move.known.receiver.id
                self._events.tell(HandedOver(partition=move.partition, receiver=receiver))
            elif move.act is Act.TAKE_OVER:
                record = move.known.record
                seconds = now - self._view.gone.get(record.session, now)
                owner = record.owner or ""
                self._events.tell(TookOver(partition=move.partition, owner=owner, orphan_seconds=seconds))

    def asks_again(self, error: ApportionError) -> None:
        """Tell why a request to the store failed and is repeated, unless the last such event had the same reason."""
        if self._told != error.problem:
            self._told = error.problem
            self._events.tell(AskedAgain(why=str(error)))

    def found(self, damaged: Iterable[Damage]) -> None:
        """Tell each record that this process finds damaged."""
        for each in damaged:
            self._events.tell(Damaged(key=each.key, problem=each.problem))

    def _withdraw(self, actions: list[Drain | Stop], me: OwnSession, now: float) -> None:
        partitions = [action.partition for action in actions]
        self._deadlines.lost(partitions, now)
        self._holdings.withdraw(partitions)
        for action in actions:
            is_at_once = isinstance(action, Stop)
            if is_at_once:
                self._holdings.cancel(action.partition)
            self._events.tell(Lost(partition=action.partition, why=self._cause(action, me), is_at_once=is_at_once))

    def _cause(self, action: Drain | Stop, me: OwnSession) -> str:
        target = self._view.target
        if isinstance(action, Stop) and me.session:
            return "its record no longer names our session"
        if isinstance(action, Stop) or target is None:
            return "our session is over"
        return f"target {target.generation} names {target.owner(action.partition) or 'nobody'}"

    def _token(self, action: Serve, me: OwnSession) -> FencingToken:
        resource = f"{self._view.keys.group}/{action.partition}"
        holder = f"{me.id} {me.session}"
        return FencingToken(resource=resource, holder=holder, incarnation=self._view.incarnation, epoch=action.epoch)
