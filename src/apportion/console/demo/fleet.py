"""Fleet of a demonstration of tasks: worker processes on one file, and the acts of the script on them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from apportion.console.demo.traces import LOG_VARIABLE, URL_VARIABLE, WORKER_VARIABLE, is_locked, log

PATIENCE_SECONDS = 60.0
_LOOK_SECONDS, _MOST_TOLD = 0.05, 2_000


class TooSlow(Exception):
    """The demonstration of tasks waited too long for an event."""


class Fleet:
    """The workers of a subject on one file; `look` is called again and again while the script waits."""

    def __init__(self, folder: Path, subject: str, look: Callable[["Fleet"], None]) -> None:
        self.file: Path = folder / "work.db"
        self.log: Path = folder / "log"
        self.url: str = f"sqlite:///{self.file}"
        self._errors, self._subject, self._look = folder / "errors", subject, look
        self._environment = os.environ | {URL_VARIABLE: self.url, LOG_VARIABLE: str(self.log)}
        os.environ[LOG_VARIABLE] = str(self.log)
        self._workers: dict[str, subprocess.Popen[str]] = {}

    @property
    def names(self) -> list[str]:
        """The workers that live."""
        return [name for name, worker in self._workers.items() if worker.poll() is None]

    def start(self, *names: str) -> None:
        """Start workers, and wait until they are ready."""
        command = [sys.executable, "-m", f"apportion.console.demo.{self._subject}.worker"]
        for name in names:
            with self._errors.open("ab") as errors:
                self._workers[name] = subprocess.Popen(  # noqa: S603 - of ours
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=self._environment | {WORKER_VARIABLE: name},
                )
            log("started", {"worker": name, "pid": self._workers[name].pid})
        for name in names:
            self._heard(name)

    def stalled(self, name: str) -> str:
        """Stop a run of a worker before its transaction; return the name of the run."""
        self._say(name, "stall")
        return self._heard(name).removeprefix("stalled").strip()

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
        while is_locked(self.file):
            worker.send_signal(signal.SIGCONT)
            time.sleep(_LOOK_SECONDS)
            worker.send_signal(signal.SIGSTOP)
        log("stopped", {"worker": name, "pid": worker.pid})

    def woken(self, name: str) -> None:
        """Let a stopped worker continue: its stalled run tries to commit at once."""
        self._workers[name].send_signal(signal.SIGCONT)
        self._say(name, "go on")

    def until(self, event: str, is_so: Callable[[], bool], *, patience_seconds: float = PATIENCE_SECONDS) -> float:
        """Wait until a condition holds; return the seconds that this took."""
        began = time.monotonic()
        while not is_so():
            if time.monotonic() - began > patience_seconds:
                raise TooSlow(f"waited {patience_seconds:g} s for this: {event}")
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
