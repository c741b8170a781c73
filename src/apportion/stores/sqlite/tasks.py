"""The tasks in an SQLite file: tables beside those of the coordination store, and one transaction per call.

Promises: an acknowledged enqueue, settlement or command survives a power cut (`synchronous=FULL`). A turn that only
claims uses `NORMAL`: after a lost claim, the task is claimed again. A turn without work takes no write lock.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TypeVar

from apportion.errors import InvalidInput, OutcomeUnknown, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import Clock
from apportion.stores.damage.rows import or_put_aside
from apportion.stores.damage.sqlite import put_aside
from apportion.stores.requests import went_back
from apportion.stores.sqlite import ledger, task_admin
from apportion.stores.sqlite import task_ledger as tasks_in
from apportion.stores.sqlite import task_statements as sql
from apportion.stores.sqlite.connection import Connection, value_of
from apportion.stores.sqlite.file import InDoubt
from apportion.stores.sqlite.keys import marks
from apportion.stores.sqlite.schedules import SCHEDULE_TABLES, SqliteSchedules
from apportion.stores.sqlite.shared_file import SharedFile
from apportion.stores.sqlite.task_once import once
from apportion.stores.sqlite.task_statements import HAS_KEYS, KEY_TABLES
from apportion.stores.sqlite.task_transactions import SqliteTransactions
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Answer, Command, Listing, Question
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import BeatAnswer, NewTask, Note, Settlement, TurnAnswer, Worker
from apportion.stores.url import StoreUrl
from apportion.stores.watchers import Watcher

Result = TypeVar("Result")


class SqliteTasks(TaskStore):
    """One handle of the tasks in a file. It shares the connection with other handles of the process."""

    is_prompt = True

    def __init__(self, shared: SharedFile, incarnation: int, clock: Clock) -> None:
        self._shared, self._file, self._lookout = shared, shared.file, shared.lookout
        self._incarnation = incarnation
        self._watcher: Watcher | None = None
        self._closed = False
        self._marks = marks.Marks(clock)
        self.transactions: SqliteTransactions = SqliteTransactions(shared.file.path, shared.file.name, incarnation)
        self.schedules: SqliteSchedules = SqliteSchedules(self)

    async def enqueue(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        """See `TaskStore`. One write to the disk. Damaged rows are put aside when a unique name meets one."""
        return await self._or_put_aside(lambda: self._enqueue(tasks))

    async def _enqueue(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        answers: tuple[tuple[str, bool], ...] = ()

        def _enqueue(connection: Connection, now: int) -> tuple[tuple[str, bool], ...]:
            nonlocal answers
            answers = tasks_in.enqueue(connection, tasks, now)
            return answers

        try:
            return self._wrote(await self._file.write(self._same(_enqueue)))
        except InDoubt as doubt:
            if await self._has_all([task for task, _ in answers]):
                return self._wrote(answers)
            raise OutcomeUnknown(self._file.name, [each.id for each in tasks], doubt.reason) from doubt

    async def turn(self, worker: Worker, settlements: Sequence[Settlement] = (), *, want: int = 0) -> TurnAnswer:
        """See `TaskStore`. At most one write to the disk. Damaged rows are put aside when a turn meets one."""
        return await self._or_put_aside(lambda: self._turn(worker, settlements, want))

    async def _turn(self, worker: Worker, settlements: Sequence[Settlement], want: int) -> TurnAnswer:
        self._require_open()
        if want:
            self._take_part()
        if want and worker.lanes and self._marks.is_due():
            await self._put_marks_right(worker.queues)
        if not settlements and not worker.former:
            found = self._same(lambda connection, now: tasks_in.has_work(connection, worker, now))
            if not (want and await self._file.read(found)):
                return TurnAnswer()
        flushed = "FULL" if settlements else "NORMAL"
        asked = partial(_turned, worker=worker, settlements=settlements, want=want)
        try:
            work = self._same(lambda connection, now: asked(connection, now=now))
            answer, has_changed = await self._file.write(work, synchronous=flushed)
        except tasks_in.NotAllDone:
            work = self._same(lambda connection, now: asked(connection, now=now, is_one_by_one=True))
            answer, has_changed = await self._file.write(work, synchronous=flushed)
        return self._wrote(answer) if has_changed else answer

    async def beat(self, session: int, notes: Sequence[Note] = ()) -> BeatAnswer:
        work = self._same(lambda connection, _: tasks_in.beat(connection, session, notes))
        return await (self._file.write(work, synchronous="NORMAL") if notes else self._file.read(work))

    async def once(self, step: OnceStep) -> OnceState:
        """See `TaskStore`. Damaged rows are put aside when a step meets one."""
        work = self._same(lambda connection, now: once(connection, step, now))
        return await self._or_put_aside(lambda: self._file.write(work))

    async def query(self, question: Question[Answer]) -> Answer:
        is_listing = isinstance(question, Listing)
        if not is_listing:
            return await self.read(lambda at, now: task_admin.answer(at, question, now))
        self._require_open()
        if self._file.moved:
            await self._file.reopen()
        if not await self._file.read(lambda at: value_of(at, HAS_KEYS)):
            await self._file.write(make_tables)  # the restored copy is older than the first task
        incarnation, found = await self._file.read(
            lambda at: (ledger.state(at).incarnation, task_admin.answer(at, question, tasks_in.now_ms(at)))
        )
        self._incarnation = incarnation
        return found

    async def control(self, command: Command) -> int:
        work = partial(self.write, lambda connection, now: task_admin.control(connection, command, now))
        return await self._or_put_aside(work)

    async def wait(self, seconds: float) -> None:
        self._require_open()
        self._take_part()
        self._lookout.require_running()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lookout.change()

    async def close(self) -> None:
        if self._closed or not self._file.is_ours:
            return
        self._closed = True
        if self._watcher is not None:
            self._lookout.leave(self._watcher)
        self._shared.give_back()

    async def read(self, work: Callable[[Connection, int], Result]) -> Result:
        """Run work that reads, at the time of the file, in the incarnation that this handle knows."""
        return await self._file.read(self._same(work))

    async def write(self, work: Callable[[Connection, int], Result]) -> Result:
        """Run work in a transaction that is flushed, and end the waits for tasks."""
        return self._wrote(await self._file.write(self._same(work)))

    async def _put_marks_right(self, queues: Sequence[str]) -> None:
        wrong = await self.read(lambda connection, _: self._marks.wrong(connection, queues))
        if wrong:
            await self.write(lambda connection, _: marks.free(connection, wrong))

    async def _or_put_aside(self, work: Callable[[], Awaitable[Result]]) -> Result:
        return await or_put_aside(work, lambda: self.write(put_aside), of=sqlite3.DatabaseError)

    def _take_part(self) -> None:
        """Begin to look for ended leases, at the first claim or wait; `close` ends this."""
        if self._watcher is None:
            self._watcher = self._lookout.join(b"", b"")

    async def _has_all(self, ids: list[str]) -> bool:
        """Whether the file has each of these tasks, after a write that confirms the content of the disk."""
        try:
            return await self._file.write(self._same(lambda connection, _: tasks_in.has_all(connection, ids)))
        except (StoreDenied, StoreUnavailable, StoreWentBack):
            return False

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed(self._file.name)
        self._file.require_open()

    def _same(self, work: Callable[[Connection, int], Result]) -> Callable[[Connection], Result]:
        """Return work that gets the time of the file; `StoreWentBack` if the file has another incarnation."""
        self._require_open()

        def _work(connection: Connection) -> Result:
            now, found = tasks_in.time_and_life(connection)
            if found != self._incarnation:
                raise went_back(self._file.name, seen=(self._incarnation, 0), found=(found, 0))
            return work(connection, now)

        return _work

    def _wrote(self, result: Result) -> Result:
        self._lookout.wrote([])
        return result


def _turned(
    connection: Connection,
    *,
    worker: Worker,
    settlements: Sequence[Settlement],
    want: int,
    now: int,
    is_one_by_one: bool = False,
) -> tuple[TurnAnswer, bool]:
    """Make a turn; return its answer, and whether a row has changed. On paused queues, a turn may change no row."""
    before = connection.total_changes
    answer = tasks_in.turn(connection, worker, settlements, want=want, now=now, is_one_by_one=is_one_by_one)
    return answer, connection.total_changes > before


def make_tables(connection: Connection) -> int:
    """Make the tables of tasks that are absent, and return the incarnation. `InvalidInput` for another version."""
    if not tasks_version(connection):
        for statement in (*sql.TABLES, *SCHEDULE_TABLES):
            connection.execute(statement)
    if not value_of(connection, HAS_KEYS):
        for statement in KEY_TABLES:
            connection.execute(statement)
    version = tasks_version(connection)
    if version != sql.TASKS_VERSION:
        expected = f"{sql.TASKS_VERSION}, which this release writes"
        raise InvalidInput("version of the tasks", version, expected, "Upgrade apportion on this host.")
    return ledger.state(connection).incarnation


def tasks_version(connection: Connection) -> int:
    """Return the version of the tables of tasks, 0 where there are none."""
    return int(value_of(connection, sql.VERSION)) if value_of(connection, sql.HAS_TASKS) else 0


async def connected(url: StoreUrl, clock: Clock) -> SqliteTasks:
    """Open the tasks in the file of a URL. The first process that opens them makes their tables.

    If the tables exist, nothing is written: a caller may hold the lock of the file to enqueue in its transaction.
    """
    shared = SharedFile.taken(url, clock)
    with ExitStack() as undo:
        undo.callback(shared.give_back)
        await shared.file.open()
        has_tables = await shared.file.read(lambda connection: bool(value_of(connection, HAS_KEYS)))
        make = shared.file.read if has_tables else shared.file.write
        tasks = SqliteTasks(shared, await make(make_tables), clock)
        undo.pop_all()
    return tasks
