"""Verifier of the demonstration, a separate process: it reads the log of effects, and nothing else.

    python -m apportion.console.demo.groups.verify LEDGER

It prints one JSON object. For each check, the object holds the verdict and the value. See `checks` for their meaning.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from apportion.console.demo.groups.work import PARTITIONS, WorkLedger, partitioned

Line = dict[str, object]
EPSILON_SECONDS = 1e-6


def checks(lines: Sequence[Line], sizes: Sequence[int]) -> dict[str, dict[str, object]]:
    """Return the verdicts on a log.

    overlaps               pairs of effects on one partition, of different holders, that overlapped in time.
    lost                   places that were not counted, or counted more than once.
    disturbed              effects under a new token, though the same member made the previous effect on the partition.
                           An effect of a new session does not count if the member slept past its lease and had a
                           write refused.
    stale_writes_refused   writes under an old token that the guard refused.
    moves_vs_minimum       moved partitions, divided by the fewest moves that the changes of members need.
    """
    effects = [line for line in lines if "places" in line]
    by_partition: dict[int, list[Line]] = defaultdict(list)
    for effect in effects:
        by_partition[_int(effect["partition"])].append(effect)
    overlaps = sum(_overlaps(each) for each in by_partition.values())
    lost = sum(_lost(by_partition[partition], size) for partition, size in enumerate(sizes))
    sleepers = {line["member"] for line in lines if line.get("refused")}
    disturbed = sum(_disturbed(each, sleepers) for each in by_partition.values())
    refused = sum(bool(line.get("refused")) for line in lines)
    moves, least = _moves(lines)
    ratio = moves / least if least else 1.0
    return {
        "overlaps": {"passed": overlaps == 0, "value": overlaps},
        "lost": {"passed": lost == 0, "value": lost},
        "disturbed": {"passed": disturbed == 0, "value": disturbed},
        "stale_writes_refused": {"passed": refused >= 1, "value": refused},
        "moves_vs_minimum": {"passed": ratio == 1.0, "value": round(ratio, 3), "moves": moves, "minimum": least},
    }


def _overlaps(effects: Iterable[Line]) -> int:
    in_time = sorted(effects, key=lambda each: _float(each["began"]))
    return sum(
        before["holder"] != after["holder"] and _float(after["began"]) < _float(before["ended"]) - EPSILON_SECONDS
        for before, after in pairwise(in_time)
    )


def _lost(effects: Iterable[Line], size: int) -> int:
    counted: Counter[int] = Counter()
    for effect in effects:
        start = _int(effect["start"])
        counted.update(range(start, start + _int(effect["places"])))
    return sum(counted[place] != 1 for place in range(size)) + sum(place >= size for place in counted)


def _disturbed(effects: Sequence[Line], sleepers: Collection[object]) -> int:
    return sum(
        before["member"] == after["member"]
        and before["token"] != after["token"]
        and (before["holder"] == after["holder"] or before["member"] not in sleepers)
        for before, after in pairwise(effects)
    )


def _moves(lines: Sequence[Line]) -> tuple[int, int]:
    """Return the number of partitions that moved, and the number that had to move.

    Both are sums over all steps, up to the step without members.
    """
    moves = least = 0
    owners: dict[int, str] = {}
    before: dict[int, str] = {}
    members: Sequence[object] = ()
    for line in lines:
        if "places" in line:
            owners[_int(line["partition"])] = str(line["member"])
        elif "step" in line:
            if before and members:
                moves += sum(before[partition] != owner for partition, owner in owners.items())
                least += _least(Counter(before.values()), [str(each) for each in members])
            before = dict(owners)
            said = line["members"]
            members = said if isinstance(said, list) else ()
    return moves, least


def _least(loads: Counter[str], members: Sequence[str]) -> int:
    """Return the fewest moves from these loads to even loads.

    Members below their even share get partitions until each has its share.
    """
    share, rest = divmod(PARTITIONS, len(members))
    in_order = sorted((loads[member] for member in members), reverse=True)
    return sum(max(0, share + (place < rest) - load) for place, load in enumerate(in_order))


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _float(value: object) -> float:
    return value if isinstance(value, float) else 0.0


if __name__ == "__main__":
    found: dict[str, dict[str, object]] = checks(
        WorkLedger(Path(sys.argv[1])).lines(), [len(part) for part in partitioned()]
    )
    print(json.dumps(found))
