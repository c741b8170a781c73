"""Verifier of the demonstration of tasks, a separate process: it reads the database and the log, and nothing else.

    python -m apportion.console.demo.tasks.verify DATABASE LOG

It prints one JSON object. For each check, the object holds the verdict and the value. See `checks` for their meaning.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apportion.console.demo.tasks.library import FAILS, KILLS, LEASE, Counts, files
from apportion.console.demo.traces import read
from apportion.console.demo.verdict import Verdict

Line = dict[str, Any]
_LONGEST_RECOVERY_SECONDS = LEASE.total_seconds() + 1
_ENDS = ("counted", "failed", "refused")


def checks(lines: Sequence[Line], counted: Sequence[str], dead: int, expected: Sequence[str]) -> Verdict:
    """Return the verdicts. They judge a log, the file of each count, the number of dead tasks, and the files to count.

    lost               files without a count. The file that kills its process has none: its task is the one dead task.
    completed_twice    counts of a file beyond the first.
    stale_refused      completions that were refused, as the lease had ended and the claim was another worker's.
    recovery_seconds   the longest time from the kill of a worker until one of its open runs began anew elsewhere.
    poison_deaths      worker processes in which the file that kills its process was parsed.
    """
    per_file = Counter(counted)
    lost = sum(per_file[file] == 0 for file in expected) + abs(dead - 1)
    twice = sum(number - 1 for number in per_file.values() if number > 1)
    refused = sum(line["word"] == "refused" for line in lines)
    recovery = _recovery_seconds(lines)
    workers = {line["pid"] for line in lines if line["word"] == "started"}
    deaths = sum(line["word"] == "begun" and line["file"] == KILLS and line["pid"] in workers for line in lines)
    return {
        "lost": {"passed": lost == 0, "value": lost},
        "completed_twice": {"passed": twice == 0, "value": twice},
        "stale_refused": {"passed": refused >= 1, "value": refused},
        "recovery_seconds": {
            "passed": recovery is not None and recovery <= _LONGEST_RECOVERY_SECONDS,
            "value": None if recovery is None else round(recovery, 2),
        },
        "poison_deaths": {"passed": deaths <= 1, "value": deaths},
    }


def _recovery_seconds(lines: Sequence[Line]) -> float | None:
    """Return the longest recovery; None if no run was open at a kill, or one that was open never began anew."""
    longest: float | None = None
    for kill in (line for line in lines if line["word"] == "killed"):
        for file in _open_runs(lines, kill):
            again = [line["at"] for line in lines if line["word"] == "begun" and _is_after(line, file, kill)]
            if not again:
                return None
            longest = max(longest or 0.0, min(again) - kill["at"])
    return longest


def _open_runs(lines: Sequence[Line], kill: Line) -> set[str]:
    """Return the files of the runs that a kill has broken off."""
    runs = [
        line for line in lines if line.get("file") and line["worker"] == kill["worker"] and line["at"] <= kill["at"]
    ]
    ended = {(line["file"], line["attempt"]) for line in runs if line["word"] in _ENDS}
    return {line["file"] for line in runs if line["word"] == "begun" and (line["file"], line["attempt"]) not in ended}


def _is_after(line: Line, file: str, kill: Line) -> bool:
    return bool(line["file"] == file and line["at"] > kill["at"])


if __name__ == "__main__":
    _counts = Counts(Path(sys.argv[1]))
    print(json.dumps(checks(read(Path(sys.argv[2])), _counts.counted(), _counts.dead(), [*files(), FAILS])))
