"""Partitions: makes the next periods of timed tables on each shard, and lets old periods leave.

Promises: the same call again goes on after a kill at any point, and changes nothing that is done. Without `drop`, old
rows are only reported.
Refuses: a shard with a move that is not over, because the rows of both shards are compared. The other shards go on.
"""

from datetime import timedelta
from pathlib import Path

from apportion.errors import Conflict, InvalidInput
from apportion.runtime.events import checked_observer
from apportion.runtime.io_thread import io_thread
from apportion.shards.admin.carrier import carried
from apportion.shards.admin.retention.run import moving_shards, run_on_set
from apportion.shards.admin.retention.values import PartitionObserved, PartitionWish, SetPartitions
from apportion.shards.periods.archive import check_folder
from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left

MOST_AHEAD = 1_000
_WITHIN_SECONDS = 5.0


async def partitions(
    url: str,
    name: str,
    *,
    ahead: int | None = None,
    older_than: timedelta | None = None,
    archive: Path | str | None = None,
    drop: bool = False,
    observer: PartitionObserved | None = None,
) -> SetPartitions:
    """Return the partitions of the timed tables on each shard. With the options, make and drop some of them.

    - `ahead`: the number of periods after the present one that a table of PostgreSQL must have. Absent ones are made.
    - `older_than`: the age of a period. A period is due if all of its rows are older. On SQLite its rows are due.
    - `drop`: let periods leave that are due, while programs write. Without it, they are only returned.
    - `archive`: a folder. The rows of a period are first written to a file there, and read back from it.
    - `observer`: a function that is called with each `PartitionEvent`, in the I/O thread.

    While another process moves slots, a call that changes something waits. `why` of a shard tells the reason if it was
    left out, or is not through. `Conflict` if moves that are not over concern every shard. `InvalidInput` for rows
    later than all periods, for a folder that is absent, and for a set without timed tables.
    """
    observer = checked_observer(observer, "partitions(…")
    folder = _checked(ahead, older_than, archive, drop=drop)
    wish = PartitionWish(ahead=ahead, older_than=older_than, drop=drop, archive=folder)
    told = observer or (lambda _: None)
    if ahead is None and not drop:
        return await io_thread().hop(_looked(url, name, wish))
    await io_thread().hop(_require_free(url, name))
    return await carried(
        url, name, lambda carrier: run_on_set(carrier.followed, wish, told, carrier.token, carrier.mover.check)
    )


def _checked(ahead: int | None, older_than: timedelta | None, archive: Path | str | None, *, drop: bool) -> Path | None:
    if ahead is not None and (type(ahead) is not int or not 0 <= ahead <= MOST_AHEAD):
        raise InvalidInput("ahead", ahead, f"a whole number of 0 to {MOST_AHEAD}", "Write --ahead 3.")
    if older_than is not None and not (isinstance(older_than, timedelta) and older_than > timedelta(0)):
        raise InvalidInput("older_than", older_than, "a time above 0", "Write --older-than 400d.")
    if drop and older_than is None:
        raise InvalidInput("drop", drop, "an age with it", "Write --older-than 400d --drop.")
    if archive is not None and not drop:
        raise InvalidInput("archive", f"{archive}", "drop with it", "Write --older-than 400d --archive DIR --drop.")
    return None if archive is None else check_folder(Path(archive))


async def _looked(url: str, name: str, wish: PartitionWish) -> SetPartitions:
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        return await run_on_set(followed, wish, lambda _: None)
    finally:
        await set_left(followed)


async def _require_free(url: str, name: str) -> None:
    """Refuse a set with moves on all of its shards at once, before this call waits for their mover."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        moving = await moving_shards(followed)
        if moving and moving.keys() >= followed.shards.keys():
            named = ", ".join(sorted({*moving.values()}))
            hint = f"Let them end: apportion shards apply URL {name}, then shards clean --soak 0s"
            raise Conflict(f"all shards of set {name} have moves that are not over: {named}.", hint)
    finally:
        await set_left(followed)
