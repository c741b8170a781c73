"""Lane parts: the small values of which a state of the world of lanes consists."""

from typing import NamedTuple

from apportion.groups.handover import HandOver
from apportion.model.epoch import FencingToken
from apportion.stores.lanes.tokens import LaneRecord
from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_records import OpenTask
from apportion.stores.task_values import Claim, Fate, Receipt, Worker
from models.parts import IDS, PARTITION

QUEUE, LANE = "apportion/q", KEYED_LANES + PARTITION


class LaneBounds(NamedTuple):
    """How often the target flips, each store does not confirm a session in time, and replies are lost; and so on.

    `failures` are runs that fail, `restores` how often the task store goes back to its first content. With `keys` 2,
    the lane has a task of a second key too.
    """

    flips: int = 0
    group_cuts: int = 0
    task_cuts: int = 0
    losses: int = 0
    failures: int = 0
    restores: int = 0
    keys: int = 1


class Run(NamedTuple):
    """A claim at its worker: under way, or (`fate`) ended, with a settlement that has no reply yet.

    A run is excused from its lane once its drain is over, or the session in the group: the lane may move.
    """

    receipt: Receipt
    fate: Fate | None = None
    is_excused: bool = False

    @property
    def key(self) -> str:
        """The key of the task."""
        return key_of(self.receipt.task)


class Shown(NamedTuple):
    """A token of the lane with its holder, which the equality of a fencing token leaves out."""

    epoch: int
    holder: str

    @property
    def token(self) -> FencingToken:
        """The token."""
        return FencingToken(resource="work.q/0", holder=self.holder, incarnation=1, epoch=self.epoch)


class Turn(NamedTuple):
    """A turn that asks for a claim under the token of the lane; `claims`: the answer on its way back, if any."""

    session: int
    shown: Shown
    claims: tuple[Receipt, ...] | None = None


class LateSettlement(NamedTuple):
    """A settlement on its way; nobody waits for its reply."""

    receipt: Receipt
    fate: Fate


class LaneWorker(NamedTuple):
    """A worker: its sessions in the group and in the task store as far as it knows, its lane, and its claims.

    `epoch` is that of the lane while it is its own (0: it is not). `holding` are the claims that hold the lane. The
    worker `is_cut` from the group, or `is_late` at the tasks, once the deadline of that session has passed on its own
    clock.
    """

    session: int
    life: int
    machine: HandOver = HandOver()
    epoch: int = 0
    is_cut: bool = False
    is_late: bool = False
    holding: tuple[Receipt, ...] = ()
    turn: Turn | None = None
    runs: tuple[Run, ...] = ()


class TaskContent(NamedTuple):
    """The content of the task store. A session is negative once its lease has ended.

    `hidden` are tasks of transactions that have their positions and have not committed yet. `lane` is the token that
    the lane has seen, and the session that showed it.
    """

    tasks: tuple[OpenTask, ...]
    hidden: tuple[OpenTask, ...]
    sessions: tuple[int, ...]
    rows: tuple[int, ...] = ()
    lane: tuple[Shown, int] | None = None
    done: tuple[str, ...] = ()

    @property
    def alive(self) -> tuple[int, ...]:
        """The sessions that live."""
        return tuple(each for each in self.sessions if each > 0)

    def ledger(self) -> TaskLedger:
        """Return the ledger."""
        rows = {session: Worker(session=session, queues=(QUEUE,)) for session in self.rows}
        lanes = {} if self.lane is None else {(QUEUE, LANE): _record(*self.lane)}
        return TaskLedger(
            open={task.id: task for task in self.tasks}, workers=rows, lanes=lanes, last_position=len(self.tasks)
        )

    def with_session(self, slot: int, session: int) -> "TaskContent":
        """Return the same with another session of one worker."""
        sessions = tuple(session if each == slot else old for each, old in enumerate(self.sessions))
        return self._replace(sessions=sessions)


def key_of(task: str) -> str:
    """Return the key of a task of the model, which begins its id."""
    return task[0]


def shown(slot: int, session: int, epoch: int) -> Shown:
    """Return the token of the lane, as a member of the group makes it."""
    return Shown(epoch, f"{IDS[slot]} {session}")


def noted(record: LaneRecord) -> tuple[Shown, int]:
    """Return the record of the lane, as the content has it."""
    return Shown(record.token.epoch, record.token.holder), record.session


def _record(seen: Shown, session: int) -> LaneRecord:
    return LaneRecord(token=seen.token, session=session)


def claim_under(receipt: Receipt) -> Claim:
    """Return a claim in the lane."""
    return Claim(
        receipt=receipt,
        queue=QUEUE,
        lane=LANE,
        key=key_of(receipt.task),
        name="f",
        codec="json",
        arguments=b"",
        failures=0,
        deaths=0,
        crashes=0,
        enqueued=0,
        trace="",
    )
