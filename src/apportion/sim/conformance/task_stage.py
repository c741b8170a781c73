"""TaskStage: one case's part of the tasks of a store: handles, a queue, and workers with sessions of their own.

Promises: no case sees the tasks of another one, because its queues begin with the name of its namespace.
"""

from collections.abc import Awaitable, Callable, Sequence
from uuid import uuid4

from apportion.sim.conformance.case import Case, case
from apportion.sim.conformance.context import Stage
from apportion.sim.conformance.expect import holds, same
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Listing, Overview, StoreTime, Survey, TaskRow
from apportion.stores.task_values import Claim, Fate, NewTask, Receipt, Settlement, TaskState, TurnAnswer, Worker

STATES: tuple[TaskState, ...] = ("ready", "delayed", "claimed", "done", "dead", "cancelled")
FATES: tuple[Fate, ...] = ("done", "retry", "dead", "released", "crashed", "cancelled")
_LONG_SECONDS = 60.0
_MOST_ROWS = 10_000
_REST_SECONDS = 0.05


class TaskStage:
    """The tasks of one case; `tasks` is the first handle of them."""

    def __init__(self, stage: Stage, tasks: TaskStore) -> None:
        self.stage = stage
        self.tasks = tasks
        self.queue: str = f"{stage.namespace}/q"

    async def handle(self, *, address: tuple[str, int] | None = None) -> TaskStore:
        """Return one more handle, closed at the end of the case."""
        return await self.stage.connect_tasks(address=address)

    def new(self) -> NewTask:
        """Return a new task of the queue."""
        return NewTask(id=uuid4().hex, queue=self.queue, name="f", arguments=b"[]")

    async def add(self, *tasks: NewTask) -> tuple[str, ...]:
        """Enqueue tasks that are all new; return their ids."""
        made = await self.tasks.enqueue(tasks)
        same(tuple((each.id, True) for each in tasks), made, "the tasks that were made")
        return tuple(each.id for each in tasks)

    async def worker(self, *queues: str, ttl_seconds: float | None = None) -> Worker:
        """Return a worker of the queue, or of others, under a new session."""
        stage = self.stage
        lease = await stage.store.grant(ttl_seconds=ttl_seconds or min(_LONG_SECONDS, stage.able.max_ttl_seconds))
        return Worker(session=lease.id, queues=queues or (self.queue,), name="w", host="h", pid=7, concurrency=3)

    async def end(self, *workers: Worker) -> None:
        """End the sessions of workers."""
        store = self.stage.store
        for each in workers:
            await store.revoke(each.session)

    async def claim(self, worker: Worker, *, want: int = 1, of: TaskStore | None = None) -> tuple[Claim, ...]:
        """Claim tasks."""
        return (await (of or self.tasks).turn(worker, want=want)).claims

    async def claimed(self, worker: Worker, *, within: float | None = None) -> Claim:
        """Return the next claim of a worker, once there is one. Meanwhile the store ends the leases of dead workers."""
        within = self.stage.patience_seconds if within is None else within
        clock = self.stage.clock
        ends = clock.elapsed() + within
        while not (claims := await self.claim(worker)):
            holds(clock.elapsed() < ends, f"a task is claimed within {within:g} s")
            await self.tasks.wait(_REST_SECONDS)
        return claims[0]

    async def settle(self, worker: Worker, *settlements: Settlement, of: TaskStore | None = None) -> TurnAnswer:
        """Settle claims, and fail if one of them is not open."""
        answer = await (of or self.tasks).turn(worker, settlements)
        same((), answer.refused, "the receipts that were refused")
        return answer

    async def refused(self, worker: Worker, receipt: Receipt, fates: Sequence[Fate] = FATES) -> None:
        """Fail unless a receipt is refused for each fate, and nothing changes."""
        before = await self.rows()
        for fate in fates:
            settlement = Settlement(receipt=receipt, fate=fate, result=b"no" if fate == "done" else None)
            answer = await self.tasks.turn(worker, [settlement])
            same((receipt,), answer.refused, f"the receipts that were refused as {fate}")
        plain = await self.tasks.turn(worker, [Settlement(receipt=receipt, fate="done")])
        same((receipt,), plain.refused, "the receipts that were refused as done, without a result")
        same(before, await self.rows(), "the tasks after settlements that were refused")

    async def rows(self, *states: TaskState, of: TaskStore | None = None) -> tuple[TaskRow, ...]:
        """Return the tasks of the queue in some states, or in any."""
        return await self.find(Listing(queue=self.queue, states=states or STATES, most=_MOST_ROWS), of=of)

    async def row(self, task: str) -> TaskRow | None:
        """Return a task, None for one that is missing."""
        found = await self.find(Listing(tasks=(task,)))
        return found[0] if found else None

    async def states(self, *tasks: str) -> list[TaskState]:
        """Return the states of tasks, in their order."""
        found = [await self.row(each) for each in tasks]
        return ["missing" if each is None else each.state for each in found]

    async def find(self, listing: Listing, *, of: TaskStore | None = None) -> tuple[TaskRow, ...]:
        """Return the tasks of a listing."""
        return await (of or self.tasks).query(listing)

    async def overview(self) -> Overview:
        """Return the numbers of all queues, and the workers."""
        return await self.tasks.query(Survey())

    async def now_ms(self) -> int:
        """Return the time of the store."""
        return await self.tasks.query(StoreTime())


def done(claim: Claim) -> Settlement:
    """Return the settlement of a claim after a good run."""
    return ended(claim, "done")


def ended(claim: Claim, fate: Fate) -> Settlement:
    """Return the settlement of a claim with a fate."""
    return Settlement(receipt=claim.receipt, fate=fate)


def task_case(*needs: str) -> Callable[[Callable[[TaskStage], Awaitable[None]]], Case]:
    """Make a case of a function on the tasks of a store; a store without tasks is excused."""

    def _made(run: Callable[[TaskStage], Awaitable[None]]) -> Case:
        async def _run(stage: Stage) -> None:
            await run(TaskStage(stage, await stage.connect_tasks()))

        _run.__name__, _run.__doc__ = str(getattr(run, "__name__", "")), run.__doc__
        return case(*needs)(_run)

    return _made
