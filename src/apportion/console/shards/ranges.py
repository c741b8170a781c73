"""`apportion shards split` and `shards merge`: other bounds for the ranges of the slots."""

import asyncio
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.print.output import print_columns, print_json
from apportion.console.shards.move_bar import MoveBar
from apportion.console.shards.options import Models, SetName, base_at, key_in
from apportion.shards import admin
from apportion.shards.admin.keys.key_order import check_ordered
from apportion.shards.ranges.range_map import RangeBounds, check_bound

_Slot = Annotated[Whole, Parameter(name="SLOT", help="Number of a slot.")]


def split_shards(
    url: Url,
    name: SetName,
    slot: _Slot,
    at: Annotated[str, Parameter(name="AT", help="First key of the new slot.")],
    /,
    *,
    models: Models,
    to: Annotated[str | None, Parameter(help="Shard that gets the rows. Default: they stay on their shard.")] = None,
    json: Json = False,
) -> None:
    """Divide the range of a slot at a key, while programs write. The keys from there on get a slot of their own.

    Moves that have begun are made first. After an interruption, run the same command again to go on.
    """
    base = base_at(models)
    check_ordered(base)
    bound = check_bound(key_in(base, at))
    bar = MoveBar({}, is_shown=not json)
    try:
        found = asyncio.run(admin.split(url, name, slot, bound, base=base, to=to, observer=bar.take))
    finally:
        bar.end()
    _print_slot("split", name, found, json=json)


def merge_shards(
    url: Url,
    name: SetName,
    slot: _Slot,
    other: Annotated[Whole, Parameter(name="OTHER", help="Slot of the range beside it, on the same shard.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Join two neighbouring ranges of one shard. The slot of the first one has both ranges then."""
    _print_slot("merge", name, asyncio.run(admin.merge(url, name, slot, other)), json=json)


def _print_slot(act: str, name: str, found: admin.RangeSlot, *, json: bool) -> None:
    if json:
        print_json(f"shards {act}", set=name, slot=asdict(found))
        return
    bounds = RangeBounds(start=found.start, end=found.end)
    row = (str(found.slot), str(bounds), found.shard, "now" if found.is_new else "before")
    print_columns(("slot", "range", "shard", "made"), [row], words=1)
