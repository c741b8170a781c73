"""`apportion shards accept-failover`: let a shard serve on another timeline of its server."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url
from apportion.console.print.output import print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.shards.options import SetName
from apportion.shards import admin

_MOST_NAMED = 20


def accept_failover_shards(
    url: Url,
    name: SetName,
    shard: Annotated[str, Parameter(name="ID", help="Shard with a server that failed over.")],
    /,
    *,
    check: Annotated[bool, Parameter(help="Report, and write nothing.", negative="")] = False,
    accept_loss: Annotated[
        bool, Parameter(help="Let slots that may have lost rows serve with the rows that are there.", negative="")
    ] = False,
    json: Json = False,
) -> int:
    """Let a shard serve on the timeline that its server has now, after writers got StoreWentBack.

    Exit code 1 if the shard does not serve, or if a move of it could not be ended yet.
    """
    with Progress("comparing", is_shown=not json):
        found = asyncio.run(admin.accept_failover(url, name, shard, is_check=check, accept_loss=accept_loss))
    is_refused = bool(found.ahead or (found.lost and not accept_loss))
    if json:
        print_json("shards accept-failover", set=name, check=check, **asdict(found))
    else:
        for line in _lines(found, name, accept_loss=accept_loss):
            print_text(f"- {line}")
        print_text(f"shards accept-failover: {name}: {_summary(found, check=check, is_refused=is_refused)}")
    return 1 if is_refused or found.unended else 0


def _lines(found: admin.FailOver, name: str, *, accept_loss: bool) -> Iterator[str]:
    if found.refused:
        yield f"{_slots(found.refused)}: they lie elsewhere, so this shard has to refuse them"
    if found.accepted:
        yield f"{_slots(found.accepted)}: they lie here, so this shard has to accept them again"
    if found.lost:
        way = "they serve with the rows that are there" if accept_loss else "to go on without them: --accept-loss"
        yield f"{_slots(found.lost)}: they lie here, and the server may have lost their rows; {way}"
    if found.ahead:
        way = f"first run: apportion shards recover URL {name}"
        yield f"{_slots(found.ahead)}: their versions are newer than the table; {way}"
    for move in found.moves:
        yield f"move {move} is under way: it is taken back if it has not switched, and brought to its end if it has"
    for move in found.unended:
        yield f"move {move} is not at its end yet; run: apportion shards apply URL {name}"


def _summary(found: admin.FailOver, *, check: bool, is_refused: bool) -> str:
    shard = f"shard {found.shard}"
    if found.noted == found.found:
        return f"{shard} serves on timeline {found.found} already"
    if is_refused:
        return f"{shard} does not serve on timeline {found.found}; nothing was written"
    if check:
        return f"{shard} would serve on timeline {found.found}, after {found.noted}"
    return f"{shard} serves on timeline {found.found}, after {found.noted}"


def _slots(slots: tuple[int, ...]) -> str:
    shown, more = ", ".join(map(str, slots[:_MOST_NAMED])), len(slots) - _MOST_NAMED
    return f"slots {shown}" + (f" and {more} more" if more > 0 else "")
