"""The task functions of the tasks' scenario: some succeed, some fail, and some end their process.

Once nothing fails any more, all of them are quick, and those that fail by chance succeed. A function learns of its
world from `STAGE`, which its process has inherited.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from apportion.sim.facts import RunBegan, RunEnded
from apportion.sim.world.process import running_name
from apportion.sim.world.world import World
from apportion.work.current import current_task
from apportion.work.facade import Queue
from apportion.work.retry_budget import GiveUp, Snooze
from apportion.work.running_task import CURRENT

URL, NAME = "sqlite:///work.db", "q"
LIMIT_SECONDS = 0.4
_QUICKLY: dict[str, Any] = {"first_delay": timedelta(seconds=0.2), "longest_delay": timedelta(seconds=1)}
DECLARED = Queue(URL, NAME)


class Stage:
    """The world as far as task functions know it; `has_transactions` is for stores that are databases."""

    def __init__(self, world: World, *, has_transactions: bool) -> None:
        self.world, self.has_transactions = world, has_transactions
        self.calmed = asyncio.Event()
        self.last_trouble = 0.0

    def note_trouble(self) -> None:
        """Note that service was disturbed until now: a process was ended, or a queue stood."""
        self.last_trouble = self.world.now

    async def is_calm_after(self, seconds: float) -> bool:
        """Return whether nothing fails any more: after some seconds, or as soon as this is so."""
        try:
            async with asyncio.timeout(seconds):
                await self.calmed.wait()
        except TimeoutError:
            return False
        return True

    async def take(self, most_seconds: float) -> None:
        """Take some time, but none once nothing fails any more."""
        await self.is_calm_after(random.uniform(0, most_seconds))

    @contextmanager
    def run(self) -> Iterator[int]:
        """Tell the world when a run begins and ends."""
        number, process, task = self.world.troubles.number(), running_name(), CURRENT.get()
        assert task is not None
        claim = task.claim
        self.world.trace.cover(f"runs {claim.name}{' as a suspect' if claim.is_suspect else ''}")
        self.world.record(
            RunBegan(
                at=self.world.now,
                run=number,
                process=process,
                receipt=claim.receipt,
                is_suspect=claim.is_suspect,
                is_child=process.startswith("(child"),
            )
        )
        try:
            yield number
        finally:
            self.world.record(RunEnded(at=self.world.now, run=number))

    async def die(self, run: int) -> None:
        """End the process that runs a task."""
        process = running_name()
        self.note_trouble()
        self.world.record(RunEnded(at=self.world.now, run=run, kills=True))
        self.world.kill(process)
        await asyncio.sleep(3_600)


STAGE: ContextVar[Stage] = ContextVar("stage")


@asynccontextmanager
async def _runs(most_seconds: float) -> AsyncIterator[tuple[Stage, int]]:
    stage = STAGE.get()
    with stage.run() as run:
        await stage.take(most_seconds)
        yield stage, run


@DECLARED.task(**_QUICKLY)
async def quick(number: int) -> None:
    """Succeed soon."""
    async with _runs(0.05):
        pass


@DECLARED.task(**_QUICKLY)
def plain(number: int) -> None:
    """Succeed at once, without a loop."""
    with STAGE.get().run():
        pass


@DECLARED.task(priority=1, **_QUICKLY)
async def slow(number: int) -> None:
    """Take up to a time to live, and say how far it is."""
    async with _runs(1.0) as (stage, _):
        await stage.take(1.0)


@DECLARED.task(priority=3, **_QUICKLY)
async def long(number: int) -> None:
    """Take longer than a time to live."""
    async with _runs(5.0):
        pass


@DECLARED.task(**_QUICKLY)
async def steady(number: int) -> None:
    """Take up to a time to live, at the usual priority."""
    async with _runs(2.0):
        pass


@DECLARED.task(failures=3, **_QUICKLY)
async def flaky(number: int) -> None:
    """Fail now and then."""
    async with _runs(0.3) as (stage, _):
        if random.random() < 0.5 and not stage.calmed.is_set():
            raise ValueError("by chance")


@DECLARED.task(failures=2, **_QUICKLY)
async def hopeless(number: int) -> None:
    """Fail always."""
    async with _runs(0.2):
        raise ValueError("always")


@DECLARED.task(priority=0, **_QUICKLY)
async def gives_up(number: int) -> None:
    """Fail for good."""
    async with _runs(0.1):
        raise GiveUp("no use")


@DECLARED.task(**_QUICKLY)
async def snoozes(number: int) -> None:
    """Ask for another time, until nothing fails any more."""
    async with _runs(0.1) as (stage, _):
        if random.random() < 0.6 and not stage.calmed.is_set():
            raise Snooze(after=timedelta(seconds=random.choice([0, 0.3, 1])))


@DECLARED.task(failures=2, time_limit=timedelta(seconds=LIMIT_SECONDS), **_QUICKLY)
async def hangs(number: int) -> None:
    """Never end by itself."""
    async with _runs(0.0):
        await asyncio.Event().wait()


@DECLARED.task(**_QUICKLY)
async def poison(number: int) -> None:
    """End the process that runs it, always."""
    async with _runs(0.3) as (stage, run):
        await stage.die(run)


@DECLARED.task(keep_result=True, **_QUICKLY)
async def answers(number: int) -> int:
    """Return a result that is kept."""
    async with _runs(0.1):
        return number


@DECLARED.task(**_QUICKLY)
async def transfers(number: int) -> None:
    """Write an effect in the transaction that completes the task."""
    async with _runs(0.3) as (stage, _):
        if stage.has_transactions:
            task = current_task()
            with task.transaction() as connection:
                connection.execute("INSERT INTO effect VALUES (?)", (task.id,))
                if random.random() < 0.3 and not stage.calmed.is_set():
                    raise ValueError("rolled back")


@DECLARED.task(**_QUICKLY)
async def notes(number: int) -> None:
    """Say how far it is, if the store listens."""
    async with _runs(0.2) as (stage, _):
        await current_task().progress(0.5, "half")
        await stage.take(0.5)


FUNCTIONS = DECLARED._functions
USUAL = (quick, plain, slow, flaky, snoozes, answers, transfers, notes, long)
BAD = (hopeless, gives_up, hangs, poison)
