"""Nodes of the demonstration: three processes on one file, its clock, and the acts of the script on them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import apportion
from apportion.console.demo.cron import year
from apportion.console.demo.cron.year import YearLog

PATIENCE_SECONDS = 60.0
_LOOK_SECONDS, _MOST_TOLD = 0.02, 2_000


class Overdue(Exception):
    """The demonstration of schedules waited too long for an event."""


class Nodes:
    """Three nodes on one file."""

    def __init__(self, folder: Path, look: Callable[["Nodes"], None]) -> None:
        self.file: Path = folder / "work.db"
        self.url: str = f"sqlite:///{self.file}"
        self.runs: YearLog = YearLog(self.file)
        self._errors = folder / "errors"
        self._look = look
        self._nodes: dict[str, subprocess.Popen[str]] = {}

    @property
    def names(self) -> list[str]:
        """The nodes that live."""
        return [name for name, node in self._nodes.items() if node.poll() is None]

    def keep_schedules(self, now: datetime) -> None:
        """Set the clock of the file, and keep the schedules in it."""

        async def _keep() -> None:
            queue = apportion.Queue(self.url, year.NAME)
            await queue.pending(year.note)
            self.runs.make()
            self.runs.step_to(now)
            for name, (rule, zone) in year.SCHEDULES.items():
                await queue.schedule(name, year.note.call(name), cron=rule, zone=zone, overlap="allow")
            await queue.close()

        asyncio.run(_keep())

    def start(self, *names: str) -> None:
        """Start nodes, and wait until they are ready."""
        command = [sys.executable, "-m", "apportion.console.demo.cron.node"]
        for name in names:
            with self._errors.open("ab") as errors:
                self._nodes[name] = subprocess.Popen(  # noqa: S603 - of ours
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=os.environ | {year.URL_VARIABLE: self.url, year.NODE_VARIABLE: name},
                )
        for name in names:
            self._heard(name)

    def killed(self, name: str) -> None:
        """End a node with SIGKILL."""
        self._nodes[name].kill()
        self._nodes[name].wait()

    def stopped(self, name: str) -> None:
        """Stop a node with SIGSTOP, but not while it holds the lock of the file: all others would stop with it."""
        node = self._nodes[name]
        node.send_signal(signal.SIGSTOP)
        while self.runs.is_locked():
            node.send_signal(signal.SIGCONT)
            time.sleep(_LOOK_SECONDS)
            node.send_signal(signal.SIGSTOP)

    def woken(self, name: str) -> None:
        """Let a stopped node continue."""
        self._nodes[name].send_signal(signal.SIGCONT)

    def tried(self, name: str, schedule: str, slot: int) -> str:
        """Let a node trigger a slot; return the answer."""
        stdin = self._nodes[name].stdin
        if stdin is not None:
            stdin.write(f"{schedule} {slot}\n")
            stdin.flush()
        return self._heard(name)

    def until(self, event: str, is_so: Callable[[], bool], *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a condition holds."""
        began = time.monotonic()
        while not is_so():
            if time.monotonic() - began > patience_seconds:
                raise Overdue(f"waited {patience_seconds:g} s for this: {event}")
            time.sleep(_LOOK_SECONDS)
        self._look(self)

    def end(self) -> None:
        """Let all nodes leave, and wait for them."""
        for name in self.names:
            self._nodes[name].send_signal(signal.SIGCONT)
            self._nodes[name].terminate()
        for node in self._nodes.values():
            try:
                node.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                node.kill()

    def _heard(self, name: str) -> str:
        stdout = self._nodes[name].stdout
        line = "" if stdout is None else stdout.readline()
        if not line:
            raise Overdue(f"{name} has ended: {self._errors.read_text()[-_MOST_TOLD:]}")
        return line.strip()
