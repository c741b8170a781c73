"""Verifier of the demonstration of keys, a separate process: it reads the database and the log, and nothing else.

    python -m apportion.console.demo.keys.verify DATABASE LOG

It prints one JSON object. For each check, the object holds the verdict and the value. See `checks` for their meaning.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from apportion.console.demo.keys.atlas import PARTITIONS, Visits, itinerary
from apportion.console.demo.traces import read
from apportion.console.demo.verdict import Verdict
from apportion.stores.keys.partitions import partition_of

Line = dict[str, Any]
Owners = Mapping[int, str]
_ACTS, _ENDS = ("killed", "stopped"), ("visited", "refused", "failed")


def checks(lines: Sequence[Line], made: Sequence[tuple[str, int]], expected: Mapping[str, Sequence[str]]) -> Verdict:
    """Return the verdicts. They judge a log, the visits in the order of their commits, and the places of each country.

    order_broken       visits that were committed before an earlier one of their country.
    overlaps           runs of a country that began while another run of it went on. A run has also ended if its
                       process was killed or stopped.
    lost               places that were not visited exactly once.
    moved_vs_minimum   lanes that moved when a worker came and when one was killed, against the fewest for even loads.
    stale_refused      completions of the stopped worker that were refused, as the task was another worker's.
    """
    order = sum(first[1] > second[1] for each in expected for first, second in pairwise(_of(made, each)))
    overlaps = sum(_overlaps(lines, each) for each in expected)
    count = Counter(made)
    lost = sum(count[each, number] != 1 for each, names in expected.items() for number in range(len(names)))
    moved = _moved(lines)
    refused = sum(line["word"] == "refused" for line in lines)
    return {
        "order_broken": {"passed": order == 0, "value": order},
        "overlaps": {"passed": overlaps == 0, "value": overlaps},
        "lost": {"passed": lost == 0, "value": lost},
        "moved_vs_minimum": {"passed": moved == 1.0, "value": moved},
        "stale_refused": {"passed": refused >= 1, "value": refused},
    }


def _of(made: Sequence[tuple[str, int]], country: str) -> list[tuple[str, int]]:
    return [each for each in made if each[0] == country]


def _overlaps(lines: Sequence[Line], country: str) -> int:
    """Return how many runs of a country began before the previous run had ended.

    A run also ends when its process is killed, or is stopped for longer than its lease.
    """
    mine = [line for line in lines if line.get("country") == country]
    runs = sorted((line["at"], _end(line, mine, lines)) for line in mine if line["word"] == "begun")
    return sum(begin < end for (_, end), (begin, _) in pairwise(runs))


def _end(begun: Line, mine: Sequence[Line], lines: Sequence[Line]) -> float:
    names = ("pid", "number", "attempt")
    ends = [each["at"] for each in mine if each["word"] in _ENDS and all(each[name] == begun[name] for name in names)]
    ends += [
        each["at"]
        for each in lines
        if each["word"] in _ACTS and each["pid"] == begun["pid"] and each["at"] > begun["at"]
    ]
    return min(ends, default=float("inf"))


def _moved(lines: Sequence[Line]) -> float | None:
    """Return the moves of lanes between settled times, against the fewest; None if no lane had to move."""
    moved = fewest = 0
    for before, after in pairwise(_settled(lines)):
        both = before.keys() & after.keys()
        moved += sum(before[each] != after[each] for each in both)
        had, has = (Counter(owners[each] for each in both) for owners in (before, after))
        fewest += sum(max(0, has[each] - had[each]) for each in has)
    return round(moved / fewest, 2) if fewest else None


def _settled(lines: Sequence[Line]) -> list[Owners]:
    """Return the owners of the lanes, as the runs show them, after each time at which all was settled."""
    found: list[dict[int, str]] = []
    is_settled = False
    for line in sorted(lines, key=lambda each: float(each["at"])):
        if line["word"] == "settled":
            is_settled = True
            found.append({})
        elif line["word"] in (*_ACTS, "started"):
            is_settled = False
        elif line["word"] == "begun" and is_settled:
            found[-1][partition_of(line["country"], PARTITIONS)] = line["worker"]
    return list(found)


if __name__ == "__main__":
    print(json.dumps(checks(read(Path(sys.argv[2])), Visits(Path(sys.argv[1])).made(), itinerary())))
