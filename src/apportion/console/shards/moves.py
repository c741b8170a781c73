"""`apportion shards`: plan moves, take them back, clean up after them, and prove the rows of a set."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.output_file import FileKind, OutputFile
from apportion.console.options.arguments import Force, Json, Url
from apportion.console.plan import PENDING
from apportion.console.print.output import print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.shards.made_report import print_made, print_made_json
from apportion.console.shards.move_bar import MoveBar
from apportion.console.shards.options import Models, SetName, base_at, weights_of
from apportion.console.shards.plan_report import print_shard_plan, print_shard_plan_json, slots_in
from apportion.errors import InvalidInput
from apportion.shards import admin
from apportion.shards.mover.stop_points import labels
from apportion.shards.plan import Measure, encode_shard_plan

Tolerance = Annotated[
    float, Parameter(help="Largest difference between the load and the share of a shard, as a part of the share.")
]


def plan_shards(
    url: Url,
    name: SetName,
    /,
    *,
    weight: Annotated[
        list[str] | None, Parameter(help="Weight of a shard: ID=WEIGHT; may be repeated.", negative="")
    ] = None,
    drain: Annotated[list[str] | None, Parameter(help="Shard that gives away all its slots.", negative="")] = None,
    move: Annotated[
        list[str] | None, Parameter(help="Slots to move, such as 0-255 or 9000; may be repeated.", negative="")
    ] = None,
    to: Annotated[str | None, Parameter(help="Shard that the slots of --move go to.")] = None,
    by: Annotated[Measure, Parameter(help="Unit in which each shard gets its share.")] = "slots",
    tolerance: Tolerance = admin.TOLERANCE,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"), help="Save the plan, for shards apply.")] = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """Show the slots, rows and bytes that a change moves. Exit code 0: no moves, 2: some moves, 1: an error."""
    weights, slots = weights_of(weight, drain), slots_in(move or ())
    if bool(move) != (to is not None) or (move and (weights or by != "slots")):
        found = "--to" if to is not None else "--move"
        hint = "Write --move 0-255 --to two, or --weight two=1, or --drain one."
        raise InvalidInput(
            found, to or ",".join(move or ()), "--move and --to together, without --weight, --drain and --by", hint
        )
    file = None if output is None else OutputFile(path=output, kind=FileKind.SHARD_PLAN, force=force)
    if file is not None:
        file.check()
    with Progress("planning", is_shown=not json):
        made = asyncio.run(admin.plan(url, name, weights=weights, by=by, tolerance=tolerance, slots=slots, to=to))
        channels = asyncio.run(admin.channels(url, name, made))
    if file is not None:
        file.write(encode_shard_plan(made))
    (print_shard_plan_json if json else print_shard_plan)(made, channels)
    return PENDING if made.groups else 0


def verify_shards(url: Url, name: SetName, /, *, models: Models, json: Json = False) -> int:
    """Compare every row with its slot, and the owners of all slots. Exit code 1 if a fault is found."""
    base = base_at(models)
    with Progress("comparing", is_shown=not json):
        found = asyncio.run(admin.verify(url, name, base=base))
    if json:
        told = {"rows": found.rows, "references": found.references, "left_behind": found.left, "faulty": found.faulty}
        print_json("shards verify", set=name, sound=found.is_sound, **told, faults=list(found.faults))
        return 0 if found.is_sound else 1
    for fault in found.faults:
        print_text(f"- {fault}")
    words = "no row was found" if not found.rows else f"{found.faulty} faults" if found.faulty else "no fault"
    left = f"; {found.left} old copies are left by moves" if found.left else ""
    print_text(f"shards verify: {name}: {found.rows} rows compared, {words}{left}")
    return 0 if found.is_sound else 1


def rebalance_shards(
    url: Url,
    name: SetName,
    /,
    *,
    by: Annotated[Measure, Parameter(help="Unit in which each shard gets its share.")] = "bytes",
    tolerance: Tolerance = admin.TOLERANCE,
    if_skewed: Annotated[float, Parameter(help="Coefficient of variation above which slots move.")] = admin.SKEW,
    json: Json = False,
) -> int:
    """Bring each shard to its share if the shards are uneven, while programs write; for cron.

    Moves that have begun are made first. Exit code 1 if another process paused or aborted the moves.
    """
    bar = MoveBar({}, is_shown=not json)
    try:
        made = asyncio.run(
            admin.rebalance(url, name, by=by, tolerance=tolerance, if_skewed=if_skewed, observer=bar.take)
        )
    finally:
        bar.end()
    (print_made_json if json else print_made)("rebalance", name, made, bar)
    return 0 if made.is_whole else 1


def recover_shards(
    url: Url,
    name: SetName,
    /,
    *,
    check: Annotated[bool, Parameter(help="Report, and write nothing.", negative="")] = False,
    json: Json = False,
) -> int:
    """Bring a control store that was restored from an old copy up to the state of its shards.

    Exit code 1 if nobody can tell the owner of a slot. Nothing is written then.
    """
    bar = MoveBar({}, is_shown=not json)
    try:
        found = asyncio.run(admin.recover(url, name, is_check=check, observer=bar.take))
    finally:
        bar.end()
    if json:
        told = {"check": check, "version": str(found.version), "slots": found.slots, "moves": list(found.moves)}
        print_json("shards recover", set=name, **told, doubtful=found.doubtful, doubts=list(found.doubts))
        return 1 if found.doubtful else 0
    for doubt in found.doubts:
        print_text(f"- {doubt}")
    if found.doubtful:
        words = f"nobody can tell the owner of {found.doubtful} slots; nothing was written"
    else:
        words = f"{found.slots} slots {'have' if check else 'had'} another owner than in the table"
        words += f"; {len(found.moves)} moves {'are to be ended' if check else 'were ended'}; version {found.version}"
    print_text(f"shards recover: {name}: {words}")
    return 1 if found.doubtful else 0


def drain_shards(
    url: Url,
    name: SetName,
    shard: Annotated[str, Parameter(name="ID", help="Shard that gives away all its slots.")],
    /,
    *,
    by: Annotated[Measure, Parameter(help="Unit in which each other shard gets its share.")] = "slots",
    tolerance: Tolerance = admin.TOLERANCE,
    json: Json = False,
) -> int:
    """Give all slots of a shard to the other shards, while programs write.

    Moves that have begun are made first. Exit code 1 if another process paused or aborted the moves.
    """
    bar = MoveBar({}, is_shown=not json)
    try:
        made = asyncio.run(admin.drain(url, name, shard, by=by, tolerance=tolerance, observer=bar.take))
    finally:
        bar.end()
    (print_made_json if json else print_made)("drain", name, made, bar)
    return 0 if made.is_whole else 1


def abort_shards(url: Url, name: SetName, /, *, json: Json = False) -> int:
    """Take back all moves that have not switched: their slots stay where they are. Exit code 1 if something is left."""
    bar = MoveBar({}, is_shown=not json)
    try:
        made = asyncio.run(admin.abort(url, name, observer=bar.take))
    finally:
        bar.end()
    (print_made_json if json else print_made)("abort", name, made, bar)
    return 0 if made.is_whole else 1


def reverse_shards(
    url: Url,
    name: SetName,
    moves: Annotated[Sequence[str], Parameter(name="MOVE", help="Ids of moves, as shards status shows them.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Undo the switch of moves that were applied with --reversible, while programs write.

    The slots go back with all later writes. Exit code 1 if another process paused or aborted a reversal.
    """
    bar = MoveBar({}, is_shown=not json)
    try:
        made = asyncio.run(admin.reverse(url, name, moves, observer=bar.take))
    finally:
        bar.end()
    (print_made_json if json else print_made)("reverse", name, made, bar)
    return 0 if made.is_whole else 1


def pause_shards(url: Url, name: SetName, /, *, json: Json = False) -> None:
    """Pause the moves that have not switched, until the next shards apply."""
    with Progress("pausing", is_shown=not json):
        count = asyncio.run(admin.pause(url, name))
    if json:
        print_json("shards pause", set=name, moves=count)
        return
    print_text(f"shards pause: {name}: {count} moves rest; go on with: apportion shards apply URL {name}")


def clean_shards(
    url: Url,
    name: SetName,
    /,
    *,
    soak: Annotated[timedelta, Parameter(help="Clean only moves that ended at least this long ago.")] = admin.SOAK,
    json: Json = False,
) -> None:
    """Delete the old rows of moves that have ended, in small transactions."""
    bar = MoveBar({}, is_shown=not json)
    try:
        made = asyncio.run(admin.clean(url, name, soak=soak, observer=bar.take))
    finally:
        bar.end()
    (print_made_json if json else print_made)("clean", name, made, bar)


def labels_shards(*, json: Json = False) -> None:
    """Print the labels of the points at which APPORTION_SHARDS_STOP_AT kills a mover, for fire drills."""
    if json:
        print_json("shards labels", labels=list(labels()))
        return
    for label in labels():
        print_text(label)
