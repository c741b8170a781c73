"""Verifier of the demonstration of schedules, a separate process: it reads the rows of the tasks, and nothing else.

    python -m apportion.console.demo.cron.verify DATABASE NUMBER

The slots of the year come from a walk over its minutes, and not from the calendar of the nodes. It prints one JSON
object. For each check, the object holds the verdict and the value.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from apportion.console.demo.cron.year import BEGIN, END, SCHEDULES, YearLog
from apportion.console.demo.verdict import Verdict
from apportion.sim.slot_walk import SlotWalk, instant

Run = tuple[int, str, int]


def checks(ran: Sequence[Run], expected: Mapping[str, Sequence[int]], before_replay: int) -> Verdict:
    """Return the verdicts on the runs, each with its number, and on the slots that each schedule should have had.

    missing    slots without a run.
    doubled    runs of a slot beyond the first, and runs at a time that is no slot. Only the runs up to number
               `before_replay` are counted here.
    refired    runs with a higher number: old slots that ran again after the late node had tried to trigger them.
    """
    counts = Counter((name, slot) for number, name, slot in ran if number <= before_replay)
    slots = {(name, slot) for name, each in expected.items() for slot in each}
    missing = len(slots - counts.keys())
    doubled = sum(counts.values()) - len(slots & counts.keys())
    refired = sum(number > before_replay for number, _, _ in ran)
    return {
        "missing": {"passed": missing == 0, "value": missing},
        "doubled": {"passed": doubled == 0, "value": doubled},
        "refired": {"passed": refired == 0, "value": refired},
    }


def slots_of_the_year() -> dict[str, list[int]]:
    """Return the slots of each schedule, in milliseconds since 1970."""
    walks = {name: SlotWalk(rule, zone) for name, (rule, zone) in SCHEDULES.items()}
    return {name: [*walk.between(instant(BEGIN), instant(END))] for name, walk in walks.items()}


if __name__ == "__main__":
    print(json.dumps(checks(YearLog(Path(sys.argv[1])).ran(), slots_of_the_year(), int(sys.argv[2]))))
