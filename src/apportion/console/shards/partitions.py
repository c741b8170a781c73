"""`apportion shards partitions`: make the next periods of tables that keep their rows by time, and drop old ones."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.shards.options import SetName
from apportion.shards import admin
from apportion.shards.plan.size_text import size_text


def partitions_shards(
    url: Url,
    name: SetName,
    /,
    *,
    ahead: Annotated[
        Whole | None, Parameter(help="Periods that must follow the present one; absent ones are made.")
    ] = None,
    older_than: Annotated[timedelta | None, Parameter(help="Age of periods that are due, such as 400d.")] = None,
    archive: Annotated[Path | None, Parameter(help="Folder: write the rows there first, and read them back.")] = None,
    drop: Annotated[bool, Parameter(help="Let the periods leave that are due.", negative="")] = False,
    json: Json = False,
) -> int:
    """Show the partitions of tables with a time; make the next ones, and drop old ones, while programs write.

    The same command again goes on after a kill. Exit code 1 if a shard was left out: it is silent, or it has a move.
    """
    is_seen = ahead is None and not drop
    with Progress("reading" if is_seen else "working", is_shown=not json):
        found = asyncio.run(admin.partitions(url, name, ahead=ahead, older_than=older_than, archive=archive, drop=drop))
    if json:
        print_json(
            "shards partitions", set=name, complete=found.is_whole, shards=[_form(each) for each in found.shards]
        )
    else:
        _print(name, found)
    return 0 if found.is_whole else 1


def _print(name: str, found: admin.SetPartitions) -> None:
    print_columns(("shard", "partition", "from", "to", "rows", "bytes", "state"), _rows(found), words=2)
    print()
    for each in found.shards:
        if each.why:
            print_text(f"- {each.shard}: {each.why}")
    made, dropped = (sum(len(part) for part in parts) for parts in _changes(found))
    due = sum(len(each.due) for each in found.shards)
    rows = sum(each.rows_dropped for each in found.shards)
    print_text(f"shards partitions: {name}: due {due}, made {made}, dropped {dropped} with {rows} rows")


def _changes(found: admin.SetPartitions) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    return [each.made for each in found.shards], [each.dropped for each in found.shards]


def _rows(found: admin.SetPartitions) -> Iterator[tuple[str, ...]]:
    """Yield a line for each partition. One that was dropped stands in `due` alone."""
    for shard in found.shards:
        due, there = {each.name for each in shard.due}, {each.name for each in shard.partitions}
        gone = [each for each in shard.due if each.name not in there]
        for each in (*gone, *shard.partitions):
            state: str = "due" if each.name in due else "made" if each.name in shard.made else each.state
            state = "dropped" if each.name in shard.dropped else state
            ends = (_day(each.lower), _day(each.upper))
            yield shard.shard, each.name, *ends, f"{each.rows}", size_text(each.bytes), state


def _day(day: date | None) -> str:
    return "-" if day is None else f"{day}"


def _form(shard: admin.ShardPartitions) -> dict[str, object]:
    form = asdict(shard)
    for part in (*form["partitions"], *form["due"]):
        part["lower"], part["upper"] = (None if part[end] is None else f"{part[end]}" for end in ("lower", "upper"))
    return form
