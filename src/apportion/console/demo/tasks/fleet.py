"""Fleet of the demonstration of tasks: worker processes on one file, and the acts of the script on them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import apportion
from apportion.console.demo.tasks import library
from apportion.console.demo.tasks.library import Counts, log

PATIENCE_SECONDS = 60.0
_LOOK_SECONDS, _MOST_TOLD = 0.05, 2_000


class TooSlow(Exception):
    """The demonstration of tasks waited too long for an event."""


class Fleet:
    """Four workers on one file."""

    def __init__(self, folder: Path, look: Callable[["Fleet"], None]) -> None:
        self.file: Path = folder / "work.db"
        self.log: Path = folder / "log"
        self._errors = folder / "errors"
        self.url: str = f"sqlite:///{self.file}"
        self.counts: Counts = Counts(self.file)
        self._look = look
        self._queue = apportion.Queue(self.url, library.NAME, lease_ttl=library.LEASE)
        self._environment = os.environ | {library.URL_VARIABLE: self.url, library.LOG_VARIABLE: str(self.log)}
        os.environ[library.LOG_VARIABLE] = str(self.log)
        self._workers: dict[str, subprocess.Popen[str]] = {}

    @property
    def names(self) -> list[str]:
        """The workers that live, as far as they have not been killed."""
        return [name for name, worker in self._workers.items() if worker.poll() is None]

    def enqueue(self, files: Iterable[str], *, priority: int = 2) -> None:
        """Add a task for each file."""

        async def _enqueue() -> None:
            calls = [library.count.call(file).options(priority=priority) for file in files]
            await self._queue.enqueue_many(calls)
            await self._queue.close()

        asyncio.run(_enqueue())

    def start(self, *names: str) -> None:
        """Start workers, and wait until they are ready."""
        command = [sys.executable, "-m", "apportion.console.demo.tasks.worker"]
        for name in names:
            with self._errors.open("ab") as errors:
                self._workers[name] = subprocess.Popen(  # noqa: S603 - of ours
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=self._environment | {library.WORKER_VARIABLE: name},
                )
            log("started", {"worker": name, "pid": self._workers[name].pid})
        for name in names:
            self._heard(name)

    def stalled(self, name: str) -> str:
        """Stop a run of a worker before its transaction; return its file."""
        self._say(name, "stall")
        return self._heard(name).split()[-1]

    def killed(self, name: str) -> None:
        """End a worker with SIGKILL."""
        worker = self._workers[name]
        worker.kill()
        log("killed", {"worker": name, "pid": worker.pid})
        worker.wait()

    def stopped(self, name: str) -> None:
        """Stop a worker with SIGSTOP, but not while it holds the lock of the file: all others would stop with it."""
        worker = self._workers[name]
        worker.send_signal(signal.SIGSTOP)
        while self.counts.is_locked():
            worker.send_signal(signal.SIGCONT)
            time.sleep(_LOOK_SECONDS)
            worker.send_signal(signal.SIGSTOP)

    def woken(self, name: str) -> None:
        """Let a stopped worker continue: its stalled run tries to commit at once."""
        self._workers[name].send_signal(signal.SIGCONT)
        self._say(name, "go on")

    def until(self, event: str, is_so: Callable[[], bool]) -> float:
        """Wait until a condition holds; return the seconds that this took."""
        began = time.monotonic()
        while not is_so():
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise TooSlow(f"waited {PATIENCE_SECONDS:g} s for this: {event}")
            time.sleep(_LOOK_SECONDS)
            self._look(self)
        return time.monotonic() - began

    def end(self) -> None:
        """Let all workers leave, and wait for them."""
        for name in self.names:
            self._workers[name].send_signal(signal.SIGCONT)
            self._workers[name].terminate()
        for worker in self._workers.values():
            try:
                worker.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()

    def _say(self, name: str, line: str) -> None:
        stdin = self._workers[name].stdin
        if stdin is not None:
            stdin.write(f"{line}\n")
            stdin.flush()

    def _heard(self, name: str) -> str:
        stdout = self._workers[name].stdout
        line = "" if stdout is None else stdout.readline()
        if not line:
            raise TooSlow(f"{name} has ended: {self._errors.read_text()[-_MOST_TOLD:]}")
        return line
