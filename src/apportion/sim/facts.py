"""Facts: the events in and around a store, in the order of true time. Invariants are checked against them.

A simulated world writes them at every transition. A test of real processes can write the same facts into a log of its
own, kept outside the tested system. Callers and watchers of the store can know each fact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from apportion.stores import Compare, Event, Item, Outcome, Put
from apportion.stores.lanes.tokens import LaneRecord
from apportion.stores.schedules.values import Firing, SlotMark, TaskSchedule
from apportion.stores.task_control import Command
from apportion.stores.task_once import OnceStep
from apportion.stores.task_records import EndedTask, OpenTask, QueueControl
from apportion.stores.task_values import NewTask, Receipt, Settlement, Worker

SchedulePlace: TypeAlias = tuple[str, str]
LanePlace: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """An event that happened at a true time, in seconds."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Began(Fact):
    """A life of the store began, with these items: the first life, or one after a crash or a restore."""

    incarnation: int
    revision: int
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Fact):
    """The store went to a revision. `items` has the new item of each changed key, None for a deleted key."""

    incarnation: int
    revision: int
    items: tuple[tuple[str, Item | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Fact):
    """A process sent a commit. `incarnation` is the incarnation that the process knows."""

    call: int
    process: str
    incarnation: int
    when: tuple[Compare, ...]
    puts: tuple[Put, ...]
    deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Fact):
    """The caller got the outcome of a commit. None means that the commit raised, so it has changed nothing."""

    call: int
    outcome: Outcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Fact):
    """The store made a lease for a process, no later than this time.

    `process` is "" if the process is dead or not recorded.
    """

    incarnation: int
    lease: int
    ttl_seconds: float
    process: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed(Fact):
    """The store was asked at `since` to renew leases. By the time `at`, it had renewed those in `alive`."""

    since: float
    incarnation: int
    asked: frozenset[int]
    alive: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked(Fact):
    """A process asked the store to end a lease, which may end from now on. With `done`, the lease has ended."""

    incarnation: int
    lease: int
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned(Fact):
    """The store answered a scan that was sent at `since`. `stale`: a fault gave an older answer on purpose."""

    since: float
    process: str
    prefix: str
    items: tuple[Item, ...]
    revision: int
    incarnation: int
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching(Fact):
    """A watch began after a revision."""

    watch: int
    process: str
    prefix: str
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Fact):
    """A watch passed a change to its consumer."""

    watch: int
    revision: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing(Fact):
    """A process sends a write to a guarded sink."""

    process: str
    resource: str
    holder: str
    incarnation: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote(Fact):
    """A guarded sink accepted a write to a resource."""

    resource: str
    holder: str
    incarnation: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered(Fact):
    """A process began to work on a resource under a token.

    It has held the resource since `since`, by its own clock.
    """

    hold: int
    process: str
    resource: str
    holder: str
    incarnation: int
    epoch: int
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Fact):
    """The work that a process had begun has ended."""

    hold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Died(Fact):
    """A process was killed: it no longer runs at all. A later process of the same name is another one."""

    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Fact):
    """An error left the program of a process, or one of its callbacks, and ended the process."""

    process: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed(Fact):
    """A lease with keys ended, although its process is alive and had not given it back."""

    process: str
    incarnation: int
    lease: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksChanged(Fact):
    """The tasks of a store after a change: all of them, and the leases and worker records that there are.

    `changed` are the ids of the tasks that are not as before. `effects` counts the rows that handlers wrote in
    completing transactions, by task. `schedules` are by queue and name; `marks` are their histories, by the same
    names. `lanes` have the tokens of their owners, by queue and number. With `is_first`, a life of the store began with
    this state.
    """

    incarnation: int
    now_ms: int
    changed: tuple[str, ...]
    open: Mapping[str, OpenTask]
    ended: Mapping[str, EndedTask]
    controls: Mapping[str, QueueControl]
    workers: frozenset[int]
    alive: frozenset[int]
    effects: Mapping[str, int]
    schedules: Mapping[SchedulePlace, TaskSchedule] = field(default_factory=dict)
    marks: Mapping[SchedulePlace, tuple[SlotMark, ...]] = field(default_factory=dict)
    lanes: Mapping[LanePlace, LaneRecord] = field(default_factory=dict)
    is_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped(Fact):
    """The clock of the tasks was stepped; `now_ms` is its time afterwards."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDamaged(Fact):
    """The row of a task is damaged from now on. The task may end or stay, and no promise about it holds any more."""

    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAct:
    """A call about schedules: its kind, its schedules, its caller in the history, and the firing of a trigger."""

    kind: Literal["register", "change", "remove", "pause", "fire", "trigger", "damage"]
    schedules: tuple[TaskSchedule, ...] = ()
    version: int | None = None
    firing: Firing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall(Fact):
    """The store began to carry out a call about tasks. Its changes come before it is `TaskServed`."""

    call: int
    process: str
    tasks: tuple[NewTask, ...] = ()
    worker: Worker | None = None
    settlements: tuple[Settlement, ...] = ()
    want: int = 0
    command: Command | None = None
    once: OnceStep | None = None
    act: ScheduleAct | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskServed(Fact):
    """The store has carried out a call about tasks; `answer` is None if it failed. The caller may never learn of it."""

    call: int
    answer: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegan(Fact):
    """A handler began to run a claimed task in a process; a child process belongs to a worker.

    `is_suspect`: the claim said that a process has ended under the task.
    """

    run: int
    process: str
    receipt: Receipt
    is_suspect: bool
    is_child: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Fact):
    """A handler has returned or raised. With `kills`, it ends its process instead."""

    run: int
    kills: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectHappened(Fact):
    """The effect of a key happened, in the run of a claim. No other queue of the world has this key.

    `may_repeat`: the handler does the effect again if its fate is unknown.
    """

    key: str
    receipt: Receipt
    may_repeat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm(Fact):
    """No more faults from now on: everything that must come to rest has to do so within its bounds."""
