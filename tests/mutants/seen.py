"""Seen: which marked statements a process has run, in all of its threads. The marked package imports this first."""

import atexit
import builtins
import json
import os
from pathlib import Path

FOLDER = "MUTANTS_SEEN"
_SEEN: set[int] = set()


def clear() -> None:
    """Forget what has run until now."""
    _SEEN.clear()


def write(test: str, *, seconds: float = 0.0, failed: bool = False) -> None:
    """Write down what has run since, and forget it."""
    line = {"test": test, "seconds": seconds, "failed": failed, "seen": sorted(_SEEN.copy())}
    with (Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    clear()


def _of_child() -> None:
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if _SEEN and test:
        write(test.rpartition(" ")[0])


if FOLDER in os.environ and not hasattr(builtins, "__seen__"):
    builtins.__seen__ = _SEEN.add
    atexit.register(_of_child)
