"""`apportion shards isolate`: give a key with rows a slot of its own."""

import asyncio
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url
from apportion.console.print.output import print_columns, print_json
from apportion.console.shards.move_bar import MoveBar
from apportion.console.shards.options import Models, SetName, base_at, key_in
from apportion.shards import admin

_Key = Annotated[str, Parameter(name="KEY", help="Key with rows.")]


def isolate_shards(
    url: Url,
    name: SetName,
    key: _Key,
    /,
    *,
    models: Models,
    to: Annotated[str | None, Parameter(help="Shard that gets the rows. Default: they stay on their shard.")] = None,
    json: Json = False,
) -> None:
    """Give a key with rows a slot of its own, with all its rows, while programs write.

    Moves that have begun are made first. After an interruption, run the same command again to go on.
    """
    base = base_at(models)
    bar = MoveBar({}, is_shown=not json)
    try:
        found = asyncio.run(admin.isolate(url, name, key_in(base, key), base=base, to=to, observer=bar.take))
    finally:
        bar.end()
    if json:
        print_json("shards isolate", set=name, isolated={**asdict(found), "key": str(found.key)})
        return
    row = (str(found.key), str(found.slot), found.shard, "now" if found.is_new else "before")
    print_columns(("key", "slot", "shard", "isolated"), [row], words=1)
