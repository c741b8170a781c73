"""`apportion shards`: make a set of shards, and ask where keys lie."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.shards.options import base_at, shards_of
from apportion.shards import admin
from apportion.shards.slots import DEFAULT_SLOTS
from apportion.stores.catalog import shown_url

_Set = Annotated[str, Parameter(name="SET", help="Name of the set.")]
_Keys = Annotated[Sequence[str], Parameter(name="KEY", help="Keys.")]


def init_shards(
    url: Url,
    name: _Set,
    /,
    *,
    shard: Annotated[
        list[str], Parameter(help="Id and URL of a shard, such as one=sqlite:///one.db; repeat it.", negative="")
    ],
    models: Annotated[str, Parameter(help="Module and name of the declarative base, such as shop.models:Base.")],
    slots: Annotated[Whole, Parameter(help="Number of hash slots, fixed for the life of the set.")] = DEFAULT_SLOTS,
    json: Json = False,
) -> None:
    """Make a set of shards: tables and triggers in each database, and the table of the slots."""
    shards, base = shards_of(shard), base_at(models)
    with Progress("making", is_shown=not json):
        asyncio.run(admin.init(url, name, shards, base=base, slots=slots))
        made = asyncio.run(admin.status(url, name))
    _print_status("init", url, made, json=json)


def status_shards(url: Url, name: _Set, /, *, json: Json = False) -> None:
    """Show the shards of a set, with their slots."""
    with Progress("reading", is_shown=not json):
        found = asyncio.run(admin.status(url, name))
    _print_status("status", url, found, json=json)


def route_shards(url: Url, name: _Set, keys: _Keys, /, *, json: Json = False) -> None:
    """Print the slot and the shard of each key."""
    with Progress("reading", is_shown=not json):
        table = asyncio.run(admin.status(url, name)).table
    found = [(key, str(slot), table.shard(slot)) for key in keys for slot in (table.slot(key),)]
    if json:
        routes = [{"key": key, "slot": int(slot), "shard": shard} for key, slot, shard in found]
        print_json("shards route", set=name, version=str(table.version), routes=routes)
        return
    print_columns(("key", "slot", "shard"), found)


def _print_status(act: str, url: str, found: admin.SetStatus, *, json: bool) -> None:
    if json:
        shards = [{"id": each.id, "url": each.url, "weight": each.weight, "slots": each.slots} for each in found.shards]
        print_json(f"shards {act}", set=found.name, version=str(found.version), slots=found.hash_slots, shards=shards)
        return
    print_columns(
        ("shard", "slots", "weight"), [(each.id, str(each.slots), f"{each.weight:g}") for each in found.shards]
    )
    print()
    count = len(found.shards)
    said = f"{count} shard{'s' if count > 1 else ''}, {found.hash_slots} slots"
    print_text(f"shards {act}: {found.name} in {shown_url(url)}: {said}")
