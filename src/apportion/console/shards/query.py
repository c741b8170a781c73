"""`apportion shards query`: run one statement of SQL on each shard."""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.shards.options import SetName
from apportion.shards import admin


def query_shards(
    url: Url,
    name: SetName,
    statement: Annotated[str, Parameter(name="SQL", help="A SELECT, with {owned} in WHERE.")],
    /,
    *,
    max_rows: Annotated[Whole, Parameter(help="Most rows of one shard.")] = admin.MOST_ROWS,
    json: Json = False,
) -> None:
    """Run one statement of SQL that reads on each shard, and print the rows of each shard under its id."""
    with Progress("asking", is_shown=not json):
        found = asyncio.run(admin.query(url, name, statement, max_rows=max_rows))
    if json:
        shards = [{"id": each.shard, "columns": each.columns, "rows": [*map(_plain, each.rows)]} for each in found]
        print_json("shards query", set=name, shards=shards)
        return
    columns = next((each.columns for each in found), ())
    print_columns(("shard", *columns), [(each.shard, *map(_shown, row)) for each in found for row in each.rows])
    print_text(f"shards query: {name}: {sum(len(each.rows) for each in found)} rows of {len(found)} shards")


def _plain(row: tuple[object, ...]) -> list[object]:
    return [each if each is None or type(each) in (bool, int, float, str) else _shown(each) for each in row]


def _shown(value: object) -> str:
    return "NULL" if value is None else value.hex() if isinstance(value, bytes) else f"{value}"
