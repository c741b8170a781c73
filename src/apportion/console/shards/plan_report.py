"""Plan report of shards: the plan that a file holds, and its printing, a line per pair of shards."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from apportion.console.files.io import read_bounded
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.errors import BadSnapshot, InvalidInput
from apportion.model import codec
from apportion.shards.admin import PairChannel
from apportion.shards.plan import ShardPlan, decode_shard_plan
from apportion.shards.plan.size_text import size_text


def read_shard_plan(path: Path) -> ShardPlan:
    """Return a saved plan; `BadSnapshot` for any other file."""
    data = read_bounded(path, codec.MAX_BYTES, what="plan file")
    try:
        return decode_shard_plan(data)
    except BadSnapshot as error:
        error.within(str(path))
        if error.field == "snapshot kind":
            error.hint = "Pass a file saved by apportion shards plan -o"
        raise


def print_shard_plan(plan: ShardPlan, channels: Sequence[PairChannel]) -> None:
    """Print the slots, rows and bytes that go from shard to shard, the channels that are possible, and the bound."""
    pairs = _pairs(plan)
    if pairs:
        rows = [
            (f"{source} -> {target}", str(slots), str(count), size_text(size))
            for source, target, slots, count, size in pairs
        ]
        print_columns(("move", "slots", "rows", "size"), rows)
        print()
    for each in channels:
        words = "apply --channel native" if each.kind == "native" else "a log of keys"
        print_text(f"{each.source} -> {each.target}: {words}: {each.reason}")
    print_text(f"shards plan: {plan.summary}")


def print_shard_plan_json(plan: ShardPlan, channels: Sequence[PairChannel]) -> None:
    """Print a plan as JSON, with every group."""
    print_json(
        "shards plan",
        set=plan.name,
        version=str(plan.version),
        id=plan.id,
        pending=bool(plan.groups),
        slots=plan.total,
        moved=plan.moved,
        least_moves=plan.least,
        rows=plan.rows,
        bytes=sum(each.bytes for each in plan.groups),
        summary=plan.summary,
        shards=[{"id": shard, "weight": weight} for shard, weight in plan.weights.items()],
        channels=[
            {"source": each.source, "target": each.target, "channel": each.kind, "reason": each.reason}
            for each in channels
        ],
        moves=[
            {"id": move.move, "source": move.source, "target": move.target, "slots": len(move.slots), "rows": each.rows}
            for move, each in zip(plan.moves, plan.groups, strict=True)
        ],
    )


def slots_in(ranges: Sequence[str]) -> list[int]:
    """Return the slots that are named as numbers and ranges.

    >>> slots_in(["3", "9-11"])
    [3, 9, 10, 11]
    """
    found: list[int] = []
    for word in ranges:
        first, mark, last = word.partition("-")
        numbers = (first, last) if mark else (first, first)
        if not all(each.isascii() and each.isdecimal() and len(each) < 6 for each in numbers):
            raise InvalidInput("--move", word, "a slot, or the first and last slot of a range", "Write --move 0-255.")
        low, high = map(int, numbers)
        if low > high:
            raise InvalidInput("--move", word, "the lower number first", f"Write --move {high}-{low}.")
        found.extend(range(low, high + 1))
    return found


def _pairs(plan: ShardPlan) -> list[tuple[str, str, int, int, int]]:
    slots, rows, sizes = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for each in plan.groups:
        pair = each.source, each.target
        slots[pair] += len(each.slots)
        rows[pair] += each.rows
        sizes[pair] += each.bytes
    return [(*pair, slots[pair], rows[pair], sizes[pair]) for pair in sorted(slots)]
