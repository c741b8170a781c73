"""Losses: single commits of a world that are lost, each chosen by its number, in one of three ways.

The network's weather loses a ratio of all messages, so it rarely loses the message that matters. With this module, a
test runs the same story again and again, and loses another commit each time. The nemesis loses one of the next few
commits of one process. A loss may last for several commits: then the next commits of the same process are lost too.
The second lost commit is mostly the first one, sent again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Way(Enum):
    """How a commit is lost."""

    REQUEST = "its request"  # it never arrives, and no reply comes
    REPLY = "its reply"  # it happens, and no reply comes
    ERROR = "its connection"  # it was never sent, and its caller learns this at once


@dataclass(slots=True, kw_only=True)
class _Loss:
    left: int
    way: Way
    process: str | None
    times: int


class Losses:
    """The commits to lose; `inject` is called before each loss, and counts it."""

    def __init__(self, inject: Callable[[str, str], bool]) -> None:
        self._inject = inject
        self._losses: list[_Loss] = []

    def lose(self, number: int, way: Way, *, process: str | None = None, times: int = 1) -> None:
        """Lose the commit with this number; the next commit has the number 1.

        With `process`, only commits of this process count.

        Lose `times` commits in a row. All of them are commits of the process that sends the first one.
        """
        self._losses.append(_Loss(left=number, way=way, process=process, times=times))

    def of(self, process: str) -> Way | None:
        """Count a commit that a process sends now; return how it is lost, None if it is not."""
        counted = [loss for loss in self._losses if loss.process in (None, process)]
        for loss in counted:
            loss.left -= 1
        due = [loss for loss in counted if loss.left <= 0]
        self._losses = [loss for loss in self._losses if loss not in due]
        if due and self._inject(f"commit lost: {due[0].way.value}", process):
            if due[0].times > 1:
                self.lose(1, due[0].way, process=process, times=due[0].times - 1)
            return due[0].way
        return None

    def clear(self) -> None:
        """Lose no more."""
        self._losses.clear()
