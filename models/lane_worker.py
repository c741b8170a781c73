"""Lane worker: the acts of one worker as a member of the group, by the shipped `HandOver`, `Holdings` and `LaneHolds`.

A commit of the hand-over and its reply are one step here, because the model of the hand-over has explored the rest. The
worker looks at the group late or never.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apportion.groups.handover import Act, HandOverEvent, OwnSession, Phase
from apportion.groups.holdings import Holdings
from apportion.stores.task_values import Receipt
from apportion.work.lanes.lane_holds import LaneHolds
from apportion.work.lanes.lane_statistics import LaneStatistics
from models import member
from models.lane_parts import QUEUE, LaneWorker, claim_under, shown
from models.parts import IDS, PARTITION, Store

_COMMITS = (Act.CLAIM, Act.TAKE_OVER, Act.RENUMBER, Act.GIVE)


class GroupMove(NamedTuple):
    """One outcome: the worker and the group after it, and the fault that it costs, if any."""

    kind: str
    worker: LaneWorker
    store: Store
    cost: str = ""
    is_fault: bool = False
    broken: str = ""


class _Still:
    """A clock that stands; a deadline lies before it or after it."""

    def elapsed(self) -> float:
        """Return the only time."""
        return 0.0


class Desk:
    """The holdings of a worker and its holds on the lane, made anew from a state."""

    def __init__(self, slot: int, worker: LaneWorker) -> None:
        self.holdings: Holdings = Holdings(_Still(), quiet=lambda _: None, told=lambda: None)
        self.lanes: LaneHolds = LaneHolds(QUEUE, self.holdings, LaneStatistics())
        self.holdings.deadline = 1.0
        if worker.epoch or worker.holding:
            self.holdings.grant({PARTITION: shown(slot, worker.session, worker.epoch or 1).token})
            self.lanes.held([claim_under(each) for each in worker.holding])
        if not worker.epoch:
            self.holdings.withdraw([PARTITION])
        if worker.is_cut:
            self.holdings.deadline = -1.0

    def left(self, worker: LaneWorker) -> LaneWorker:
        """Return a worker after its acts at the desk: the holds that are left, and the lane if it drains no more."""
        after = worker._replace(holding=tuple(sorted(self.lanes.receipts, key=repr)))
        if after.machine.phase is Phase.DRAINING and self.holdings.is_quiet(PARTITION):
            after = after._replace(machine=after.machine.step(HandOverEvent.QUIET)[0])
        return after


def released(slot: int, worker: LaneWorker, receipts: Sequence[Receipt]) -> LaneWorker:
    """Return a worker after the end of some claims: they hold nothing any more."""
    desk = Desk(slot, worker)
    desk.lanes.release(receipts)
    return desk.left(worker)


def group_moves(slot: int, worker: LaneWorker, store: Store) -> Iterator[GroupMove]:
    """Yield all that a worker may do as a member of the group, and all that time does to it there."""
    is_there = worker.session in store.sessions
    if not worker.session:
        if not worker.holding:
            joined = len(IDS) - store.sessions[slot]
            there = worker._replace(session=joined)
            yield GroupMove(f"joins the group as {joined}", there, store.with_session(slot, joined))
        return
    if not is_there:
        yield GroupMove("learns that its session in the group is over", _over(slot, worker), store)
    yield from _looks(slot, worker, store)
    if worker.is_cut:
        if worker.holding:
            yield GroupMove("ends its holds, for its deadline has passed", _cancelled(slot, worker), store)
        if is_there:
            yield GroupMove("is confirmed by the group again", worker._replace(is_cut=False), store)
            ended = store.with_session(slot, -worker.session)
            yield GroupMove("loses its lease in the group", worker, ended)
    elif is_there:
        cut = worker._replace(is_cut=True)
        yield GroupMove("is not confirmed by the group in time", cut, store, cost="group_cuts", is_fault=True)
    if worker.machine.phase is Phase.DRAINING and worker.holding:
        after = _cancelled(slot, worker)
        broken = "DrainEnds: a hold goes on after the drain time-out" if after.holding else ""
        yield GroupMove("has drained for too long", after, store, is_fault=True, broken=broken)


def _looks(slot: int, worker: LaneWorker, store: Store) -> Iterator[GroupMove]:
    me = OwnSession(id=IDS[slot], session=worker.session)
    known = member.known_at(store, me, member.Doubt.LONG)
    machine, act = worker.machine.look(known, me)
    if act is None:
        return
    if act in _COMMITS:
        request = member.requested(act, known, me)
        landed = member.lands(request, store)
        event = HandOverEvent.FAILED if landed is None else HandOverEvent.DONE
        epoch = request.record.epoch
        machine, done = machine.step(event, epoch=epoch)
        after = worker._replace(machine=machine, epoch=epoch if done is Act.SERVE else worker.epoch)
        is_left = act is Act.GIVE and landed is not None and any(not run.is_excused for run in worker.runs)
        broken = "LaneWaits: a lane is given away under a running task" if is_left else ""
        yield GroupMove(_said(act, request.record.owner), after, landed or store, broken=broken)
        return
    if act is Act.SERVE:
        after = worker._replace(machine=machine, epoch=store.record.epoch)
    else:
        after = _withdrawn(slot, worker._replace(machine=machine), is_at_once=act is Act.STOP)
    yield GroupMove(f"sees the group: {act.name}", after, store)


def _said(act: Act, receiver: str | None) -> str:
    return f"gives the lane to {receiver or 'nobody'}" if act is Act.GIVE else f"takes the lane: {act.name}"


def _withdrawn(slot: int, worker: LaneWorker, *, is_at_once: bool) -> LaneWorker:
    desk = Desk(slot, worker)
    desk.holdings.withdraw([PARTITION])
    if is_at_once:
        desk.holdings.cancel(PARTITION)
        worker = _excused(worker)
    return desk.left(worker._replace(epoch=0))


def _cancelled(slot: int, worker: LaneWorker) -> LaneWorker:
    desk = Desk(slot, worker)
    desk.holdings.cancel()
    return desk.left(_excused(worker))


def _over(slot: int, worker: LaneWorker) -> LaneWorker:
    machine, _ = worker.machine.step(HandOverEvent.OVER)
    after = _withdrawn(slot, worker._replace(machine=machine), is_at_once=True)
    return after._replace(session=0, is_cut=False)


def _excused(worker: LaneWorker) -> LaneWorker:
    return worker._replace(runs=tuple(run._replace(is_excused=True) for run in worker.runs))
