"""Plan file: the bytes of a plan of shards, for a file and for `apply`.

Promises: a plan that is read is equal to the plan that was written. Bytes that were cut or edited raise `BadSnapshot`,
before their content is used.
Refuses: to hold URLs.
"""

import json
from typing import Any

from apportion.errors import BadSnapshot, InvalidInput
from apportion.model import codec
from apportion.model.codec.parsing import integer, items, members, names_in, pairs, refuse, text
from apportion.model.topology import Node
from apportion.shards.plan.shard_plan import MEASURES, Measure, PlannedGroup, ShardPlan
from apportion.shards.records import check_shard_id
from apportion.shards.slots import MOST_SLOTS
from apportion.tables.layout import TableKeys, Version

_KIND = "shardplan"
_HINT = "Make it again with: apportion shards plan URL SET -o FILE"


def encode_shard_plan(plan: ShardPlan) -> bytes:
    """Return the bytes of a plan."""
    said = {
        "set": plan.name,
        "version": [plan.version.incarnation, plan.version.number],
        "words": plan.words,
        "weights": dict(plan.weights),
        "least": plan.least,
        "total": plan.total,
        "measure": plan.measure,
        "groups": [[each.source, each.target, _ranges(each.slots), each.rows, each.bytes] for each in plan.groups],
    }
    return codec.wrapped(_KIND, json.dumps(said, separators=(",", ":")).encode())


def decode_shard_plan(data: bytes) -> ShardPlan:
    """Return the plan of its bytes. `BadSnapshot` for any other bytes."""
    body = codec.body_in(data, _KIND)
    try:
        return _plan(json.loads(body))
    except BadSnapshot:
        raise
    except (ValueError, RecursionError) as error:
        raise BadSnapshot("plan file", body, "a plan that apportion wrote", _HINT) from error


def _plan(form: object) -> ShardPlan:
    name, version, words, weights, least, total, measure, groups = members(
        form, "set", "version", "words", "weights", "least", "total", "measure", "groups"
    )
    life, number = map(integer, items(version, 2))
    return ShardPlan(
        name=TableKeys(text(name)).name,
        version=Version(incarnation=life, number=number),
        words=_line(text(words)),
        weights={check_shard_id(shard): _weight(shard, weight) for shard, weight in pairs(weights).items()},
        groups=tuple(map(_group, items(groups))),
        least=integer(least),
        total=integer(total),
        measure=_measure(measure),
    )


def _measure(form: object) -> Measure:
    found = next((each for each in MEASURES if each == form), None)
    return found or refuse(form, f"one of {', '.join(MEASURES)}")


def _group(form: object) -> PlannedGroup:
    source, target, ranges, rows, size = items(form, 5)
    source, target = names_in([source, target])
    slots = tuple(slot for each in items(ranges) for slot in _slots(each))
    return PlannedGroup(source=source, target=target, slots=slots, rows=integer(rows), bytes=integer(size))


def _slots(form: object) -> range:
    first, last = map(integer, items(form, 2))
    if not 0 <= first <= last < MOST_SLOTS:
        refuse([first, last], f"the first and the last of some slots below {MOST_SLOTS}")
    return range(first, last + 1)


def _ranges(slots: tuple[int, ...]) -> list[list[int]]:
    found: list[list[int]] = []
    for slot in slots:
        if found and found[-1][1] == slot - 1:
            found[-1][1] = slot
        else:
            found.append([slot, slot])
    return found


def _weight(shard: str, weight: Any) -> float:  # noqa: ANN401 - any JSON
    return Node(shard, weight=weight).weight


def _line(words: str) -> str:
    if not words.isprintable():
        raise InvalidInput("words", words, "a line that can be printed", "Plan anew.")
    return words
