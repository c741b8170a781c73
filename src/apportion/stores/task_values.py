"""The values of the task store: tasks to enqueue, receipts, claims and their ends, workers, and their answers."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, Literal, NamedTuple

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.epoch import FencingToken
from apportion.stores.lanes.values import KEYED_LANES, OwnedLane, check_key

TaskState = Literal["ready", "delayed", "claimed", "done", "dead", "cancelled", "missing", "damaged"]
Fate = Literal["done", "retry", "dead", "released", "crashed", "cancelled"]
Duplicate = Literal["keep", "replace"]
OnDead = Literal["skip", "block"]

LANES = range(4)  # the priorities, 0 first
MOST_NUMBER = 1 << 53  # the highest count in a stored row; a higher one is damage
MOST_TIME = 253_402_300_799_999  # the end of the year 9999, in milliseconds
MOST_DUE = 100  # the most delayed tasks that become ready in one turn
MOST_EXPIRED = 100  # the most expired tasks that one turn cancels; at the next one, the turn stops claiming
MOST_FORGOTTEN = 1_000  # the most outcomes that one turn deletes after their time
MOST_CRASHES = 2  # a task is dead after this many crashes in a row
KEPT_MS = 7 * 24 * 3_600 * 1_000  # the time for which a cancelled task, or the result of a done task, is kept
_LONGEST_DEATH_DELAY_SECONDS = 60


def death_delay_ms(deaths: int) -> int:
    """Return the wait of a task after its second or a further death.

    >>> [death_delay_ms(deaths) for deaths in (2, 3, 4, 20)]
    [1000, 2000, 4000, 60000]
    """
    return 1_000 * min(1 << min(deaths - 2, 10), _LONGEST_DEATH_DELAY_SECONDS)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to enqueue: its call, its place, and its budgets.

    `id` is a UUID in hexadecimal, made by the caller, so that a repeat of a lost request is recognised. `arguments`
    are bytes in a `codec` that the worker knows. The task is due after `delay_ms`, or at the time `due_at`. It is
    cancelled if it is claimed after `expires_at`. `unique` names the task among the open tasks of its queue. The task
    is dead after `most_deaths` deaths (None: no limit). `trace` is the context of a trace, as text. `schedule` and
    `slot` name the slot of a schedule for which the task was made.

    Tasks of one `key` run one at a time, in the order of their positions, in the `lane` of the key's partition. When
    one is dead, the next one runs ("skip"), or waits until the dead one is redriven or cancelled ("block").
    `partitions` is the number of partitions that gave the lane (None: not checked). `InvalidInput` if the queue has
    another number.
    """

    id: str
    queue: str
    name: str
    arguments: bytes
    codec: str = "json"
    lane: int = 2
    delay_ms: int = 0
    due_at: int | None = None
    expires_at: int | None = None
    unique: str | None = None
    on_duplicate: Duplicate = "keep"
    most_deaths: int | None = 5
    trace: str = ""
    schedule: str | None = None
    slot: int | None = None
    key: str | None = None
    on_dead: OnDead = "skip"
    partitions: int | None = None

    def __post_init__(self) -> None:
        if self.key is None and self.lane < KEYED_LANES:
            return
        check_key(self.key or "")
        if self.lane < KEYED_LANES:
            hint = "A keyed task has no priority: its lane is that of the partition of its key."
            raise InvalidInput("lane", self.lane, f"{KEYED_LANES} or more for a keyed task", hint)
        if self.delay_ms or self.due_at is not None:
            hint = "Enqueue it when it is due, or leave out the key."
            raise InvalidInput("delay", self.due_at or self.delay_ms, "none for a keyed task", hint)


def alike(task: NewTask, ids: Sequence[str], arguments: Sequence[bytes]) -> list[NewTask]:
    """Return copies of a checked task that differ from it only in their ids and arguments.

    One call into C fills one field of all copies. This takes a quarter of the time of single constructions.

    >>> task = NewTask(id="a", queue="q", name="send", arguments=b"1", lane=0)
    >>> [NewTask(id="b", queue="q", name="send", arguments=b"2", lane=0)] == alike(task, ["b"], [b"2"])
    True
    """
    made = [NewTask.__new__(NewTask) for _ in ids]
    columns: dict[str, Iterable[object]] = {"id": ids, "arguments": arguments}
    for each in fields(task):
        place: Any = getattr(NewTask, each.name)
        deque(map(place.__set__, made, columns.get(each.name) or repeat(getattr(task, each.name))), maxlen=0)
    return made


