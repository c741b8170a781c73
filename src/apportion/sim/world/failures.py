"""Failures: uncaught errors that leave a process of a world. They end the run."""

import asyncio
from collections.abc import Callable
from typing import Any

from apportion.sim.facts import Fact, Failed
from apportion.sim.world.process import running_name
from apportion.sim.world.refusal import LeavesTheWorld


class Failures:
    """The first refusal, or else the newest failure, that was not raised yet. Failures are recorded as facts."""

    def __init__(self, now: Callable[[], float], record: Callable[[Fact], None]) -> None:
        self._now, self._record = now, record
        self._newest: BaseException | None = None
        self._refusals: list[LeavesTheWorld] = []
        self._refusal: LeavesTheWorld | None = None

    def take(self) -> BaseException | None:
        """Return the failure to raise now, once."""
        due = self._refusal or self._newest
        self._refusal = self._newest = None
        return due

    def refused(self, error: LeavesTheWorld) -> None:
        """Take a refusal. A program may catch the error, so the run ends with it immediately."""
        self._refusals.append(error)
        self._refusal = self._refusal or error

    def ended(self, process: str, task: asyncio.Task[Any]) -> None:
        """Take the end of a program."""
        if not task.cancelled():
            self._failed(process, task.exception())

    def unawaited(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG002
        """Take an error that no task awaits. A reply that failed after the death of its caller is no such error."""
        if not context["message"].startswith("Future"):
            self._failed(running_name(), context.get("exception"))

    def _failed(self, process: str, error: BaseException | None) -> None:
        if error is not None and error not in self._refusals:
            self._newest = error
            said = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._record(Failed(at=self._now(), process=process, error=said))
