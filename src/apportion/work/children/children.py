"""Children: the processes in which a worker runs attempts that could end the worker, or that only a kill can stop.

Promises: a child runs one attempt at a time. There are at most as many children as attempts that may run at a time. If
a child ends without an answer, this counts as one crash of its task. At its time limit, a plain function is killed with
its child. The cancellation of a run kills the child. An idle child ends after some seconds, unless it is to be kept.
"""

import asyncio
import logging
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from apportion.errors import ClaimLost, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.endings import or_undo
from apportion.runtime.simulated import Machine, clock_here, simulated
from apportion.stores.task_values import Claim, Note, Settlement
from apportion.work.attempt import attempt, failed
from apportion.work.children.nursery import Child, Nursery, import_path
from apportion.work.function import AnyTaskFunction
from apportion.work.running_task import Desk, RunningTask
from apportion.work.threads import Threads
from apportion.work.time_limit import TimeLimit

_LINGER_SECONDS = 2.0
logger: logging.Logger = logging.getLogger("apportion.work")
_TOLD_SECONDS = 0.5  # the time between two messages to a child about the session's deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt for a child."""

    function: AnyTaskFunction
    place: tuple[str, str]
    claim: Claim
    incarnation: int
    desk: Desk


def place_of(function: AnyTaskFunction) -> tuple[str, str] | None:
    """Return the module and the name by which another process can import a task function; None if it cannot."""
    module, name = function.function.__module__, function.function.__qualname__
    if module == "__main__" or "<" in name:
        return None
    try:
        found = attrgetter(name)(sys.modules[module])
    except (AttributeError, KeyError):
        return None
    return (module, name) if found is function else None


class Children:
    """The children of one worker, on the event loop of the program: at most `most`; `kept` of them stay when idle."""

    def __init__(self, url: str, *, most: int, kept: int = 0) -> None:
        self._url, self._kept = url, kept
        self._places = asyncio.Semaphore(most)
        self._free: list[Child] = []
        self._nursery = Nursery()
        self._not_found: set[str] = set()

    async def warm(self) -> None:
        """Prepare to make children fast."""
        await self._nursery.start()

    def place(self, function: AnyTaskFunction) -> tuple[str, str] | None:
        """Return the module and the name of a function for a child; None if it is known that no child can import it."""
        return None if function.task_options.name in self._not_found else place_of(function)

    def serve(self, function: AnyTaskFunction, claim: Claim) -> bool:
        """Whether an attempt belongs in a child process.

        A suspect belongs in a child. A plain function belongs in a child if it has a time limit, or if children are
        kept.
        """
        is_plain = not function.is_async
        return claim.is_suspect or (is_plain and bool(self._kept or function.task_options.time_limit))

    async def run(self, job: Job) -> Settlement | None:
        """Run an attempt in a child, and return its settlement; None if a child cannot import the function."""
        async with self._places:
            if (machine := simulated()) is not None:
                return await _in_world(machine, job)
            while (child := self._taken()) is not None:
                with suppress(_Stale):
                    return await self._ran(child, job)
            return await self._ran(await self._nursery.born(), job)

    async def close(self) -> None:
        """End all children, once no attempt runs."""
        while self._free:
            await self._free.pop().killed()
        await self._nursery.close()

    def _taken(self) -> Child | None:
        """Return a free child that is alive, None if there is none."""
        while self._free:
            if (child := self._free.pop()).lives:
                return child
        return None

    async def _ran(self, child: Child, job: Job) -> Settlement | None:
        receipt = job.claim.receipt
        try:
            async with or_undo(child.killed), asyncio.timeout(None) as limit:
                said = await self._answer(child, job, limit)
        except TimeoutError:
            told = TimeoutError(f"it took longer than {job.function.task_options.time_limit}")
            job.desk.attempts.fail(receipt, told)
            return failed(job.claim, job.function, told)
        if said is None:
            return Settlement(receipt=receipt, fate="crashed", reason=f"its process ended with {await child.ended()}")
        self._put_back(child)
        if "lacks" in said:
            self._not_found.add(job.claim.name)
            logger.warning("task %s runs in its worker: a child cannot import %s", receipt.task, said["lacks"])
            return None
        if said["is_completed"]:
            job.desk.attempts.complete(receipt)
        return Settlement(
            receipt=receipt,
            fate=said["fate"],
            reason=said["reason"],
            delay_ms=said["delay_ms"],
            result=None if said["result"] is None else b64decode(said["result"]),
            is_repeat=said["is_completed"],
            has_run=said["has_run"],
        )

    async def _answer(self, child: Child, job: Job, limit: asyncio.Timeout) -> dict[str, Any] | None:
        """Return the answer of a child, None if it ended without one. The limit counts from the start of the run."""
        now, has_begun = asyncio.get_running_loop().time, child.is_new
        child.say(_order(self._url, job))
        with _telling(child, job):
            while (said := await child.heard()) is not None:
                if "note" in said:
                    child.say(await _noted(job, said["note"]))
                elif "seconds" not in said:
                    return said
                else:
                    has_begun = True
                    limit.reschedule(None if said["seconds"] is None else now() + said["seconds"])
        if not has_begun:
            raise _Stale
        return None

    def _put_back(self, child: Child) -> None:
        child.is_new = False
        self._free.append(child)
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._end_surplus, child)

    def _end_surplus(self, child: Child) -> None:
        if child in self._free and len(self._free) > self._kept:
            self._free.remove(child)
            child.kill()


async def _in_world(machine: Machine, job: Job) -> Settlement:
    """Run an attempt in a child of a simulated process."""
    length = job.function.task_options.time_limit
    task = RunningTask(job.claim, job.incarnation, job.desk, None if length is None else TimeLimit(length))
    settlement = await machine.in_child(attempt(job.function, task, Threads().run))
    return settlement or Settlement(receipt=job.claim.receipt, fate="crashed", reason="its process ended")


class _Stale(Exception):
    """A child that has run other attempts ended before it began this attempt."""


def _order(url: str, job: Job) -> dict[str, Any]:
    token = job.claim.lane_token
    parts = {"receipt": job.claim.receipt._asdict(), "lane_token": None if token is None else asdict(token)}
    claim = job.claim._asdict() | parts | {"arguments": b64encode(job.claim.arguments).decode()}
    said = {"claim": claim, "url": url, "place": job.place, "incarnation": job.incarnation, "path": import_path()}
    return said | {"until": _until(job)}


@contextmanager
def _telling(child: Child, job: Job) -> Iterator[None]:
    """Within the block, send the deadline of the worker's session to a child again and again."""
    telling = asyncio.ensure_future(_tell(child, job))
    try:
        yield
    finally:
        telling.cancel()


async def _tell(child: Child, job: Job) -> None:
    while True:
        await asyncio.sleep(_TOLD_SECONDS)
        child.say({"until": _until(job)})


def _until(job: Job) -> float:
    return clock_here().elapsed() + job.desk.seconds_left(job.claim.session)


async def _noted(job: Job, note: dict[str, Any]) -> dict[str, Any]:
    """Write a note of a run, and return the answer to its child."""
    try:
        await job.desk.note(Note(receipt=job.claim.receipt, progress=note["progress"], text=note["text"]))
    except ClaimLost:
        return {"noted": "lost"}
    except (StoreDenied, StoreUnavailable) as error:
        return {"noted": error.reason}
    except StoreWentBack as error:
        return {"noted": f"{error}"}
    return {"noted": ""}
