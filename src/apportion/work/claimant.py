"""Claimant: the part of a worker on the I/O thread. It keeps the session, claims tasks, and settles their ends.

Promises: after a failure, and once per time to live, the claimant compares its claims with those in the store. It gives
back the claims that it does not know. The end of a session cancels all its runs. The next session reports the ended one
to the store, so that its end does not count as a death. After its deadline, a session claims nothing.
Refuses: to call a task function. The claimant passes claims to callbacks, and receives their ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace

from apportion.errors import ClaimLost, LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.groups.session import SharedSessions
from apportion.runtime.log_report import report
from apportion.runtime.simulated import clock_here
from apportion.stores.catalog import connect_tasks
from apportion.stores.task_api import TaskStore, TaskTransactions
from apportion.stores.task_control import Listing
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import Claim, Note, Receipt, Settlement, Worker
from apportion.work.attempts import Attempts
from apportion.work.cron.scheduler import ScheduledHere, Scheduler
from apportion.work.lanes.lanes import Lanes
from apportion.work.lanes.lanes_of_worker import LanesOfWorker, no_lanes
from apportion.work.session import WorkerSession
from apportion.work.worker_pace import Pace

logger: logging.Logger = logging.getLogger("apportion.work")
_POLL_SECONDS, _AGAIN_SECONDS, _BEAT_SECONDS = 1.0, 0.25, 1.0
_MOST_CLAIMS, _MOST_SETTLED = 500, 500
_AHEAD_SECONDS = 0.25  # the worker also claims the tasks that it can begin within this time
_OUTAGES = (StoreDenied, StoreUnavailable, StoreWentBack)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hears:
    """The callbacks for the news of a claimant. Each is called on the I/O thread, and must not block."""

    claimed: Callable[[list[Claim], int], None]
    cancelled: Callable[[list[Receipt]], None]
    lost: Callable[[int], None]
    moved: Callable[[frozenset[int]], None]
    failed: Callable[[], None]


class Claimant:
    """The claims of one worker in one store."""

    def __init__(
        self,
        tasks: TaskStore,
        sessions: SharedSessions,
        worker: Worker,
        *,
        ttl_seconds: float,
        hears: Hears,
        attempts: Attempts,
        lanes: Lanes,
    ) -> None:
        self._tasks, self._worker, self._hears, self._attempts = tasks, worker, hears, attempts
        self._ttl_seconds, self._clock = ttl_seconds, clock_here()
        self._session = WorkerSession(sessions, ttl_seconds, missed=self._lose)
        self.transactions: TaskTransactions = tasks.transactions  # from any thread
        self.once: Callable[[OnceStep], Awaitable[OnceState]] = tasks.once
        self._loop = asyncio.get_running_loop()
        self._settlements: list[Settlement] = []
        self._open = self._session.open
        self._lanes, self._woken = lanes, lanes.woken
        self._is_leaving = self._is_over = self._is_unsure = False
        self._pace = Pace(self._clock.elapsed())
        self._beat_at = 0.0
        self._read_at = self._clock.elapsed() + ttl_seconds
        self._drained = asyncio.Event()
        self._scheduler: Scheduler | None = None
        self._running = asyncio.ensure_future(self._run())
        self._running.add_done_callback(lambda _: None if self._is_over else hears.failed())

    @classmethod
    async def begin(
        cls,
        url: str,
        worker: Worker,
        *,
        ttl_seconds: float,
        hears: Hears,
        attempts: Attempts,
        schedules: ScheduledHere | None = None,
        lanes: LanesOfWorker = no_lanes,
    ) -> "Claimant":
        """Connect, and begin to claim. The errors are those of `connect_tasks` and of `lanes`.

        The worker adds the declared `schedules` that the store lacks, and fires all schedules of its queues. With None,
        the worker fires no schedule. `lanes` joins the group of a queue with partitions.
        """
        async with AsyncExitStack() as undo:
            tasks = await connect_tasks(url)
            undo.push_async_callback(tasks.close)
            sessions = await SharedSessions.taken(url)
            undo.push_async_callback(sessions.let_go)
            joined = await lanes(tasks, hears.moved, hears.failed)
            undo.pop_all()
        claimant = cls(tasks, sessions, worker, ttl_seconds=ttl_seconds, hears=hears, attempts=attempts, lanes=joined)
        if schedules is not None:
            session = claimant._session
            claimant._scheduler = Scheduler(
                tasks,
                worker.queues,
                schedules,
                by=worker.name,
                life=lambda: session.incarnation,
                failed=hears.failed,
            )
        return claimant

    def settle(self, settlements: list[Settlement], begun: Sequence[Receipt] = ()) -> None:
        """Take the ends of runs, and the runs that have begun; from any thread."""
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(self._settled, settlements, begun)

    def leave(self) -> None:
        """Stop claiming; from any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._leave)

    def seconds_left(self, session: int) -> float:
        """Return the least number of seconds that a session still lasts; from any thread."""
        return self._session.seconds_left() if self._session.id == session else 0.0

    async def note(self, note: Note) -> None:
        """Write a note of a run; `ClaimLost` when its claim is no longer open."""
        if (await self._tasks.beat(note.receipt.session, [note])).refused:
            raise ClaimLost(note.receipt.task, note.receipt.attempt)

    async def drained(self) -> None:
        """Return once a turn has found nothing to claim while no task was open here."""
        await self._lanes.until_settled()
        self._drained.clear()
        self._woken.set()
        await self._drained.wait()

    async def end(self) -> None:
        """Settle the runs that have ended, give back all other claims, and end the session."""
        self._leave()
        self._is_over = True
        self._woken.set()
        try:
            if self._scheduler is not None:
                await self._scheduler.end()
        finally:
            await asyncio.wait([self._running])
            self._attempts.lose()
            async with AsyncExitStack() as ends:
                ends.push_async_callback(self._tasks.close)
                ends.push_async_callback(self._session.end, is_clear=not self._open)
                await self._lanes.end()
        if not self._running.cancelled():
            self._running.result()

    async def _run(self) -> None:
        while not self._is_over:
            self._woken.clear()  # cleared first, so that news during the turn starts the next turn
            if not await self._tried():
                await self._rest()
        await self._last()

    async def _tried(self) -> bool:
        """Make a turn at the store; return whether the next turn should follow at once."""
        try:
            await self._join()
            if self._is_unsure or self._clock.elapsed() >= self._read_at:
                await self._read_back()
            return await self._turn()
        except LeaseLost:
            self._lose(self._session.forget())
            return True
        except _OUTAGES as error:
            if not self._is_unsure:
                words = "tasks: a request to the store failed, and is repeated: %s"
                report(logger, logging.WARNING, words, error)
            self._is_unsure = True
            if isinstance(error, StoreWentBack):
                self._lose(await self._session.give_up())
            await asyncio.sleep(_AGAIN_SECONDS)
            return True

    async def _join(self) -> None:
        """Begin a session if there is none. If the session is over, cancel its runs first."""
        if self._session.is_over:
            self._lose(self._session.forget())
        if self._session.id is None and not self._is_over:
            await self._session.join()
            await self._tasks.wait(0)  # from now on this process helps to end leases, even if this worker is never idle

    def _lose(self, session: int) -> None:
        """Cancel the runs of a session that is over or could not be renewed in time."""
        self._is_unsure = True
        if self._open:
            self._hears.lost(session)
            self._attempts.lose(session)
            self._lanes.release(self._open)
            self._open.clear()

    async def _read_back(self) -> None:
        """Compare the claims in the store with ours: give back unknown claims, cancel runs without a claim.

        A run that has completed its task in a transaction has no claim either. So runs are cancelled only after a
        failure. A turn without a reply may reach the store much later. So the claims are compared once per time to live
        in any case.
        """
        session = self._session.id
        if session is None:
            return
        rows = await self._tasks.query(Listing(session=session, states=("claimed",), most=2 * _MOST_CLAIMS))
        sound = [row for row in rows if row.state == "claimed"]
        held = {Receipt(task=row.id, attempt=row.attempt, session=session): row for row in sound}
        ended = {each.receipt for each in self._settlements}
        unknown = [each for each in self._session.unknown(held) if each not in ended]
        for each in unknown:
            self._attempts.found(held[each], each)
        self._settlements += [
            Settlement(receipt=each, fate="released", reason="the worker does not know this claim") for each in unknown
        ]
        if self._is_unsure:
            gone = self._open - held.keys() - ended
            self._hears.cancelled(_sorted(gone))
            self._lanes.release(gone)
            self._open -= gone
        self._is_unsure, self._read_at = False, self._clock.elapsed() + self._ttl_seconds

    async def _turn(self) -> bool:
        batch = self._settlements[:_MOST_SETTLED]
        session = self._session
        is_idle = self._is_leaving or session.id is None or session.seconds_left() <= 0
        left = len(self._open) - sum(each.receipt in self._open for each in batch)
        capacity = self._capacity()
        half = max(self._worker.concurrency, capacity // 2)  # this half runs while the next turn claims the other half
        want = 0 if is_idle else max(0, min(capacity - left, half))
        if not batch and not want:
            return False
        lanes = self._lanes.owned()
        worker = replace(self._worker, session=session.id or 0, former=tuple(session.former), lanes=lanes)
        answer = await self._tasks.turn(worker, batch, want=want)
        session.former.clear()
        del self._settlements[: len(batch)]
        ended = [each.receipt for each in batch]
        self._open.difference_update(ended)
        self._lanes.release(ended)
        self._open.update(claim.receipt for claim in answer.claims)
        self._attempts.settled(batch, answer.refused)
        self._attempts.claimed(answer.claims)
        self._pace.count(sum(each.fate != "released" for each in batch), self._clock.elapsed())
        if answer.claims:
            held, moved = self._lanes.held(answer.claims)
            self._settlements += moved
            self._hears.claimed(held, session.incarnation)
        elif not (answer.is_cut or self._open or self._settlements) and want and lanes is self._lanes.owned():
            self._drained.set()
        await self._lanes.refused(answer.fenced, session.id or 0)
        return bool(answer.claims or batch or answer.is_cut)

    def _capacity(self) -> int:
        """Return the number of claims to hold: those that start within `_AHEAD_SECONDS` at the measured pace.

        If the process dies, all these tasks become suspects, and other workers run them in child processes.
        """
        ahead = self._pace.per_second * min(self._ttl_seconds / 2, _AHEAD_SECONDS)
        return max(self._worker.concurrency, min(_MOST_CLAIMS, int(ahead)))

    async def _rest(self) -> None:
        """Wait for the end of a run, for a hint of the store, or for the next beat."""
        if not self._settlements and not self._is_over:
            has_room = not self._is_leaving and len(self._open) < self._capacity()
            hint = self._tasks.wait(_POLL_SECONDS) if has_room else asyncio.sleep(_POLL_SECONDS)
            waits = [asyncio.ensure_future(each) for each in (hint, self._woken.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)  # the next turn reports an outage
        await self._beat()

    async def _beat(self) -> None:
        now = self._clock.elapsed()
        session = self._session.id
        if self._open and session is not None and now >= self._beat_at:
            self._beat_at = now + _BEAT_SECONDS
            with suppress(*_OUTAGES):
                answer = await self._tasks.beat(session)
                self._hears.cancelled(list(answer.cancels))

    async def _last(self) -> None:
        """Settle the ends of runs, and give back all other claims, while the session lasts.

        If the store went back to an earlier state, the session ends. The store then gives the tasks of the session to
        other workers.
        """
        ended = {each.receipt for each in self._settlements}
        self._settlements += [
            Settlement(receipt=each, fate="released", reason="the worker left") for each in _sorted(self._open - ended)
        ]
        while self._settlements and self._session.seconds_left() > 0:
            try:
                await self._turn()
            except StoreWentBack:
                await self._session.give_up()
                return
            except _OUTAGES:
                await asyncio.sleep(_AGAIN_SECONDS)

    def _settled(self, settlements: list[Settlement], begun: Sequence[Receipt]) -> None:
        self._attempts.started(begun)
        self._settlements += settlements
        self._woken.set()

    def _leave(self) -> None:
        self._is_leaving = True
        self._lanes.leave()
        self._woken.set()


def _sorted(receipts: Iterable[Receipt]) -> list[Receipt]:
    return sorted(receipts, key=lambda each: (each.task, each.attempt))
