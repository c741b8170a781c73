"""Child: a process that runs attempts for a worker, one at a time. A task that ends its child ends no other task.

    serve(SOCKET)

A child runs suspects, plain functions with a time limit, and all plain functions of a worker with `processes`. The
worker and the child send frames on one socket. A job contains the claim. While the job runs, the worker sends the
deadline of the session again and again. The child reports the begin of the function, its notes and its new time limits,
and at last the end of the attempt.
Promises: when the worker dies, the socket closes, and the child ends at once. If a thread of a job still runs after the
answer, the child ends too, and takes no other job.
Refuses: functions that the child cannot import. The child reports this, and the worker runs such a function itself.
"""

import asyncio
import ctypes
import os
import signal
import socket
import sys
import threading
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from importlib import import_module
from operator import attrgetter
from queue import SimpleQueue
from typing import Any

from apportion.errors import ClaimLost, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.runtime.io_thread import io_thread
from apportion.runtime.simulated import clock_here
from apportion.stores.catalog import connect_tasks, shown_url
from apportion.stores.task_api import TaskStore, TaskTransactions
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import Claim, Note, Receipt, Settlement
from apportion.work.attempt import attempt
from apportion.work.attempts import Attempts
from apportion.work.children.frames import frame, read
from apportion.work.effects.once import stepped
from apportion.work.function import AnyTaskFunction, TaskFunction
from apportion.work.running_task import RunningTask
from apportion.work.time_limit import RunLimit, TimeLimit

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def serve(stream: socket.socket) -> None:
    """Run the jobs that come on a socket, until the socket closes; then end this process."""
    for each in (signal.SIGINT, signal.SIGTERM):  # often sent to a whole process group; the worker ends its children
        signal.signal(each, _ignored)
    link = _Link(stream)
    threading.Thread(target=link.listen, name="apportion-worker-link", daemon=True).start()
    with asyncio.Runner() as runner:
        while True:
            runner.run(_Run(link).answered(link.jobs.get()))


