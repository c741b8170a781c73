"""The SQLite store under a world: the shipped store with its reaper, on a file of its own that an observer reads."""

import random
import sqlite3
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from apportion.errors import InvariantBroken
from apportion.runtime.clock import Clock
from apportion.sim.facts import Began, Changed, Fact, SchedulePlace, TasksChanged
from apportion.sim.world.backings import NAMESPACE
from apportion.sim.world.process import BEGIN_OF_TIME
from apportion.sim.world.task_view import TaskView
from apportion.stores import CoordinationStore, Item
from apportion.stores.damage.sqlite import any_text
from apportion.stores.requests import Space
from apportion.stores.schedules.rows import CHANGED, COLUMNS, MARK_COLUMNS, changed_values, mark_of, schedule_of
from apportion.stores.schedules.values import SlotMark, TaskSchedule
from apportion.stores.sqlite import ledger, task_statements
from apportion.stores.sqlite.claims.lanes import record_of
from apportion.stores.sqlite.connection import Connection, SqliteRows, Value, open_sqlite
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.schema import statements
from apportion.stores.sqlite.shared_file import SharedFile
from apportion.stores.sqlite.statements import NOW_MILLISECONDS
from apportion.stores.sqlite.store import in_file
from apportion.stores.sqlite.tasks import SqliteTasks, make_tables
from apportion.stores.task_api import TaskStore
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_rows import ended_task, open_task, queue_control
from apportion.stores.task_values import Worker

Result = TypeVar("Result")
_FAST = Path("/dev/shm")
_BUSY_RATIO = 0.1
_HISTORY = "SELECT revision, key, value, lease FROM event WHERE revision > ? ORDER BY revision, key"
_EFFECTS = "CREATE TABLE IF NOT EXISTS effect (task TEXT)"
_LANES = "SELECT queue, lane, incarnation, epoch, holder, session FROM lane"
_ITEMS = "SELECT key, value, revision, lease FROM item ORDER BY key"


class Contended:
    """A connection that sometimes finds the lock held, as if another process were writing at that moment.

    The clock of the file is that of the world.
    """

    def __init__(self, connection: Connection, is_busy: Callable[[], bool], now_ms: Callable[[], int]) -> None:
        self._connection, self._now_ms = connection, now_ms
        self._is_busy = is_busy
        self.close = connection.close

    @property
    def in_transaction(self) -> bool:
        """See `Connection`."""
        return self._connection.in_transaction

    @property
    def total_changes(self) -> int:
        """See `Connection`."""
        return self._connection.total_changes

    @property
    def text_factory(self) -> Callable[[bytes], Any] | type[str]:
        """See `Connection`."""
        return self._connection.text_factory

    @text_factory.setter
    def text_factory(self, factory: Callable[[bytes], Any] | type[str]) -> None:
        self._connection.text_factory = factory

    def execute(self, statement: str, values: Sequence[Value] = (), /) -> SqliteRows:
        """See `Connection`."""
        if statement == "BEGIN IMMEDIATE" and self._is_busy():
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        statement = statement.replace(NOW_MILLISECONDS, str(self._now_ms()))
        return self._connection.execute(statement, values)


