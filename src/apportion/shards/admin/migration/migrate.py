"""Migrate: brings all shards of a set to one revision with the user's own Alembic, while no move is under way.

The canary comes first, alone. The same call again goes on after a failure.

Promises: no move begins until each shard has come to the revision. Each shard is locked meanwhile, and has its triggers
again when it is unlocked.
Refuses: to begin beside a move that is not over, also one whose old rows wait for `clean`: a revision that writes rows
would meet them.
"""

import asyncio
from importlib.util import find_spec
from pathlib import Path

from apportion.errors import InvalidInput, MissingExtra
from apportion.runtime.events import checked_observer
from apportion.runtime.io_thread import io_thread
from apportion.shards.admin.carrier import carried
from apportion.shards.admin.migration.run import (
    MigrationObserved,
    MigrationRun,
    MigrationWish,
    SetMigration,
    idle,
    job_of,
)
from apportion.shards.migration.child import Answer
from apportion.shards.migration.process import looked
from apportion.shards.migration.record import ShardMigration
from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left

MOST_AT_ONCE = 64
_WITHIN_SECONDS = 5.0


async def migrate(
    url: str,
    name: str,
    *,
    config: Path | str = "alembic.ini",
    to: str = "head",
    canary: str | None = None,
    parallel: int = 4,
    is_dry_run: bool = False,
    observer: MigrationObserved | None = None,
) -> SetMigration:
    """Run the user's revisions of Alembic on each shard, each in a process of its own.

    - `config`: the file of Alembic's settings. Its `env.py` gets the URL of a shard as `sqlalchemy.url`, and as
      `SHARD_URL` in the environment.
    - `to`: the id of a revision, or "head".
    - `canary`: the shard that is migrated first, alone. Default: the first by id.
    - `parallel`: the number of shards that are migrated at once, after the canary.
    - `is_dry_run`: only return the revision of each shard, and the revisions that are due.
    - `observer`: a function that is called with each new state of a shard, in the I/O thread.

    The same call again goes on after a failure or a kill. While another process moves slots, this call waits.
    `Conflict` if a move is not over. `InvalidInput` for an `env.py` that opens another database, for two heads, and for
    an unknown revision; then nothing was changed. `MissingExtra` without Alembic.
    """
    observer = checked_observer(observer, "migrate(…")
    wish = MigrationWish(config=_checked_config(config, parallel), to=to, canary=canary, parallel=parallel)
    if is_dry_run:
        return await io_thread().hop(_rehearsed(url, name, wish))
    first = await io_thread().hop(_first_seen(url, name, wish))
    told = observer or (lambda _: None)
    return await carried(url, name, lambda carrier: MigrationRun(carrier, wish, first, told).migrated())


def _checked_config(config: Path | str, parallel: int) -> Path:
    if type(parallel) is not int or not 1 <= parallel <= MOST_AT_ONCE:
        hint = "Each one is a process of its own. The default is 4."
        raise InvalidInput("parallel", parallel, f"a whole number of 1 to {MOST_AT_ONCE}", hint)
    if find_spec("alembic") is None:
        raise MissingExtra("Alembic", "alembic")
    place = Path(config).absolute()
    if not place.is_file():
        hint = "Name the file of Alembic: --config path/to/alembic.ini"
        raise InvalidInput("settings of Alembic", str(config), "a file that exists", hint)
    return place


async def _rehearsed(url: str, name: str, wish: MigrationWish) -> SetMigration:
    """Return the revisions that are due on each shard."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        order, limit = wish.ordered(followed.shards), asyncio.Semaphore(wish.parallel)

        async def _look(shard: str) -> Answer:
            async with limit:
                return await looked(job_of(followed, shard, wish))

        answers = await asyncio.gather(*map(_look, order))
    finally:
        await set_left(followed)
    found = [
        ShardMigration(id=shard, state="pending" if each.due else "done", revision=each.revision, due=each.due)
        for shard, each in zip(order, answers, strict=True)
    ]
    return SetMigration(target=answers[0].target, shards=tuple(found))


async def _first_seen(url: str, name: str, wish: MigrationWish) -> Answer:
    """Return the answer of the canary. Refuse anything that would stop the migration before its first act."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        shard = wish.ordered(followed.shards)[0]
        await idle(followed)
        return await looked(job_of(followed, shard, wish))
    finally:
        await set_left(followed)
