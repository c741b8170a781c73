"""The tasks in a PostgreSQL database: tables beside those of the coordination store, one transaction per call.

Calls travel on the link that scans and commits; hints come on the link that watches. A turn that settles only plain
completions is one round trip and one commit, with the new claims in it.
Promises: an acknowledged enqueue, settlement or command is flushed. A turn that only claims is not flushed: after a
power cut, a lost claim is made again. A hint wakes a waiting worker, and without hints the worker polls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from apportion.errors import ApportionError, LeaseLost, OutcomeUnknown, StoreClosed, StoreDenied, StoreUnavailable
from apportion.runtime.clock import Clock
from apportion.runtime.endings import or_undo
from apportion.stores.damage.postgres import put_aside
from apportion.stores.damage.rows import or_put_aside
from apportion.stores.keys.partitions import check_counted
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.postgres.door import Transaction
from apportion.stores.postgres.driver import Parameter, Parameters, Row
from apportion.stores.postgres.errors import MAKE_SCHEMA, TablesAbsent, ValueRefused
from apportion.stores.postgres.link import PostgresLink
from apportion.stores.postgres.links import Links
from apportion.stores.postgres.task_tables import make_tables
from apportion.stores.postgres.tasks import admin as task_admin
from apportion.stores.postgres.tasks import lanes as keyed
from apportion.stores.postgres.tasks import rules
from apportion.stores.postgres.tasks import statements as sql
from apportion.stores.postgres.tasks.floors import Floors
from apportion.stores.postgres.tasks.hints import Hints
from apportion.stores.postgres.tasks.once import once
from apportion.stores.postgres.tasks.rules import Settling
from apportion.stores.postgres.tasks.schedules import PostgresSchedules
from apportion.stores.postgres.tasks.statements import claimed_task, enqueue_statement, turn_values
from apportion.stores.postgres.tasks.transactions import PostgresTransactions
from apportion.stores.postgres.tasks.upkeep import Upkeep
from apportion.stores.postgres.wire import PostgresNoReply
from apportion.stores.requests import went_back
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Answer, Command, Listing, Question
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import BeatAnswer, NewTask, Note, Settlement, TurnAnswer, Worker
from apportion.stores.url import StoreUrl
from apportion.stores.watchers import Watcher

Result = TypeVar("Result")
_DOUBT = "The request may have happened. See if it has before you repeat it."


class PostgresTasks(TaskStore):
    """One handle of the tasks in a database. It shares its links with other handles of the process."""

    is_prompt = True

    def __init__(self, links: Links, incarnation: int, clock: Clock) -> None:
        self._links, self._lookout, self._committing = links, links.lookout, links.committing
        self._leases, self._door, self._name = links.leases, links.door, links.door.name
        self._incarnation = incarnation
        self._clock = clock
        self._floors, self._upkeep = Floors(), Upkeep(clock)
        self._watcher: Watcher | None = None
        self._lanes = keyed.LaneValues()
        self._hints = Hints(links, clock)
        self._closed = False
        self.transactions: PostgresTransactions = PostgresTransactions(
            links.door, allowed=self._require_open, known=lambda: self._known, met=self._met
        )
        self.schedules: PostgresSchedules = PostgresSchedules(self)

    async def enqueue(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        """See `TaskStore`. One round trip, one flush."""
        self._require_open()
        if not tasks:
            return ()
        ids = [each.id for each in tasks]
        statement, values = enqueue_statement(tasks)
        try:
            [row] = await _or_made(
                self._links,
                lambda: self._committing.send(statement, [*self._known, *values], allowed=self._require_open),
            )
        except PostgresNoReply as error:
            if await _has_all(self._committing, ids):
                return tuple((each, True) for each in ids)
            raise OutcomeUnknown(self._name, ids, error.reason) from error
        verdict, incarnation, is_awaited, answers, made, *resized = _values(row)
        self._met(verdict, incarnation)
        if verdict == "resized":
            queue, found = resized
            check_counted(tasks, queue, found)
        self._hints.changed(is_awaited=is_awaited)
        return tuple((each, True) for each in ids) if answers is None else tuple(zip(answers, made, strict=True))

    async def turn(self, worker: Worker, settlements: Sequence[Settlement] = (), *, want: int = 0) -> TurnAnswer:
        """See `TaskStore`. One round trip in the common case; `StoreUnavailable` also if no reply came."""
        return await _or_put_aside(self, lambda: self._turn(worker, settlements, want))

    async def _turn(self, worker: Worker, settlements: Sequence[Settlement], want: int) -> TurnAnswer:
        self._require_open()
        if want:
            self._watcher = self._watcher or self._lookout.join(b"", b"")
        settling = Settling(settlements)
        if not (settlements or want or worker.former):
            return TurnAnswer()
        try:
            if want and self._upkeep.is_due():
                await self.read(self._upkeep.done)
            answer = None
            if not (settling.rare or worker.former):
                answer = await self._common(worker, settling, want)
            if answer is None:
                answer = await self._transact(lambda at: self._rare(at, worker, settling, want))
        except StoreUnavailable:
            self._floors = Floors()  # a server may give positions twice after a crash without a flush
            raise
        return replace(answer, refused=settling.refused())

    async def beat(self, session: int, notes: Sequence[Note] = ()) -> BeatAnswer:
        async def _beat(transaction: Transaction) -> BeatAnswer:
            await self._begun(transaction, is_durable=False)
            return await rules.beat(transaction, session, notes)

        return await self._transact(_beat)

    async def once(self, step: OnceStep) -> OnceState:
        async def _once(transaction: Transaction) -> OnceState:
            now, _ = await self._begun(transaction, is_durable=True)
            return await once(transaction, step, now)

        return await _or_put_aside(self, lambda: self._transact(_once))

    async def query(self, question: Question[Answer]) -> Answer:
        async def _query(transaction: Transaction) -> tuple[int, Answer]:
            await transaction.ask(sql.SNAPSHOT)
            rows: list[Any] = await transaction.ask(sql.STATE)
            [(incarnation, now)] = rows
            if not isinstance(question, Listing):
                self._met("read", incarnation)
            return incarnation, await task_admin.answer(transaction, question, now)

        incarnation, found = await self._transact(_query)
        if incarnation != self._incarnation:
            self._incarnation, self._floors = incarnation, Floors()
        return found

    async def control(self, command: Command) -> int:
        work = partial(self.write, lambda transaction, now: task_admin.control(transaction, command, now))
        return await _or_put_aside(self, work)

    async def wait(self, seconds: float) -> None:
        self._require_open()
        self._watcher = self._watcher or self._lookout.join(b"", b"")
        self._lookout.require_running()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hints.ask()
                await self._lookout.change_of_tasks()

    async def close(self) -> None:
        if self._closed or not self._links.ours:
            return
        self._closed = True
        if self._watcher is not None:
            self._lookout.leave(self._watcher)
        self._hints.close()
        await self._links.give_back()

    async def read(self, work: Callable[[Transaction], Awaitable[Result]]) -> Result:
        """Run work that reads in one transaction; `StoreWentBack` if the store has another incarnation."""

        async def _read(transaction: Transaction) -> Result:
            [(incarnation, _)] = await transaction.ask(sql.STATE)
            self._met("read", incarnation)
            return await work(transaction)

        return await self._transact(_read)

    async def look(self, statement: str, values: Parameters) -> Row:
        """Return the row of a statement that reads; `StoreWentBack` as in `read`. The row begins with `STATE`."""
        ask = partial(self._committing.ask, statement, values, allowed=self._require_open)
        [row] = await _or_made(self._links, ask)
        self._met("read", row[0])
        return row

    async def write(self, work: Callable[[Transaction, int], Awaitable[Result]]) -> Result:
        """Run work in one flushed transaction, with the time of the store; then send a hint of new tasks."""

        async def _write(transaction: Transaction) -> tuple[Result, bool]:
            now, is_awaited = await self._begun(transaction, is_durable=True)
            return await work(transaction, now), is_awaited

        result, is_awaited = await self._transact(_write)
        self._hints.changed(is_awaited=is_awaited)
        return result

    async def _common(self, worker: Worker, settling: Settling, want: int) -> TurnAnswer | None:
        """Make a turn of the common case. If a rare rule applies, do nothing and return None."""
        began = self._clock.elapsed()
        is_rescan = want > 0 and self._floors.is_rescan(worker.queues, began)
        places = self._floors.places(worker.queues, is_rescan=is_rescan)
        asked = turn_values(worker, settling.done_values(), want, places, is_rescan=is_rescan)
        statement, more = _statement(self._lanes, worker, is_keyed=want > 0 and bool(worker.lanes))
        values = [*self._known, bool(settling.done), *asked, *more]
        try:
            send = partial(self._committing.send, statement, values, allowed=self._require_open)
            answers = await _or_made(self._links, send)
        except PostgresNoReply as error:
            raise StoreUnavailable(self._name, error.reason, _DOUBT) from error
        *rows, last = answers
        verdict, incarnation, _, settled, heads, left_at, oldest_open, mark, *_ = _values(last)
        self._met(verdict, incarnation)
        if verdict == "slow":
            return None
        if verdict == "lease lost":
            raise LeaseLost(worker.session)
        settling.counted |= settling.plain(settled or ())
        if is_rescan:
            now = self._clock.elapsed()
            bounds = {"oldest_open": oldest_open, "mark": mark}
            self._floors.rescanned(worker.queues, left_at, **bounds, now=now, took=now - began)
        if want:
            self._floors.claimed(worker.queues, heads, {(row[10], row[11]): row[12] for row in map(_values, rows)})
        return TurnAnswer(claims=tuple(claimed_task(_values(row), worker.session) for row in rows))

    async def _rare(self, transaction: Transaction, worker: Worker, settling: Settling, want: int) -> TurnAnswer:
        """Make a turn under all rules; its answer lacks the refused receipts, which `settling` has."""
        now, is_awaited = await self._begun(transaction, is_durable=bool(settling.first))
        if want and not await transaction.ask(sql.LEASE, [worker.session]):
            raise LeaseLost(worker.session)
        for lived in worker.former:
            await rules.outlive(transaction, lived, now)
        settling.counted = await rules.settle(transaction, settling.rare, now)
        if settling.done:
            places = await transaction.ask(sql.DONE, settling.done_values())
            settling.counted |= settling.plain([int(str(place)) for (place,) in places])
        if settling.rare:
            self._hints.changed(is_awaited=is_awaited)
        if not want:
            return TurnAnswer()
        lows, fenced = self._floors.places(worker.queues, is_rescan=True), tuple[OwnedLane, ...]()
        if worker.lanes:
            worker, fenced = await keyed.shown(transaction, worker)
        asked = turn_values(worker, Settling(()).done_values(), want, lows, is_rescan=False)
        statement, more = _statement(self._lanes, worker, is_keyed=bool(worker.lanes))
        *rows, last = await transaction.ask(statement, [*self._known, bool(settling.first), *asked, *more])
        if last[0] == "begun":
            return TurnAnswer(claims=tuple(claimed_task(_values(row), worker.session) for row in rows), fenced=fenced)
        return replace(await rules.claim(transaction, worker, lows, want, now), fenced=fenced)

    async def _begun(self, transaction: Transaction, *, is_durable: bool) -> tuple[int, bool]:
        """Begin a transaction that writes; return the time of the store, and True if a worker waits for a hint."""
        [(verdict, incarnation, now, is_awaited, *_)] = await transaction.ask(sql.BEGIN, [*self._known, is_durable])
        self._met(verdict, incarnation)
        return int(str(now)), bool(is_awaited)

    async def _transact(self, work: Callable[[Transaction], Awaitable[Result]]) -> Result:
        self._require_open()
        try:
            transact = partial(self._committing.transact, work, allowed=self._require_open)
            return await _or_made(self._links, transact)
        except PostgresNoReply as error:
            raise StoreUnavailable(self._name, error.reason, _DOUBT) from error

    def _require_open(self) -> None:
        if not self._links.ours:
            raise StoreClosed(self._name, "it belongs to the parent of this forked process")
        if self._closed:
            raise StoreClosed(self._name)

    @property
    def _known(self) -> tuple[int, int]:
        return self._incarnation, self._leases.lock_milliseconds

    def _met(self, verdict: object, incarnation: object) -> None:
        """Raise `StoreWentBack` if the store has another incarnation than this handle knows."""
        if verdict == "moved" or incarnation != self._incarnation:
            self._links.doubt()
            raise went_back(self._name, seen=(self._incarnation, 0), found=(int(str(incarnation)), 0))


def _statement(lanes: keyed.LaneValues, worker: Worker, *, is_keyed: bool) -> tuple[str, list[Parameter]]:
    """Return the statement of a turn that claims, and the values after those of `turn_values`."""
    return (sql.KEYED_TURN, lanes.of(worker.lanes)) if is_keyed else (sql.TURN, [])


async def _or_put_aside(tasks: PostgresTasks, work: Callable[[], Awaitable[Result]]) -> Result:
    aside = partial(tasks.write, lambda transaction, now: put_aside(transaction.ask, now))
    return await or_put_aside(work, aside, of=ValueRefused)


async def _or_made(links: Links, ask: Callable[[], Awaitable[Result]]) -> Result:
    """Send a request. If its tables do not exist, as in an older copy of the database, make them and send it again."""
    try:
        return await ask()
    except TablesAbsent:
        links.doubt()  # the link then makes the other tables of the schema, if they do not exist either
        await _made(links)
    return await ask()


async def _has_all(link: PostgresLink, ids: list[str]) -> bool:
    """Whether the store has each of these tasks, open or ended."""
    try:
        return {task for (task,) in await link.ask(sql.KNOWN, [ids, ids])} >= set(ids)
    except ApportionError:
        return False


def _values(row: Row) -> Any:  # noqa: ANN401 - foreign
    return row


async def connected(url: StoreUrl, clock: Clock) -> PostgresTasks:
    """Open the tasks in the database of a URL; the first handle makes their tables."""
    links = Links.taken(url, clock)
    async with or_undo(links.give_back):
        await links.committing.open()
        return PostgresTasks(links, await _made(links), clock)


async def _made(links: Links) -> int:
    """Make the tables if they are absent; return the incarnation of the store."""

    async def _make(transaction: Transaction) -> int:
        await make_tables(transaction.ask)
        [(incarnation, _)] = await transaction.ask(sql.STATE)
        return int(str(incarnation))

    name = links.door.name
    try:
        return await links.committing.transact(_make)
    except StoreDenied as error:
        reason = "its tables of tasks do not exist, or this user may not use or create them"
        raise StoreDenied(name, reason, MAKE_SCHEMA) from error
    except PostgresNoReply as error:
        raise StoreUnavailable(name, error.reason) from error
