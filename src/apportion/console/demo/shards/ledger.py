"""Ledgers of the demonstration of shards: each process appends lines to a file of its own.

A line is a JSON object: `word`, `at` (elapsed seconds of this machine), and more.

    tries, done       a write, before and after its commit: `id`, `slot`, `value` (None deletes), and `shard` when done
    refused           a refused write of the session that slept, or of the stray statement, with its `reason`
    turned away       a write of one of the writers that was refused, or was not possible, with its `reason`
    catalogs          the names of all objects in each database before the first move: `names`
    reversed          all moves were reversed, and their slots are back

Promises: a line `done` is on the disk before the writer goes on.
"""

import json
import os
from pathlib import Path
from typing import Any, TypeAlias

from apportion.runtime.clock import SystemClock

LedgerLine: TypeAlias = dict[str, Any]


class ShardLedger:
    """The ledger of one process, as that process writes it."""

    def __init__(self, file: Path) -> None:
        self._target = os.open(file, os.O_APPEND | os.O_WRONLY | os.O_CREAT, 0o600)
        self._clock = SystemClock()

    def tries(self, line: LedgerLine) -> None:
        """Note a write that is about to be made."""
        self._append({"word": "tries", **line})

    def done(self, line: LedgerLine) -> None:
        """Note an acknowledged write, durably."""
        self.notes("done", line)

    def refused(self, word: str, reason: object) -> None:
        """Note a refusal, durably."""
        self.notes(word, {"reason": str(reason).splitlines()[0]})

    def notes(self, word: str, line: LedgerLine) -> None:
        """Note another event, durably."""
        self._append({"word": word, **line})
        os.fsync(self._target)

    def _append(self, line: LedgerLine) -> None:
        os.write(self._target, f"{json.dumps(line | {'at': self._clock.elapsed()})}\n".encode())


def ledger_lines(file: Path) -> list[LedgerLine]:
    """Return the lines of a ledger; a process that was killed may have left half a line at the end."""
    whole, _, _ = file.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