def end_with(parent: int) -> None:
    """On Linux, end this process when its parent ends, at once if it has ended already. Elsewhere do nothing."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def flush_outputs() -> None:
    """Write out the prints of a function: a child that is not needed any more is killed."""
    for each in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed, or nobody reads it
            each.flush()


class _Link:
    """The connection to the worker."""

    def __init__(self, stream: socket.socket) -> None:
        self.jobs: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.until = 0.0
        self._stream, self._sending = stream, threading.RLock()
        self._asked: deque[Future[str]] = deque()  # the worker answers notes in their order
        self._store: TaskStore | None = None

    def say(self, said: dict[str, Any]) -> None:
        """Send a message; from any thread."""
        with self._sending, suppress(OSError):  # `listen` notices the end of the worker
            self._stream.sendall(frame(said))

    def ask_to_note(self, note: dict[str, Any]) -> "Future[str]":
        """Let the worker write a note, from any thread; the answer is empty, "lost", or the reason of an outage."""
        asked: Future[str] = Future()
        asked.set_running_or_notify_cancel()  # a caller that is cancelled does not cancel the answer
        with self._sending:
            self._asked.append(asked)
            self.say({"note": note})
        return asked

    def store(self, url: str) -> TaskStore:
        """Return the connection of this process to the tasks; the first call opens it. Not from the I/O thread."""
        return self._store or io_thread().wait(self.opened(url))

    async def opened(self, url: str) -> TaskStore:
        """Return the connection of this process to the tasks, on the I/O thread; the first call opens it."""
        if self._store is None:
            self._store = await connect_tasks(url)
        return self._store

    def listen(self) -> None:
        """Take the messages of the worker; end this process when the socket closes."""
        with self._stream.makefile("rb") as stream:
            while (said := read(stream)) is not None:
                self.until = said.get("until", self.until)
                if "claim" in said:
                    self.jobs.put(said)
                elif "noted" in said:
                    self._asked.popleft().set_result(said["noted"])
        os._exit(1)


class _Run:
    """One job, and the `Desk` of its run."""

    def __init__(self, link: _Link) -> None:
        self._link, self._url = link, ""
        self._in_threads = 0
        self.attempts = Attempts(queue="", worker="", clock=clock_here())

    async def answered(self, job: dict[str, Any]) -> None:
        """Run the attempt, and send the answer. If a thread still runs then, end this process."""
        self._url, sys.path[:] = job["url"], job["path"]
        module, name = job["place"]
        try:
            function = attrgetter(name)(import_module(module))
        except (AttributeError, ImportError) as error:
            self._link.say({"lacks": f"{module}.{name}: {error}"})
            return
        if not isinstance(function, TaskFunction):
            self._link.say({"lacks": f"{module}.{name}: it is not a task function"})
            return
        answer = await self._attempted(function, claim_of(job), job["incarnation"])
        flush_outputs()
        self._link.say(answer)
        if self._in_threads:
            os._exit(0)

    async def _attempted(self, function: AnyTaskFunction, claim: Claim, incarnation: int) -> dict[str, Any]:
        """Run the attempt. The worker enforces the time limit of a plain function: only a kill can stop it."""
        length = function.task_options.time_limit
        limit: RunLimit | None = None
        if length is not None:
            limit = TimeLimit(length) if function.is_async else _LimitOfWorker(self._link, length)
        self._link.say({"seconds": None})
        self.attempts.claimed([claim])
        settlement = await attempt(function, RunningTask(claim, incarnation, self, limit), self._in_thread)
        return _said(settlement) | {"is_completed": self.attempts.is_completed(claim.receipt)}

    async def _in_thread(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - a call of any function
        return await asyncio.to_thread(self._counted, call)

    def _counted(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401
        self._in_threads += 1
        process = os.getpid()
        try:
            return call()
        finally:
            self._in_threads -= 1
            if os.getpid() != process:  # the function has forked, and this is the forked process
                os._exit(0)

    def started(self, receipt: Receipt) -> None:
        """See `Desk`. The worker reports the start."""

    def settle(self, settlement: Settlement) -> None:
        """See `Desk`. The answer of the child contains the end."""

    async def note(self, note: Note) -> None:
        """See `Desk`. The worker writes the note."""
        asked = self._link.ask_to_note({"progress": note.progress, "text": note.text})
        trouble = await asyncio.wrap_future(asked)
        if trouble == "lost":
            raise ClaimLost(note.receipt.task, note.receipt.attempt)
        if trouble:
            raise StoreUnavailable(shown_url(self._url), trouble)

    async def once(self, step: OnceStep) -> OnceState:
        """See `Desk`. This process sends the step to the store itself."""
        store = await io_thread().hop(self._link.opened(self._url))
        left = partial(self.seconds_left, step.receipt.session)
        return await io_thread().hop(stepped(store.once, step, left))

    @property
    def transactions(self) -> TaskTransactions:
        """See `Desk`."""
        return self._link.store(self._url).transactions

    def seconds_left(self, _: int) -> float:
        """See `Desk`. The worker sends the deadline of its session again and again."""
        return self._link.until - clock_here().elapsed()


class _LimitOfWorker:
    """A time limit that the worker enforces: at the limit, it kills this process."""

    def __init__(self, link: _Link, length: timedelta) -> None:
        self._link, self._length = link, length

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """See `RunLimit`."""
        self.move(self._length)
        yield

    def move(self, length: timedelta) -> None:
        """See `RunLimit`."""
        self._link.say({"seconds": length.total_seconds()})


def claim_of(job: dict[str, Any]) -> Claim:
    """Return the claim of a job."""
    said = job["claim"]
    receipt, arguments = Receipt(**said["receipt"]), b64decode(said["arguments"])
    token = None if said["lane_token"] is None else FencingToken(**said["lane_token"])
    return Claim(**said | {"receipt": receipt, "arguments": arguments, "lane_token": token})


def _said(settlement: Settlement) -> dict[str, Any]:
    said = {"fate": settlement.fate, "reason": settlement.reason, "delay_ms": settlement.delay_ms}
    said |= {"has_run": settlement.has_run}
    return said | {"result": None if settlement.result is None else b64encode(settlement.result).decode()}


def _ignored(number: int, frame: object) -> None:
    """Do nothing on a signal. A program that the task function starts would inherit SIG_IGN, but not this handler."""


def main(stream: str, parent: str) -> None:
    """Run as the child of a worker without a fork server. The process has inherited the socket."""
    end_with(int(parent))
    serve(socket.socket(fileno=int(stream)))