@brief
class Receipt(NamedTuple):
    """The receipt of one claim. Every call about a claim names the receipt, and stores compare all three parts.

    A worker makes a receipt, a claim and a settlement per task. Named tuples take a third of the time of dataclasses.
    """

    task: str
    attempt: int
    session: int


@brief
class Claim(NamedTuple):
    """A claimed task, as its worker gets it.

    `failures` counts runs that raised. `deaths` counts sessions that ended, and `crashes` child processes that ended,
    while they ran the task. A task with a death or a crash is a suspect: it may end the next process too. `waited_ms`
    is the time from ready to claimed. `is_retaken`: the claim was taken over from a session that has ended. The worker
    adds `lane_token`, the token of the lane of a keyed task. Comparisons ignore `lane_token` and `waited_ms`.
    """

    receipt: Receipt
    queue: str
    lane: int
    name: str
    codec: str
    arguments: bytes
    failures: int
    deaths: int
    crashes: int
    enqueued: int
    trace: str
    slot: int | None = None
    key: str | None = None
    lane_token: FencingToken | None = None
    waited_ms: int = 0
    is_retaken: bool = False

    @property
    def task(self) -> str:
        """The id of the task."""
        return self.receipt.task

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return self.receipt.attempt

    @property
    def session(self) -> int:
        """The session of the claimant."""
        return self.receipt.session

    @property
    def is_suspect(self) -> bool:
        """Whether a process has ended while it ran this task."""
        return bool(self.deaths or self.crashes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Claim) and _compared(self) == _compared(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.receipt)


def _compared(claim: Claim) -> tuple[object, ...]:
    return tuple(claim._replace(lane_token=None, waited_ms=0))


@brief
class Settlement(NamedTuple):
    """The end of one claim.

    done        the task is done; with a `result`, its outcome is kept
    retry       the run failed: the task is due again after `delay_ms`
    dead        the run failed for the last time, for the `reason`
    released    the run did not happen, or not fully; no failure counts, and the task is due again after `delay_ms`
    crashed     the child process of the run ended; the second time in a row, the task is dead
    cancelled   the task was cancelled, and its run has ended

    `is_repeat`: the run completed the task in a transaction. If that was committed, this settlement is refused.
    `has_run`: the run of a released claim came to its own end. Its process survived it, so crashes and deaths begin
    anew.
    """

    receipt: Receipt
    fate: Fate
    reason: str = ""
    delay_ms: int = 0
    result: bytes | None = None
    is_repeat: bool = False
    has_run: bool = False


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The worker that makes a turn: its session, the queues it serves, and a description of its process.

    `former` are earlier sessions of this process. No task killed the process, so the turn removes these sessions from
    the deaths of all tasks. `lanes` are the lanes that the worker owns now, and the only lanes of its keyed claims.
    """

    session: int
    queues: tuple[str, ...]
    name: str = ""
    host: str = ""
    pid: int = 0
    concurrency: int = 1
    former: tuple[int, ...] = ()
    lanes: tuple[OwnedLane, ...] = ()


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAnswer:
    """The answer to a turn: the refused receipts, and the claims. Claims taken over from ended sessions come first.

    `fenced` are lanes with a newer token in the store; the turn claimed nothing from them. `is_cut`: the turn has
    cancelled `MOST_EXPIRED` expired tasks and met another one, so the next turn may find more to claim.
    """

    refused: tuple[Receipt, ...] = ()
    claims: tuple[Claim, ...] = ()
    fenced: tuple[OwnedLane, ...] = ()
    is_cut: bool = False


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The progress of a run: a ratio between 0 and 1, and a text."""

    receipt: Receipt
    progress: float
    text: str = ""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class BeatAnswer:
    """The answer to a beat: the receipts of refused notes, and of the session's claims that are to be cancelled."""

    refused: tuple[Receipt, ...] = ()
    cancels: tuple[Receipt, ...] = ()
