"""`apportion shards`: make a set of shards, and ask where keys lie."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.shards.options import (
    Models,
    ReplicationUrls,
    SetName,
    base_at,
    key_in,
    replication_urls_of,
    shards_of,
    text_key,
)
from apportion.console.shards.status_report import print_status, print_status_json
from apportion.console.shards.survey_report import print_checked, print_survey
from apportion.console.shards.watch import EVERY, watch_status
from apportion.errors import InvalidInput
from apportion.shards import admin
from apportion.shards.slots import SlotRule, slots_by
from apportion.stores.catalog import shown_url

_Stride = Annotated[
    bool, Parameter(help="Let sequences of PostgreSQL count by 64, one residue for each shard.", negative="")
]
_Shards = Annotated[
    list[str], Parameter(help="Id and URL of a shard, such as one=sqlite:///one.db; repeat it.", negative="")
]
_Slots = Annotated[Whole | None, Parameter(help="Number of hash slots, fixed for the life of the set. Default: 4096.")]
_By = Annotated[
    SlotRule, Parameter(help="Slots of keys: by hash, by lists of pinned keys, or by ranges that split divides.")
]
_Keys = Annotated[Sequence[str], Parameter(name="KEY", help="Keys.")]


def init_shards(
    url: Url,
    name: SetName,
    /,
    *,
    shard: _Shards,
    models: Models,
    slots: _Slots = None,
    by: _By = "hash",
    check: Annotated[bool, Parameter(help="Report, and make nothing.", negative="")] = False,
    revision: Annotated[
        Path | None,
        Parameter(help="Folder of Alembic: write the columns and slots as a revision there, and make nothing."),
    ] = None,
    stride: _Stride = False,
    replication_url: ReplicationUrls = None,
    json: Json = False,
) -> int:
    """Make a set of shards: tables and triggers in each database, and the table of the slots.

    Before anything is made, the shard keys and the obstacles to moves are reported. Exit code 1 if a database is
    refused.
    """
    shards, base = shards_of(shard), base_at(models)
    others, count = replication_urls_of(replication_url, shards), slots_by(by, slots)
    with Progress("reading", is_shown=not json):
        found = asyncio.run(admin.survey(shards, base=base, slots=count))
    if not json:
        print_survey(found)
    if check or revision is not None:
        written = None if revision is None else admin.written_revision(revision, base, count)
        print_checked(name, found, written, json=json)
        return 0
    with Progress("making", "rows", is_shown=not json) as shown:
        making = admin.init(
            url,
            name,
            shards,
            base=base,
            slots=slots,
            by=by,
            progress=lambda told: shown.at(told.rows),
            stride=stride,
            replication_urls=others,
        )
        asyncio.run(making)
        made = asyncio.run(admin.status(url, name))
    _print_status("init", url, made, json=json, survey=asdict(found))
    return 0


def add_shards(
    url: Url,
    name: SetName,
    shard: Annotated[Sequence[str], Parameter(name="SHARD", help="Id and URL of a database: ID=URL.")],
    /,
    *,
    models: Models,
    stride: _Stride = False,
    replication_url: ReplicationUrls = None,
    json: Json = False,
) -> None:
    """Add empty databases to a set, as shards with the weight 0. No slot lies there until a plan moves some."""
    shards, base = shards_of(shard), base_at(models)
    others = replication_urls_of(replication_url, shards)
    with Progress("adding", is_shown=not json):
        asyncio.run(admin.add(url, name, shards, base=base, stride=stride, replication_urls=others))
        found = asyncio.run(admin.status(url, name))
    _print_status("add", url, found, json=json)


def remove_shards(
    url: Url,
    name: SetName,
    shard: Annotated[str, Parameter(name="ID", help="Shard without slots and rows.")],
    /,
    *,
    force: Annotated[bool, Parameter(help="Treat a silent database as gone for good.", negative="")] = False,
    json: Json = False,
) -> None:
    """Take a shard without slots and rows out of a set. Nothing of the set is left in its database."""
    with Progress("removing", is_shown=not json):
        asyncio.run(admin.remove(url, name, shard, force=force))
        found = asyncio.run(admin.status(url, name))
    _print_status("remove", url, found, json=json)


def doctor_shards(
    url: Url,
    name: SetName,
    /,
    *,
    models: Annotated[
        str | None, Parameter(help="Declarative base: tables, triggers and rows are compared too.")
    ] = None,
    whole: Annotated[bool, Parameter(help="Compare all rows with their slots, not a sample.", negative="")] = False,
    json: Json = False,
) -> int:
    """Compare the records and the table of a set with its databases. Exit code 1 if something is wrong."""
    base = None if models is None else base_at(models)
    with Progress("checking", is_shown=not json):
        findings = asyncio.run(admin.doctor(url, name, base=base, is_whole=whole))
    ill = [each for each in findings if each.verdict == "error"]
    if json:
        print_json("shards doctor", set=name, healthy=not ill, findings=[asdict(each) for each in findings])
        return 1 if ill else 0
    print_columns(("check", "verdict", "found"), [(each.subject, each.verdict, each.found) for each in findings])
    print()
    for each in findings:
        if each.verdict != "ok":
            print_text(f"{each.subject}: {each.advice}")
    print_text(f"shards doctor: {name} in {shown_url(url)}: {len(findings)} checks, errors {len(ill)}")
    return 1 if ill else 0


def status_shards(
    url: Url,
    name: SetName,
    /,
    *,
    watch: Annotated[
        bool, Parameter(help="Show the set again and again, with the pace of its moves. Ctrl-C ends it.", negative="")
    ] = False,
    every: Annotated[timedelta | None, Parameter(help="Time between two readings of --watch. Default: 1s.")] = None,
    json: Json = False,
) -> None:
    """Show the shards of a set, with their slots and rows, and the moves that are not over."""
    if watch:
        watch_status(url, name, EVERY if every is None else every, json=json)
        return
    if every is not None:
        raise InvalidInput(
            "--every", f"{every.total_seconds():g}s", "--watch with it", "Write --watch --every 2s, or leave it out."
        )
    with Progress("reading", is_shown=not json):
        found = asyncio.run(admin.status(url, name, has_rows=True, has_progress=True))
    _print_status("status", url, found, json=json)


def repair_shards(url: Url, name: SetName, /, *, json: Json = False) -> None:
    """Rewrite a damaged list of moving slots from the records of the moves."""
    with Progress("repairing", is_shown=not json):
        damages = asyncio.run(admin.repair(url, name))
    if json:
        print_json("shards repair", set=name, repaired=list(damages))
        return
    for damage in damages:
        print_text(f"- {damage}")
    print_text(f"shards repair: {name}: {'the list of moving slots is new' if damages else 'nothing was damaged'}")


def pin_shards(url: Url, name: SetName, keys: _Keys, /, *, models: Models, json: Json = False) -> None:
    """Give slots of their own to keys without rows, so that each key can lie alone on a shard."""
    base = base_at(models)
    wanted = [key_in(base, key) for key in keys]
    with Progress("pinning", is_shown=not json):
        found = asyncio.run(admin.pin(url, name, wanted, base=base))
    if json:
        print_json("shards pin", set=name, pinned=[{**asdict(each), "key": str(each.key)} for each in found])
        return
    rows = [(str(each.key), str(each.slot), each.shard, "now" if each.is_new else "before") for each in found]
    print_columns(("key", "slot", "shard", "pinned"), rows, words=1)


def route_shards(
    url: Url,
    name: SetName,
    keys: _Keys,
    /,
    *,
    models: Annotated[
        str | None, Parameter(help="Declarative base: a key is of the type that the models have. Default: text.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the slot and the shard of each key. Without models, a word that could be a number or a UUID is refused."""
    base = None if models is None else base_at(models)
    wanted = [text_key(word) if base is None else key_in(base, word) for word in keys]
    with Progress("reading", is_shown=not json):
        table = asyncio.run(admin.status(url, name)).table
    found = [(str(key), str(slot), table.shard(slot)) for key in wanted for slot in (table.slot(key),)]
    if json:
        routes = [{"key": key, "slot": int(slot), "shard": shard} for key, slot, shard in found]
        print_json("shards route", set=name, version=str(table.version), routes=routes)
        return
    print_columns(("key", "slot", "shard"), found)


def _print_status(act: str, url: str, found: admin.SetStatus, *, json: bool, **more: object) -> None:
    if json:
        print_status_json(act, found, more)
    else:
        print_status(act, url, found)
