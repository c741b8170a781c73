"""Stop points: the places in a move, or in a pin, at which a fire drill kills the mover.

Each act has two points, `<step>.before` and `<step>.after`. The environment variable `APPORTION_SHARDS_STOP_AT` names
one of them, and optionally a count: `fence.after`, or `chunk.before:3`. The process kills itself there. As in a crash,
nothing is closed, and no other process is told.
"""

import os
import signal
from collections.abc import Callable

from apportion.errors import InvalidInput, UnknownOption
from apportion.shards.reshard import MoveAct

VARIABLE = "APPORTION_SHARDS_STOP_AT"
STEPS = (
    "list", "prepare", "capture", "chunk", "apply-log", "verify", "capture-back", "intent", "fence", "drain", "tail",
    "announce", "switch", "settle", "uncapture", "reverse", "forgo", "clean-batch", "uncapture-back", "release",
    "retreat", "withdraw", "abort-record", "unfence", "drop", "clean-back", "record", "publish", "raise", "own",
    "unlist", "take-back", "join",
)  # fmt: skip
"""The steps of a move, in about this order, and then those of a pin and of a merge.

`record` stands for each change of the record that has no step of its own.
"""

Reached = Callable[[str], None]
"""A function that is called at each stop point with its label."""


def labels() -> tuple[str, ...]:
    """Return the labels of all stop points."""
    return tuple(f"{step}.{side}" for step in STEPS for side in ("before", "after"))


def step_of(act: MoveAct, *, is_fenced: bool) -> str:
    """Return the step of an act. While the record is `fenced`, `apply-log` is "drain" and `verify` is "tail"."""
    if act.record is not None and act.label == "record":
        if act.record.state == "catching-up" and is_fenced:
            return "retreat"
        return {"fenced": "intent", "aborted": "abort-record"}.get(act.record.state, "record")
    if is_fenced and act.label in ("apply-log", "verify"):
        return "drain" if act.label == "apply-log" else "tail"
    return act.label.partition("-")[0] if act.label.startswith("settle") else act.label


class StopPoint:
    """The stop point of this process: a label, and the count at which the process ends."""

    def __init__(self, asked: str) -> None:
        label, _, count = asked.partition(":")
        self.label: str = label
        if label not in labels():
            raise UnknownOption(f"label in {VARIABLE}", label, labels())
        if count and not (count.isascii() and count.isdecimal() and int(count) > 0):
            raise InvalidInput(f"count in {VARIABLE}", count, "a number of at least 1", "Write fence.after:2.")
        self.left: int = int(count or 1)

    def __call__(self, label: str) -> None:
        """End this process at its stop point."""
        if label == self.label:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


def stop_point() -> Reached:
    """Return the stop point that the environment asks for, or a function that never stops."""
    asked = os.environ.get(VARIABLE)
    return StopPoint(asked) if asked else passed


def passed(_: str) -> None:
    """Go on."""
