"""Backings: the store below the faults of a world. A backing shows all transitions, and can restore an older copy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from apportion.runtime.clock import Clock
from apportion.sim.facts import Began, Changed, Fact, TasksChanged
from apportion.sim.world.process import BEGIN_OF_TIME
from apportion.sim.world.task_view import TaskView, copied
from apportion.stores import CoordinationStore, Item
from apportion.stores.ledger import Ledger, Record
from apportion.stores.memory.store import Memory, MemoryStore
from apportion.stores.memory.tasks import MemoryTasks
from apportion.stores.requests import Space
from apportion.stores.schedules.ledger import ScheduleLedger
from apportion.stores.schedules.values import TaskSchedule
from apportion.stores.task_api import TaskStore
from apportion.stores.task_ledger import TaskLedger

NAMESPACE = "world"


class TaskBacking(Protocol):
    """The tasks of a store in an operator's hands."""

    has_transactions: bool

    def tasks(self, clock: Clock) -> TaskStore:
        """Return a new handle of the tasks for a process with this clock.

        After the first such call, `look` also shows tasks.
        """

    def overwrite(self, schedule: TaskSchedule) -> None:
        """Overwrite the row of a schedule, as an intruder or a broken disk might."""

    def damage(self, task: str, values: Mapping[str, object]) -> None:
        """Overwrite columns of the row of a task, open or ended; without values, lose the row.

        No look shows the task again. A store without rows loses the task in any case.
        """

    def step_clock(self, milliseconds: int) -> None:
        """Step the clock of the tasks."""

    def now_ms(self) -> int:
        """Return the time of the tasks."""


class Backing(TaskBacking, Protocol):
    """A store in an operator's hands: with its data, its copies, and its history."""

    incarnation: int

    def handle(self, clock: Clock) -> CoordinationStore:
        """Return a new handle for a process with this clock."""

    def look(self) -> list[Fact]:
        """Return the changes since the last look, revision by revision; then the tasks, if they have changed."""

    def save(self) -> object:
        """Return a copy of all data, like a backup."""

    def restore(self, copy: object) -> None:
        """Replace the data by a copy, under a new incarnation."""

    def compact(self) -> None:
        """Forget the history."""

    def rearm(self) -> None:
        """Let every lease begin its time to live again, as a server does after it was away."""

    def close(self) -> None:
        """Remove the remains."""


