"""Troop of the demonstration of shards: the writers, the session that sleeps, the mover, and the acts on them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeAlias

from apportion.console.demo.shards.ledger import ShardLedger
from apportion.console.demo.shards.world import FIRST, SET, WRITERS, DemoWorld

PATIENCE_SECONDS = 240.0
_LOOK_SECONDS, _MOST_TOLD = 0.1, 2_000
_MODULE = "apportion.console.demo.shards"
_BARE, _ASYNC = 0, 1

Process: TypeAlias = "subprocess.Popen[str]"


class OutOfTime(Exception):
    """The demonstration of shards waited too long, or one of its processes has failed."""


class Troop:
    """The processes of the demonstration; `look` is called again and again while the script waits."""

    def __init__(self, world: DemoWorld, look: Callable[[DemoWorld], None]) -> None:
        self.world: DemoWorld = world
        self._look, self._errors = look, world.folder / "errors"
        self._writers: list[Process] = []
        self._sleeper: Process | None = None
        self._mover: Process | None = None

    def write(self) -> None:
        """Start the writers, and wait until they write."""
        kinds = {_BARE: "bare", _ASYNC: "async"}
        for number in range(WRITERS):
            words = (str(self.world.folder), str(number), kinds.get(number, "session"))
            self._writers.append(self._started(f"{_MODULE}.writer", *words))
        for writer in self._writers:
            self._heard(writer)

    def sleep(self, country: str) -> None:
        """Let a session of a country read, and stop its process with SIGSTOP."""
        self._sleeper = self._started(f"{_MODULE}.sleeper", str(self.world.folder), country)
        self._heard(self._sleeper)
        self._sleeper.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let the session that slept write at once."""
        sleeper = self._sleeper
        if sleeper is None or sleeper.stdin is None:
            raise OutOfTime("no session sleeps")
        sleeper.send_signal(signal.SIGCONT)
        sleeper.stdin.write("write\n")
        sleeper.stdin.flush()
        if sleeper.wait(PATIENCE_SECONDS):
            raise OutOfTime(f"the session that slept has failed: {self._errors.read_text()[-_MOST_TOLD:]}")

    def stray(self, country: str) -> None:
        """Send an UPDATE of a country to the first shard, as cron jobs do."""
        ledger, databases = ShardLedger(self.world.ledger("stray")), self.world.databases
        with closing(databases.connect(FIRST)) as connection:
            try:
                connection.execute("UPDATE place SET visits = -2 WHERE country = ?", (country,))
            except databases.refusal as error:
                ledger.refused("refused", error)

    def move(self, *options: str, dies_at: str = "", meanwhile: Callable[[], None] | None = None) -> float:
        """Run `apportion shards apply` to its end, or to its death; return the seconds that it took.

        `meanwhile` is called once while it runs.
        """
        variables = {"APPORTION_SHARDS_STOP_AT": dies_at} if dies_at else {}
        words = (str(self.world.plan), *options)
        return self._command("apply", *words, dies=bool(dies_at), variables=variables, meanwhile=meanwhile)

    def reverse(self, moves: Sequence[str]) -> float:
        """Run `apportion shards reverse`; return the seconds that it took."""
        return self._command("reverse", *moves)

    def clean(self) -> float:
        """Run `apportion shards clean` without a wait; return the seconds that it took."""
        return self._command("clean", "--soak", "0s")

    def end(self) -> None:
        """Let all processes leave, and wait for them."""
        if self._mover is not None:
            self._mover.kill()
            self._mover.wait()
        everyone = [*self._writers, *([self._sleeper] if self._sleeper else [])]
        for each in everyone:
            each.send_signal(signal.SIGCONT)
            each.terminate()
        for each in everyone:
            try:
                each.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                each.kill()

    def check(self) -> None:
        """Refuse to go on without a writer."""
        if any(writer.poll() is not None for writer in self._writers):
            raise OutOfTime(f"a writer has ended: {self._errors.read_text()[-_MOST_TOLD:]}")

    def _command(
        self,
        name: str,
        *words: str,
        dies: bool = False,
        variables: dict[str, str] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> float:
        began = time.monotonic()
        module = "apportion.console.main"
        process = self._started(module, "shards", name, self.world.url, SET, *words, variables=variables)
        self._mover = process
        if meanwhile is not None:
            meanwhile()
        while process.poll() is None:
            if time.monotonic() - began > PATIENCE_SECONDS:
                process.kill()
                raise OutOfTime(f"apportion shards {name} took more than {PATIENCE_SECONDS:g} s")
            time.sleep(_LOOK_SECONDS)
            self._look(self.world)
            self.check()
        if process.returncode != (-signal.SIGKILL if dies else 0):
            said = self._errors.read_text()[-_MOST_TOLD:]
            raise OutOfTime(f"apportion shards {name} ended with {process.returncode}: {said}")
        return time.monotonic() - began

    def _started(self, module: str, *words: str, variables: dict[str, str] | None = None) -> Process:
        with self._errors.open("ab") as errors:
            return subprocess.Popen(  # noqa: S603 - of ours
                [sys.executable, "-m", module, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | (variables or {}),
            )

    def _heard(self, process: Process) -> None:
        if process.stdout is None or not process.stdout.readline():
            raise OutOfTime(f"a process has ended: {self._errors.read_text()[-_MOST_TOLD:]}")
