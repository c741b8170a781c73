"""`apportion shards migrate`: bring all shards to one revision with the user's own Alembic."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.shards.options import SetName
from apportion.shards import admin


def migrate_shards(
    url: Url,
    name: SetName,
    /,
    *,
    config: Annotated[Path, Parameter(help="File of Alembic's settings.")] = Path("alembic.ini"),
    to: Annotated[str, Parameter(help="Id of a revision, or head.")] = "head",
    canary: Annotated[str | None, Parameter(help="Shard that is migrated first, alone. Default: first by id.")] = None,
    parallel: Annotated[Whole, Parameter(help="Shards that are migrated at once, after the canary.")] = 4,
    dry_run: Annotated[bool, Parameter(help="Report the revisions that are due, and run none.", negative="")] = False,
    json: Json = False,
) -> int:
    """Run the revisions of your own Alembic on each shard, while no move is under way.

    After a shard that fails, no other begins, and the same command goes on later. Exit code 1 if a shard is not at the
    revision at the end.
    """
    with Progress("reading" if dry_run else "migrating", is_shown=not json):
        found = asyncio.run(
            admin.migrate(url, name, config=config, to=to, canary=canary, parallel=parallel, is_dry_run=dry_run)
        )
    if json:
        shards = [asdict(each) for each in found.shards]
        print_json("shards migrate", set=name, target=found.target, complete=found.is_whole, shards=shards)
    else:
        _print(name, found, is_dry_run=dry_run)
    return 0 if found.is_whole or dry_run else 1


def _print(name: str, found: admin.SetMigration, *, is_dry_run: bool) -> None:
    rows = [
        (each.id, each.revision or "-", ", ".join(each.due) or "-" if is_dry_run else each.state)
        for each in found.shards
    ]
    print_columns(("shard", "revision", "due" if is_dry_run else "state"), rows, words=3)
    print()
    for each in found.shards:
        if each.error:
            print_text(f"- {each.id}: {each.error}")
    done = sum(each.state == "done" for each in found.shards)
    rest = "; nothing was changed" if is_dry_run else "" if found.is_whole else "; the same command goes on"
    print_text(f"shards migrate: {name}: {done} of {len(found.shards)} shards at {found.target}{rest}")