class MemoryBacking(Backing):
    """A memory store: its ledger is looked at directly."""

    incarnation: int
    has_transactions = False

    def __init__(self, clock: Clock, now: Callable[[], float]) -> None:
        self.incarnation = 1
        self._clock = clock
        self._now = now
        self._memory = Memory(clock, incarnation=self.incarnation, began_ms=round(BEGIN_OF_TIME * 1_000))
        self._memory.take()  # the memory stays as long as the world
        self._space = Space(NAMESPACE)
        self._revision = -1
        self._records: dict[bytes, Record] = {}
        self._view = TaskView(now)
        self._has_tasks = False

    def handle(self, clock: Clock) -> CoordinationStore:  # noqa: ARG002 - its leases end by the store's own clock
        return MemoryStore(self._memory, NAMESPACE)

    def tasks(self, clock: Clock) -> TaskStore:  # noqa: ARG002 - as with `handle`
        """See `TaskBacking`."""
        self._has_tasks = True
        return MemoryTasks(self._memory)

    def look(self) -> list[Fact]:
        """See `Backing`. A change that is not in the history is reported as one more change at the last revision."""
        return [*self._look(), *self._look_at_tasks()] if self._has_tasks else self._look()

    def _look(self) -> list[Fact]:
        ledger = self._memory.ledger
        if self._revision < 0:
            return [self._began(ledger)]
        if ledger.revision == self._revision and ledger.records == self._records:
            return []
        facts: list[Fact] = []
        for entry in ledger.history:
            if entry.revision > self._revision:
                facts.append(self._changed(entry.revision, entry.records))
                self._follow(entry.records)
        if ledger.records != self._records:
            keys = sorted({*ledger.records, *self._records})
            untold = [
                (key, ledger.records.get(key)) for key in keys if ledger.records.get(key) != self._records.get(key)
            ]
            facts.append(self._changed(ledger.revision, tuple(untold)))
            self._records = dict(ledger.records)
        self._revision = ledger.revision
        return facts

    def save(self) -> object:
        tasks = copied(self._memory.tasks)
        return _Copy(_copied(self._memory.ledger), tasks, _beside(tasks, self._memory.schedules))

    def restore(self, copy: object) -> None:
        assert isinstance(copy, _Copy)  # noqa: S101 - it comes from `save`
        self.incarnation += 1
        before, ledger = self._memory.ledger, _copied(copy.ledger)
        # As on every engine, a restore does not set the next lease id back.
        ledger.incarnation, ledger.next_lease = self.incarnation, before.next_lease
        self._memory.ledger, self._memory.tasks = ledger, copied(copy.tasks)
        self._memory.schedules = _beside(self._memory.tasks, copy.schedules)
        self._revision = -1
        self._view.begin()
        self._memory.changed()

    def compact(self) -> None:
        ledger = self._memory.ledger
        ledger.compact(ledger.revision)

    def rearm(self) -> None:
        for held in self._memory.ledger.leases.values():
            held.ends_at = max(held.ends_at, self._clock.elapsed() + held.ttl_seconds)

    def overwrite(self, schedule: TaskSchedule) -> None:
        """See `TaskBacking`."""
        schedules = self._memory.schedules
        schedules.rows[schedule.queue, schedule.name] = schedule

    def damage(self, task: str, values: Mapping[str, object]) -> None:  # noqa: ARG002 - there are no rows
        """See `TaskBacking`."""
        tasks = self._memory.tasks
        tasks.open.pop(task, None)
        tasks.ended.pop(task, None)
        self._view.hide(task)

    def step_clock(self, milliseconds: int) -> None:
        """See `TaskBacking`."""
        self._memory.began_ms += milliseconds

    def now_ms(self) -> int:
        """See `TaskBacking`."""
        return self._memory.now_ms()

    def close(self) -> None:
        """See `Backing`. A memory store leaves no remains."""

    def _look_at_tasks(self) -> list[TasksChanged]:
        memory = self._memory
        return self._view.look(
            memory.tasks,
            incarnation=self.incarnation,
            now_ms=memory.now_ms(),
            alive=memory.ledger.leases.keys(),
            effects={},
            schedules=memory.schedules.rows,
            marks=memory.schedules.marks,
        )

    def _began(self, ledger: Ledger) -> Began:
        self._revision, self._records = ledger.revision, dict(ledger.records)
        items = tuple(self._item(key, record) for key, record in sorted(ledger.records.items()))
        return Began(at=self._now(), incarnation=self.incarnation, revision=ledger.revision, items=items)

    def _changed(self, revision: int, records: tuple[tuple[bytes, Record | None], ...]) -> Changed:
        items = tuple(
            (self._space.text(key), None if record is None else self._item(key, record)) for key, record in records
        )
        return Changed(at=self._now(), incarnation=self.incarnation, revision=revision, items=items)

    def _item(self, key: bytes, record: Record) -> Item:
        return Item(key=self._space.text(key), value=record.value, revision=record.revision, lease=record.lease)

    def _follow(self, records: tuple[tuple[bytes, Record | None], ...]) -> None:
        for key, record in records:
            if record is None:
                self._records.pop(key, None)
            else:
                self._records[key] = record


@dataclass(frozen=True, slots=True)
class _Copy:
    ledger: Ledger
    tasks: TaskLedger
    schedules: ScheduleLedger


def _beside(tasks: TaskLedger, schedules: ScheduleLedger) -> ScheduleLedger:
    """Return a copy of schedules that belongs to another ledger of tasks."""
    return ScheduleLedger(tasks=tasks, rows=dict(schedules.rows), marks=dict(schedules.marks))


def _copied(ledger: Ledger) -> Ledger:
    """Return a ledger that shares only immutable parts: a copy of everything takes a fifth of a seed's time."""
    leases = {lease: replace(held) for lease, held in ledger.leases.items()}
    return replace(ledger, records=dict(ledger.records), leases=leases, history=list(ledger.history))
