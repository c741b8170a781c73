"""The base of both forms of a queue: its name, its task functions, their wrappers, and its connection to the store.

`Queue` adds the calls for programs with an event loop. `apportion.sync.Queue` adds the calls for other programs.
"""

import re
from collections.abc import AsyncIterator, Callable, KeysView, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar, TypeVar
from weakref import finalize

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.runtime.attempt_events import AttemptObserver
from apportion.runtime.events import checked_observer
from apportion.runtime.handle import Handle
from apportion.runtime.schedule_events import ScheduleObserver
from apportion.runtime.simulated import simulated
from apportion.stores.catalog import check_url, parsed_url
from apportion.stores.schedules.values import Fold, Gap, Missed, Overlap, TaskSchedule
from apportion.work.call import Call
from apportion.work.claim_loop import ClaimedTask, ClaimLoop, LoopWorker
from apportion.work.cron.declaration import Policies, cron_schedule, every_schedule, scheduled_call
from apportion.work.cron.scheduler import ScheduledHere
from apportion.work.function import AnyTaskFunction, Params, Result, TaskFunction, TaskOptions, check_options
from apportion.work.lanes.keys import checked_keys
from apportion.work.lanes.lane_member import LaneMember
from apportion.work.lanes.lanes_of_worker import LanesOfWorker, lanes_of_worker
from apportion.work.observers.schedule_log import log_schedule
from apportion.work.observers.statistics import TaskStatistics
from apportion.work.opened import OpenedQueue
from apportion.work.retry_budget import Budget, length
from apportion.work.thread_worker import ThreadWorker
from apportion.work.worker import QueueWorker
from apportion.work.wrappers import Wrapper, Wrappers

