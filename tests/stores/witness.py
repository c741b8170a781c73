"""Real processes held against the invariants of the simulated world: what members say they did, and a watch of it all.

A member (`echo URL | python -m tests.stores.witness NAME`) changes a handful of keys by compare-and-set and prints each
commit before it is sent and after it was answered, with the machine's elapsed time; it may be killed at any moment. The
facts of all members and of a watch are then put into one order of time. When a change happened is not seen; but it was
after it was asked for, and after the change before it: the earliest such time is taken, and whatever was acknowledged
before that breaks an invariant.
"""

import asyncio
import json
import random
import sys
from collections.abc import Iterable

from apportion.runtime.clock import SystemClock
from apportion.sim.facts import Answered, Asked, Began, Changed, Delivered, Fact, Watching
from apportion.stores import Absent, Committed, Item, Put, Refused, Scan, StoreChange, Unchanged, Unknown, connect

KEYS = ("a", "b", "c", "d")
_RANKS = {Began: 0, Watching: 1, Asked: 2, Changed: 3, Answered: 4, Delivered: 5}
_OUTCOMES = {kind.__name__: kind for kind in (Committed, Refused, Unknown)}


async def main(url: str, name: str) -> None:
    """Commit until killed, and say so."""
    store, clock, drawn = await connect(url), SystemClock(), random.Random(name)
    number = 0
    while True:
        scan = await store.scan("")
        number += 1
        when, puts, deletes = _wanted(scan, f"{name}/{number}", drawn)
        call = {"call": f"{name}/{number}", "when": when, "puts": puts, "deletes": deletes}
        print(json.dumps({"at": clock.elapsed(), "incarnation": scan.incarnation, **call}), flush=True)
        outcome = await store.commit(
            when=[_compare(*each) for each in when],
            puts=[Put(key=key, value=value.encode()) for key, value in puts],
            deletes=deletes,
        )
        said = getattr(outcome, "revision", None)
        answer = {"answer": call["call"], "outcome": type(outcome).__name__, "said": said}
        print(json.dumps({"at": clock.elapsed(), **answer}), flush=True)


def facts_of(began: float, scan: Scan, lines: Iterable[str], seen: Iterable[tuple[float, StoreChange]]) -> list[Fact]:
    """Put what members said and a watch saw into the order of time."""
    said = [json.loads(line) for line in lines if line.endswith("\n")]  # a killed member's last line may be cut
    numbers = {each["call"]: index for index, each in enumerate(each for each in said if "call" in each)}
    asked = [_asked(each, numbers) for each in said if "call" in each]
    answered = [_answered(each, numbers) for each in said if "answer" in each]
    begin = Began(at=began, incarnation=scan.incarnation, revision=scan.revision, items=scan.items)
    watching = Watching(at=began, watch=1, process="witness", prefix="", after=scan.revision)
    changed, delivered, at = [], [], began
    for seen_at, change in seen:
        at = max(at, *(each.at for each in asked if _wrote(each) == _happened(change)), began)
        changed.append(_changed(at, scan.incarnation, change))
        delivered.append(Delivered(at=seen_at, watch=1, revision=change.revision, events=change.events))
    facts = [begin, watching, *asked, *changed, *answered, *delivered]
    return sorted(facts, key=lambda fact: (fact.at, _RANKS[type(fact)]))


def _wanted(scan: Scan, value: str, drawn: random.Random):
    held = {item.key: item.revision for item in scan.items}
    keys = sorted(drawn.sample(KEYS, drawn.choice((1, 1, 2))))
    when = [[key, held.get(key)] for key in keys]
    deletes = [key for key in keys if key in held and drawn.random() < 0.1 and len(keys) > 1][:1]
    return when, [[key, value] for key in keys if key not in deletes], deletes


def _compare(key: str, revision: "int | None") -> "Absent | Unchanged":
    return Absent(key=key) if revision is None else Unchanged(key=key, revision=revision)


def _asked(line, numbers: dict[str, int]) -> Asked:
    return Asked(
        at=line["at"],
        call=numbers[line["call"]],
        process=line["call"].partition("/")[0],
        incarnation=line["incarnation"],
        when=tuple(_compare(*each) for each in line["when"]),
        puts=tuple(Put(key=key, value=value.encode()) for key, value in line["puts"]),
        deletes=tuple(line["deletes"]),
    )


def _answered(line, numbers: dict[str, int]) -> Answered:
    kind = _OUTCOMES[line["outcome"]]
    outcome = Unknown(reason="") if kind is Unknown else kind(revision=line["said"])
    return Answered(at=line["at"], call=numbers[line["answer"]], outcome=outcome)


def _wrote(asked: Asked) -> set[tuple[str, "bytes | None"]]:
    return {(put.key, put.value) for put in asked.puts} | {(key, None) for key in asked.deletes}


def _happened(change: StoreChange) -> set[tuple[str, "bytes | None"]]:
    return {(event.key, event.value) for event in change.events}


def _changed(at: float, incarnation: int, change: StoreChange) -> Changed:
    items = tuple(
        (event.key, None if event.value is None else Item(key=event.key, value=event.value, revision=change.revision))
        for event in change.events
    )
    return Changed(at=at, incarnation=incarnation, revision=change.revision, items=items)


if __name__ == "__main__":
    asyncio.run(main(sys.stdin.readline().strip(), sys.argv[1]))
