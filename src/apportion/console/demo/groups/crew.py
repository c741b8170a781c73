"""Crew of the demonstration: worker processes, the acts of the script on them, and the state that the store shows."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from apportion import sync
from apportion.console.demo.groups.work import GROUP, PARTITIONS, WorkLedger
from apportion.errors import StoreUnavailable
from apportion.groups.settled import is_at_rest
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord
from apportion.groups.view.view import View
from apportion.runtime.clock import SystemClock
from apportion.sync import admin

PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class Late(Exception):
    """The demonstration waited too long for an event."""


class Crew:
    """Five workers and more, on one file."""

    def __init__(self, folder: Path, batch: int, look: "Callable[[View], None]") -> None:
        self.url: str = f"sqlite:///{folder / 'group.db'}"
        self.file: Path = folder / "work.db"
        self.ledger: WorkLedger = WorkLedger(self.file)
        self.ledger.make()
        self.view: View = View(GroupKeys(group=GROUP), GroupRecord(partitions=PARTITIONS))
        self._batch, self._look = batch, look
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._clock = SystemClock()

    def joins(self, name: str) -> None:
        """Start a worker."""
        module = "apportion.console.demo.groups.worker"
        command = [sys.executable, "-m", module, self.url, name, str(self.file), str(self._batch)]
        self._workers[name] = subprocess.Popen(  # noqa: S603 - of ours
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def noted(self, step: str, members: Sequence[str]) -> None:
        """Write into the log that the members change, and which members should work from now on."""
        self.ledger.log({"step": step, "members": list(members)})

    def killed(self, name: str) -> None:
        """End a worker with SIGKILL."""
        self._workers.pop(name).kill()

    def stalled(self, name: str) -> int:
        """Stop a worker with SIGSTOP, in the middle of an effect; return the number of its partition."""
        worker = self._workers[name]
        if worker.stdin is None or worker.stdout is None:
            raise Late("a worker without pipes")
        worker.stdin.write("stall\n")
        worker.stdin.flush()
        partition = int(worker.stdout.readline().split()[-1])
        worker.send_signal(signal.SIGSTOP)
        return partition

    def woken(self, name: str) -> None:
        """Let a stopped worker continue: it tries to write at once."""
        worker = self._workers[name]
        worker.send_signal(signal.SIGCONT)
        if worker.stdin is not None:
            worker.stdin.write("go on\n")
            worker.stdin.flush()

    def drained(self, name: str) -> None:
        """Ask a worker for its partitions, as `apportion group drain` does."""
        admin.drain(self.url, GROUP, name)

    def until(self, what: str, is_so: Callable[[], bool], *, patience_seconds: float = PATIENCE_SECONDS) -> float:
        """Look at the group until a condition holds; return the seconds that this took."""
        began = time.monotonic()
        with sync.open_store(self.url) as store:
            while not is_so():
                if time.monotonic() - began > patience_seconds:
                    raise Late(f"waited {patience_seconds:g} s for this: {what}")
                time.sleep(_LOOK_SECONDS)
                try:
                    self.view.load(store.scan(self.view.keys.live), self._clock.elapsed())
                except StoreUnavailable:
                    continue
                self._look(self.view)
        return time.monotonic() - began

    def is_settled(self, *names: str) -> bool:
        """Whether these members, and no others, share the partitions, and the group is at rest."""
        there = {name for name in self.view.members if name not in self.view.drains}
        return there == set(names) and is_at_rest(self.view)

    def worked(self) -> Callable[[], bool]:
        """Return a function that tells whether the owner of every partition has worked on it since this call."""
        start = len(self.ledger.lines())

        def is_so() -> bool:
            """Whether the condition holds now."""
            seen = {line["partition"]: line["member"] for line in self.ledger.lines()[start:] if "places" in line}
            owners = {each: owned.ownership.owner for each, owned in self.view.own.items()}
            return all(seen.get(partition) == owner for partition, owner in owners.items())

        return is_so

    def end(self) -> None:
        """Let all workers leave, and wait for them."""
        for worker in self._workers.values():
            worker.send_signal(signal.SIGCONT)
            worker.terminate()
        for worker in self._workers.values():
            try:
                worker.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