Form = TypeVar("Form", bound="TaskQueue")
TTL = timedelta(seconds=10)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The numbers of runs of a `drain`, by their ends. The tasks of `failed` runs wait for a retry."""

    done: int
    failed: int
    dead: int


class TaskQueue(Handle):
    """The part of a queue that both of its forms share."""

    async_form: "ClassVar[type[TaskQueue] | None]" = None
    sync_form: "ClassVar[type[TaskQueue] | None]" = None

    def __init__(
        self,
        url: str,
        name: str,
        *,
        lease_ttl: timedelta = TTL,
        partitions: int | None = None,
        group_url: str | None = None,
    ) -> None:
        check_url(url)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            expected = "1 to 100 letters, digits, '.', '_' or '-', the first a letter or digit"
            raise InvalidInput("name of the queue", name, expected, 'Write Queue(url, "mail")')
        self.url = url
        self.name = name
        self._full_name = f"{parsed_url(url).namespace}/{name}"
        self._ttl_seconds = length("lease_ttl", lease_ttl).total_seconds()
        self._keys = checked_keys(url, self._full_name, partitions, group_url)
        self.partitions: int | None = partitions
        self._functions: dict[str, AnyTaskFunction] = {}
        self.task_names: KeysView[str] = self._functions.keys()
        self._schedules: dict[str, TaskSchedule] = {}
        self._observers: list[ScheduleObserver] = []
        self._statistics, self._wrappers = TaskStatistics(), Wrappers()
        self._opened_here = OpenedQueue(url, self._keys)
        finalize(self, OpenedQueue.let_go, self._opened_here)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(parsed_url(self.url))!r}, {self.name!r})"

    @property
    def _opened(self) -> OpenedQueue:
        """The connection of this process. Simulated processes may share a queue; each has a connection of its own."""
        machine = simulated()
        if machine is None:
            return self._opened_here
        opened: OpenedQueue = machine.shared.setdefault(self._opened_here, OpenedQueue(self.url, self._keys))
        return opened

    @property
    def statistics(self) -> TaskStatistics:
        """The counts of the attempts that workers of this object have made in this process. No I/O."""
        return self._statistics

    def task(
        self,
        _bare: None = None,
        /,
        *,
        name: str | None = None,
        failures: int = 25,
        deaths: int | None = 5,
        first_delay: timedelta = timedelta(seconds=1),
        longest_delay: timedelta = timedelta(hours=1),
        give_up_on: tuple[type[Exception], ...] = (),
        time_limit: timedelta | None = None,
        priority: int = 2,
        keep_result: bool = False,
    ) -> Callable[[Callable[Params, Result]], TaskFunction[Params, Result]]:
        """Make a function a task function of this queue.

        - `name`: the name in the store. Default: the name of the function.
        - `failures`: the number of failed runs after which the task is dead. Default: 25.
        - `deaths`: a task is dead once this many workers in a row died with a claim on it. None: never. Default: 5.
        - `first_delay`, `longest_delay`: the wait before a retry is random, below a bound. The bound begins at
          `first_delay`, and doubles with each failure up to `longest_delay`. Default: 1 second, 1 hour.
        - `give_up_on`: exception classes that end the task as dead at once.
        - `time_limit`: a run that takes longer is cancelled, and counts as a failure. Default: None.
        - `priority`: 0 to 3; 0 is claimed first. Default: 2.
        - `keep_result`: keep the result for a week, for `handle.result()`. Default: False.
        """
        _require_parentheses(_bare)
        budget = Budget(
            failures=failures,
            deaths=deaths,
            first_delay=first_delay,
            longest_delay=longest_delay,
            give_up_on=give_up_on,
        )
        check_options(name, priority=priority, time_limit=time_limit, keep_result=keep_result)

        def _made(function: Callable[Params, Result]) -> TaskFunction[Params, Result]:
            known = name if name is not None else getattr(function, "__name__", "")
            options = TaskOptions(
                name=known, budget=budget, priority=priority, time_limit=time_limit, keep_result=keep_result
            )
            made = TaskFunction(function, options, self._wrappers)
            if known in self._functions:
                hint = "Give one of the two functions another name: @queue.task(name=...)."
                raise InvalidInput("name of the task", known, "a name that this queue does not have yet", hint)
            self._functions[known] = made
            return made

        return _made

    def cron(
        self,
        rule: str,
        *,
        zone: str = "UTC",
        missed: Missed = "last",
        overlap: Overlap = "skip",
        gap: Gap = "run-after",
        fold: Fold = "first",
        jitter: timedelta = timedelta(0),
        name: str | None = None,
    ) -> Callable[[TaskFunction[Params, Result]], TaskFunction[Params, Result]]:
        """Run a task of this queue at the slots of a cron rule. Any worker of the queue fires a slot, and only once.

            @queue.cron("0 9 * * mon-fri", zone="Europe/Berlin")
            @queue.task()
            async def report() -> None: ...

        - `rule`: five fields (minute, hour, day, month, weekday), or `@hourly`, `@daily`, `@weekly` and so on.
        - `zone`: the time zone in which the rule is read. Default: UTC.
        - `missed`: the choice among the slots that passed while no worker ran. "last" fires the newest. "all" fires up
          to 100 of the last day. "skip" fires the newest if it is at most a minute late.
        - `overlap`: the effect of a slot while a task of the schedule is open. "skip" adds no task. "allow" adds a
          task. "queue-one" adds one if none waits. "cancel-old" adds one, and cancels the open tasks.
        - `gap`, `fold`: the slots at a clock change of the zone; see docs/tasks/clock-changes.md.
        - `jitter`: a bound of the wait of each task after its slot. Every worker computes the same wait. Default: none.
        - `name`: the name in the store. Default: the name of the task.

        A worker that starts adds the schedules that the store lacks, and changes no stored schedule. `InvalidInput` for
        a wrong option, a task with required arguments, or a second schedule of one name.
        """
        policies: Policies = {"zone": zone, "missed": missed, "overlap": overlap, "gap": gap, "fold": fold}
        policies["jitter"] = jitter

        def _made(function: TaskFunction[Params, Result]) -> TaskFunction[Params, Result]:
            call = scheduled_call(function)
            self._declare(cron_schedule(self._full_name, _or(name, call), call, rule, policies))
            return function

        return _made

    def every(
        self,
        period: timedelta,
        *,
        missed: Missed = "last",
        overlap: Overlap = "skip",
        jitter: timedelta = timedelta(0),
        name: str | None = None,
    ) -> Callable[[TaskFunction[Params, Result]], TaskFunction[Params, Result]]:
        """Run a task of this queue once per period, by any worker; slots are the multiples of the period since 1970.

        The options and errors are those of `cron`.
        """
        policies: Policies = {"missed": missed, "overlap": overlap, "jitter": jitter}

        def _made(function: TaskFunction[Params, Result]) -> TaskFunction[Params, Result]:
            call = scheduled_call(function)
            self._declare(every_schedule(self._full_name, _or(name, call), call, period, policies))
            return function

        return _made

    @property
    def declared_schedules(self) -> Mapping[str, TaskSchedule]:
        """The schedules that the program declares above its tasks, by name. Their last and next slots are not set."""
        return self._schedules

    def _declare(self, schedule: TaskSchedule) -> None:
        if schedule.name in self._schedules:
            hint = "Give one of the two schedules another name: @queue.cron(..., name=...)."
            raise InvalidInput("name of the schedule", schedule.name, "one that this queue does not have yet", hint)
        self._schedules[schedule.name] = replace(schedule, is_declared=True)

    def observe_schedules(self, observer: ScheduleObserver) -> ScheduleObserver:
        """Call a plain function with each event of the schedules that workers of this object fire.

            @queue.observe_schedules
            def watch(event):
                print(event.as_dict())

        The I/O thread calls the function, so it must not block. `InvalidInput` for any other function.
        """
        checked = checked_observer(observer, "queue.observe_schedules(")
        if checked is None:
            raise InvalidInput("observer", None, "a plain function of one event", "Write queue.observe_schedules(log)")
        self._observers.append(checked)
        return observer

    def _scheduled_here(self) -> ScheduledHere:
        observers = (log_schedule, self._statistics.schedules.observe, *self._observers)
        return ScheduledHere(declared=self._schedules.values(), observers=observers)

    def around(self, wrapper: Wrapper) -> Wrapper:
        """Wrap each run of this queue's tasks in a generator function: the task runs at its `yield`.

            @queue.around
            async def timed():
                began = time.monotonic()
                yield
                print(current_task().name, time.monotonic() - began)

        The wrapper may be async or plain. It takes no arguments: `current_task()` describes the task. An error of the
        run is raised at the `yield`, and an error of the wrapper is the failure of the run. If a wrapper catches the
        error, the run counts as done. The first wrapper is the outermost; async ones are around plain ones. A plain
        wrapper of a plain task function runs in the same thread. `InvalidInput` for any other function.
        """
        self._wrappers.add(wrapper)
        return wrapper

    def _worker_of(
        self,
        concurrency: int | None,
        processes: int,
        observer: AttemptObserver | None,
        member: LaneMember | None = None,
        *,
        fires: bool = True,
    ) -> QueueWorker:
        given = checked_observer(observer, "queue.worker(…")
        return QueueWorker(
            self.url,
            self._full_name,
            self._functions,
            ttl_seconds=self._ttl_seconds,
            concurrency=concurrency,
            processes=processes,
            statistics=self._statistics,
            observers=() if given is None else (given,),
            schedules=self._scheduled_here() if fires else None,
            lanes=self._lanes_of(member),
        )

    def _lanes_of(self, member: LaneMember | None) -> LanesOfWorker:
        return lanes_of_worker(self._keys, member, ttl_seconds=self._ttl_seconds, statistics=self._statistics.lanes)

    def claims(self, *, concurrency: int = 1, member: LaneMember | None = None) -> AsyncIterator[ClaimedTask]:
        """Claim the tasks of this queue for an `async for` loop of your own, at most `concurrency` at a time.

            async for task in queue.claims():
                async with task:
                    print(task.name, task.arguments)

        The end of the block completes the task; an exception fails it, and the loop goes on. SIGTERM ends the loop.
        For `member` see `Queue.worker`.
        """
        lanes = self._lanes_of(member)

        def _made(functions: Mapping[str, AnyTaskFunction], asked: Callable[[], None]) -> LoopWorker:
            return LoopWorker(
                self.url,
                self._full_name,
                functions,
                ttl_seconds=self._ttl_seconds,
                concurrency=concurrency,
                statistics=self._statistics,
                schedules=self._scheduled_here(),
                lanes=lanes,
                asked=asked,
            )

        return ClaimLoop(self._functions, self._wrappers, _made).tasks()

    def _thread_worker_of(
        self,
        concurrency: int | None,
        processes: int,
        observer: AttemptObserver | None,
        member: LaneMember | None = None,
        *,
        fires: bool = True,
    ) -> ThreadWorker:
        return ThreadWorker(self._worker_of(concurrency, processes, observer, member, fires=fires))

    def _shown_as(self, form: "type[Form]") -> "Form":
        """Return this queue in a form, with the same functions, wrappers, statistics and connection."""
        if isinstance(self, form):
            return self
        other = form.__new__(form)
        other.__dict__.update(self.__dict__, _source=self)
        return other


def _or(name: str | None, call: Call) -> str:
    """Return the name of a schedule; the name of its task by default."""
    return call.name if name is None else name


def _require_parentheses(function: object) -> None:
    if function is not None:
        raise InvalidInput("task", function, "parentheses, empty or with options", "Write @queue.task().")