class SqliteBacking:
    """A file that handles of the shipped store use, and a connection that looks at it after every step."""

    has_transactions = True

    def __init__(self, clock: Clock, now: Callable[[], float]) -> None:
        self.incarnation = 1
        self._now = now
        self._space = Space(NAMESPACE)
        self._directory = tempfile.TemporaryDirectory(dir=_FAST if _FAST.is_dir() else None, prefix="apportion-sim-")
        self._path = Path(self._directory.name) / "store.db"
        self._observer = sqlite3.connect(self._path, timeout=0, isolation_level=None)
        self._observer.execute("PRAGMA journal_mode=WAL")
        for statement in statements(since=0):
            self._observer.execute(statement)
        self._name_life()
        self._connecting = False
        self._version = 0
        self._revision = -1
        self._items: dict[str, Item] = {}
        self._files: list[SqliteFile] = []
        self._view, self._has_tasks, self._offset_ms = TaskView(now), False, 0

    def handle(self, clock: Clock) -> CoordinationStore:
        """See `Backing`."""
        with self._connected(clock) as shared:
            return _at_once(in_file(shared, NAMESPACE))

    def tasks(self, clock: Clock) -> TaskStore:
        """See `Backing`."""
        with self._connected(clock) as shared:
            _at_once(shared.file.open())
            make_tables(self._observer)
            self._observer.execute(_EFFECTS)
            self._has_tasks = True
            return SqliteTasks(shared, _at_once(shared.file.read(make_tables)), clock)

    def look(self) -> list[Fact]:
        """See `Backing`."""
        if self._revision < 0:
            return [self._began(), *self._look_at_tasks()]
        version = self._observer.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return []
        self._version = version
        return [*self._look(), *self._look_at_tasks()]

    def _look(self) -> list[Fact]:
        items = self._read()
        changes: dict[int, list[tuple[str, Item | None]]] = {}
        for revision, key, value, lease in self._observer.execute(_HISTORY, (self._revision,)):
            text = self._space.text(key)
            item = None if value is None else Item(key=text, value=value, revision=revision, lease=lease)
            self._items.pop(text, None)
            if item is not None:
                self._items[text] = item
            changes.setdefault(revision, []).append((text, item))
        keys = sorted({*items, *self._items})
        untold = [(key, items.get(key)) for key in keys if items.get(key) != self._items.get(key)]
        self._items = items
        self._revision = ledger.state(self._observer).revision
        facts: list[Fact] = [self._changed(revision, each) for revision, each in changes.items()]
        return [*facts, self._changed(self._revision, untold)] if untold else facts

    def save(self) -> object:
        """See `Backing`."""
        copy = sqlite3.connect(":memory:")
        self._observer.backup(copy)
        return copy

    def restore(self, copy: object) -> None:
        """See `Backing`. The copy is written over the file, and the file gets another incarnation."""
        assert isinstance(copy, sqlite3.Connection)
        self.incarnation += 1
        copy.backup(self._observer)
        self._name_life()
        self._revision = -1
        self._view.begin()
        if self._has_tasks:  # the program makes it where it starts
            self._observer.execute(_EFFECTS)

    def overwrite(self, schedule: TaskSchedule) -> None:
        """See `Backing`."""
        values = [*changed_values(schedule), schedule.last_slot, schedule.queue, schedule.name]
        marks = ", ".join("?" * (len(values) - 2))
        self._observer.execute(
            f"UPDATE schedule SET ({CHANGED}, last_slot) = ({marks}) WHERE queue = ? AND name = ?", values
        )
        self._version = -1

    def damage(self, task: str, values: Mapping[str, object]) -> None:
        """See `Backing`."""
        self._view.hide(task)
        for table in ("task", "outcome"):
            known = {column for _, column, *_ in self._observer.execute(f"PRAGMA table_info({table})")}
            for column, value in values.items():
                if column in known:
                    text = f"UPDATE OR IGNORE {table} SET {column} = {_mark(value)} WHERE id = ?"
                    self._observer.execute(text, (_bound(value), task))
            if not values:
                self._observer.execute(f"DELETE FROM {table} WHERE id = ?", (task,))
        self._version = -1

    def step_clock(self, milliseconds: int) -> None:
        """See `Backing`."""
        self._offset_ms += milliseconds

    def now_ms(self) -> int:
        """See `Backing`."""
        return round((BEGIN_OF_TIME + self._now()) * 1_000) + self._offset_ms

    def compact(self) -> None:
        """See `Backing`."""
        ledger.forget(self._observer, ledger.state(self._observer).revision)

    def rearm(self) -> None:
        """See `Backing`."""
        self._observer.execute("UPDATE lease SET renewals = renewals + 1")

    def close(self) -> None:
        """See `Backing`."""
        for file in self._files:
            file.close()
        self._observer.close()
        self._directory.cleanup()

    def _open(self, path: Path) -> Connection:
        is_busy = lambda: not self._connecting and random.random() < _BUSY_RATIO  # noqa: E731
        return Contended(open_sqlite(path), is_busy, self.now_ms)

    @contextmanager
    def _connected(self, clock: Clock) -> Iterator[SharedFile]:
        """Open the file for a handle; within the block, no lock is held."""
        file = SqliteFile(self._path, "sqlite:///store.db", clock, opener=self._open)
        self._files.append(file)
        self._connecting = True
        yield SharedFile(file, clock)
        self._connecting = False

    def _look_at_tasks(self) -> list[TasksChanged]:
        has_tables = self._has_tasks and self._observer.execute(task_statements.HAS_TASKS).fetchone()[0]
        if not has_tables:  # a copy from before the first task
            return []
        ask = self._observer.execute
        tasks = TaskLedger(
            open={task.id: task for task in map(open_task, self._sound(task_statements.OPEN))},
            ended={ended.task.id: ended for ended in map(ended_task, self._sound(task_statements.ENDED))},
            controls={queue: queue_control(row) for queue, *row in ask(task_statements.CONTROLS)},
            workers={session: Worker(session=session, queues=()) for (session,) in ask("SELECT session FROM worker")},
            lanes={(queue, lane): record_of(rest) for queue, lane, *rest in ask(_LANES)},
        )
        alive = {lease for (lease,) in ask("SELECT id FROM lease")}
        effects = dict(ask("SELECT task, count(*) FROM effect GROUP BY task").fetchall())
        rows = [schedule_of(row) for row in ask(f"SELECT {COLUMNS} FROM schedule")]
        marks: dict[SchedulePlace, tuple[SlotMark, ...]] = {}
        for queue, name, *mark in ask(f"SELECT {MARK_COLUMNS} FROM slot_mark ORDER BY slot") if rows else ():
            marks[queue, name] = (*marks.get((queue, name), ()), mark_of(tuple(mark)))
        return self._view.look(
            tasks,
            incarnation=self.incarnation,
            now_ms=self.now_ms(),
            alive=alive,
            effects=effects,
            schedules={(row.queue, row.name): row for row in rows},
            marks=marks,
        )

    def _sound(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of tasks or of outcomes that were never damaged; both have their id as the fourth value."""
        damaged = self._view.damaged
        if not damaged:
            return self._observer.execute(statement).fetchall()
        with any_text(self._observer):
            return [row for row in self._observer.execute(statement).fetchall() if row[3] not in damaged]

    def _name_life(self) -> None:
        """Number the lives from one: the file's own numbers would come from the machine's time."""
        self._observer.execute("UPDATE meta SET incarnation = ?", (self.incarnation,))

    def _read(self) -> dict[str, Item]:
        rows = self._observer.execute(_ITEMS).fetchall()
        items = (
            Item(key=self._space.text(key), value=value, revision=at, lease=lease) for key, value, at, lease in rows
        )
        return {item.key: item for item in items}

    def _began(self) -> Began:
        self._items = self._read()
        self._revision = ledger.state(self._observer).revision
        self._version = self._observer.execute("PRAGMA data_version").fetchone()[0]
        return Began(
            at=self._now(), incarnation=self.incarnation, revision=self._revision, items=tuple(self._items.values())
        )

    def _changed(self, revision: int, items: list[tuple[str, Item | None]]) -> Changed:
        return Changed(at=self._now(), incarnation=self.incarnation, revision=revision, items=tuple(items))


def _mark(value: object) -> str:
    """Return the place of a value in a statement; a text may be no UTF-8."""
    return "CAST(? AS TEXT)" if isinstance(value, str) else "?"


def _bound(value: object) -> object:
    return value.encode(errors="surrogateescape") if isinstance(value, str) else value


def _at_once(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that never waits: in a world, all transactions are over at the end of a step."""
    try:
        while coroutine.send(None) is None:
            pass  # it lets other tasks run first, and there are none
    except StopIteration as done:
        result: Result = done.value
        return result
    raise InvariantBroken("the store waits for a lock that nobody in this world can hold")
