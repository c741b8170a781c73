"""Child: one attempt of a task in a process of its own, so that a task that ends its process ends nothing else.

Suspects run here, and plain functions with a time limit. The child gets its job on standard input, and answers on
another descriptor. When its worker dies, standard input ends, and the child ends at once.
Refuses: functions that another process cannot import: those of `__main__`, and those made within a function.
"""

import asyncio
import json
import os
import sys
import threading
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from operator import attrgetter

from apportion.runtime.io_thread import io_thread
from apportion.runtime.simulated import clock_here
from apportion.stores.catalog import connect_tasks
from apportion.stores.task_api import TaskStore, TaskTransactions
from apportion.stores.task_values import Claim, Note, Receipt, Settlement
from apportion.work.attempt import attempt
from apportion.work.attempts import Attempts
from apportion.work.current import RunningTask
from apportion.work.function import AnyTaskFunction, TaskFunction


def place_of(function: AnyTaskFunction) -> tuple[str, str] | None:
    """Return the module and the name under which another process finds a task function; None if it does not."""
    module, name = function.function.__module__, function.function.__qualname__
    if module == "__main__" or "<" in name:
        return None
    try:
        found = attrgetter(name)(sys.modules[module])
    except (AttributeError, KeyError):
        return None
    return (module, name) if found is function else None


async def run_in_child(
    url: str, place: tuple[str, str], claim: Claim, incarnation: int, seconds_left: float, *, attempts: Attempts
) -> Settlement:
    """Run an attempt in a child, and return its settlement: "crashed" if the child ended without an answer.

    A caller that is cancelled kills the child.
    """
    reading, writing = os.pipe()
    command = [sys.executable, "-P", "-m", "apportion.work.child", str(writing)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, pass_fds=(writing,), env=environment
        )
    finally:
        os.close(writing)
    try:
        job = {"url": url, "place": place, "incarnation": incarnation, "seconds_left": seconds_left}
        job |= {"claim": asdict(claim) | {"arguments": b64encode(claim.arguments).decode()}}
        if process.stdin is not None:
            process.stdin.write(json.dumps(job).encode() + b"\n")
        answer = await asyncio.get_running_loop().run_in_executor(None, _read, reading)
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not answer:
        reason = f"its process ended with {process.returncode}"
        return Settlement(receipt=claim.receipt, fate="crashed", reason=reason)
    said = json.loads(answer)
    if said["is_completed"]:
        attempts.complete(claim.receipt)
    result = None if said["result"] is None else b64decode(said["result"])
    return Settlement(
        receipt=claim.receipt, fate=said["fate"], reason=said["reason"], delay_ms=said["delay_ms"], result=result
    )


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as answers:
        return answers.read()


@dataclass(slots=True)
class _ChildDesk:
    """The worker, as far as a run in a child needs it."""

    url: str
    ends_at: float
    attempts: Attempts
    store: TaskStore | None = None

    def started(self, receipt: Receipt) -> None:
        """See `Desk`. The worker tells it."""

    def settle(self, settlement: Settlement) -> None:
        """See `Desk`. The answer of the child takes its place."""

    async def note(self, note: Note) -> None:
        """See `Desk`."""
        await io_thread().hop(self._opened().beat(note.receipt.session, [note]))

    @property
    def transactions(self) -> TaskTransactions:
        """See `Desk`."""
        return self._opened().transactions

    def seconds_left(self, _: int) -> float:
        """See `Desk`. The renewals of the worker are not known here: the worker kills the child in time."""
        return self.ends_at - clock_here().elapsed()

    def _opened(self) -> TaskStore:
        if self.store is None:
            self.store = io_thread().wait(connect_tasks(self.url))
        return self.store


def main() -> None:
    """Run the job that standard input has, and answer on the descriptor that the command line names."""
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    module, name = job["place"]
    function = attrgetter(name)(import_module(module))
    if not isinstance(function, TaskFunction):
        raise TypeError(f"{module}.{name} is no task function")
    receipt = Receipt(**job["claim"].pop("receipt"))
    claim = Claim(**job["claim"] | {"receipt": receipt, "arguments": b64decode(job["claim"]["arguments"])})
    attempts = Attempts(queue=claim.queue, worker="", clock=clock_here())
    attempts.claimed([claim])
    desk = _ChildDesk(job["url"], clock_here().elapsed() + job["seconds_left"], attempts)
    asyncio.run(_answer(function, RunningTask(claim, job["incarnation"], desk)))


async def _answer(function: AnyTaskFunction, task: RunningTask) -> None:
    """Run the attempt, answer, and end the process: a thread that takes too long does not delay the answer."""
    settlement = await attempt(function, task, asyncio.to_thread)
    said: dict[str, object] = {"fate": settlement.fate, "reason": settlement.reason, "delay_ms": settlement.delay_ms}
    said["is_completed"] = task.desk.attempts.is_completed(settlement.receipt)
    said["result"] = None if settlement.result is None else b64encode(settlement.result).decode()
    with suppress(BrokenPipeError), os.fdopen(int(sys.argv[1]), "wb") as answers:
        answers.write(json.dumps(said).encode())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end_with_the_worker() -> None:
    while sys.stdin.buffer.read(4_096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
