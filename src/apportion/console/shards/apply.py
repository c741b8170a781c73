"""`apportion shards apply`: carry out a plan of moves, with the options of the channel and the limits."""

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.shards.made_report import print_made, print_made_json
from apportion.console.shards.move_bar import MoveBar
from apportion.console.shards.options import SetName, rate_of, size_of
from apportion.console.shards.plan_report import read_shard_plan
from apportion.shards import admin
from apportion.shards.channel import ChannelKind
from apportion.shards.mover.limits import LIMITS

_Plan = Annotated[Path | None, Parameter(name="PLAN", help="Plan saved by shards plan -o.")]
_Reversible = Annotated[
    bool,
    Parameter(
        help="Let targets log changed rows, so that a switch can be undone until shards clean runs.", negative=""
    ),
]
_Channel = Annotated[
    ChannelKind, Parameter(help="Channel that brings the rows: a log of keys, or logical replication (native).")
]
_AllowUnboundedWal = Annotated[
    bool, Parameter(help="Replicate also from a server without max_slot_wal_keep_size.", negative="")
]
_MaxWal = Annotated[
    str | None,
    Parameter(help="Most WAL that a source may keep for a move. Above it, the move is aborted. Default: 10GB."),
]
_Attempts = Annotated[
    Whole, Parameter(help="Attempts to switch a move. If all fail, the move rests; run the command again to go on.")
]
_Rate = Annotated[
    str | None, Parameter(help="Most bytes of rows to copy per second, all moves together, such as 5MB/s.")
]
_Parallel = Annotated[
    Whole,
    Parameter(
        help="Number of groups that move at the same time. On SQLite, their targets differ: a file takes one writer."
    ),
]


def apply_shards(
    url: Url,
    name: SetName,
    plan: _Plan = None,
    /,
    *,
    reversible: _Reversible = False,
    channel: _Channel = "keys",
    allow_unbounded_wal: _AllowUnboundedWal = False,
    max_wal: _MaxWal = None,
    attempts: _Attempts = LIMITS.attempts,
    rate: _Rate = None,
    parallel: _Parallel = 1,
    json: Json = False,
) -> int:
    """Carry out a plan while programs write. Without a plan, go on with the moves that have begun.

    After an interruption, run the same command again to go on. Exit code 1 if another process paused or aborted
    the moves, or if a limit has stopped one.
    """
    limit = None if rate is None else rate_of(rate)
    most_wal = LIMITS.wal_bytes if max_wal is None else size_of("--max-wal", max_wal)
    saved = None if plan is None else read_shard_plan(plan)
    rows = {} if saved is None else {move.move: each.rows for move, each in zip(saved.moves, saved.groups, strict=True)}
    bar = MoveBar(rows, is_shown=not json)
    applying = admin.apply(
        url,
        name,
        saved,
        channel=channel,
        allows_unbounded_wal=allow_unbounded_wal,
        most_wal_bytes=most_wal,
        attempts=attempts,
        is_reversible=reversible,
        bytes_per_second=limit,
        parallel=parallel,
        observer=bar.take,
    )
    try:
        made = asyncio.run(applying)
    finally:
        bar.end()
    (print_made_json if json else print_made)("apply", name, made, bar)
    return 0 if made.is_whole else 1
