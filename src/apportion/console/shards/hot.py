"""`apportion shards hot`: the keys, slots and shards with the most sessions, and the next steps."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeVar

from apportion.console.options.arguments import Json, Url
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.console.shards.options import SetName
from apportion.shards import admin
from apportion.shards.load.advice import key_text
from apportion.shards.load.set_load import KeyLoad, LoadShare, SlotLoad
from apportion.shards.slots import ShardKey

Loaded = TypeVar("Loaded", KeyLoad, SlotLoad)
_MOST_KEYS, _MOST_SLOTS = 10, 5


def hot_shards(url: Url, name: SetName, /, *, json: Json = False) -> None:
    """Show the keys, slots and shards with the most pinned sessions, and the next step for each hot spot.

    Programs sample one in 64 sessions, and keep their last samples in the control store. The shards are not asked.
    """
    with Progress("reading", is_shown=not json):
        found = asyncio.run(admin.hot(url, name))
    load = found.load
    if json:
        print_json(
            "shards hot",
            set=name,
            sessions_per_second=load.sessions_per_second,
            processes=load.processes,
            sampled=round(load.sampled),
            damaged=found.damaged,
            shards=[asdict(each) for each in load.shards],
            slots=[{"slot": each.slot, "shard": each.shard, "load": asdict(each.load)} for each in load.slots],
            keys=[_key_form(each) for each in load.keys],
            advice=[{**asdict(each), "key": None if each.key is None else _text(each.key)} for each in found.advice],
        )
        return
    _print(name, found)


def _text(key: ShardKey) -> str:
    return key if isinstance(key, str) else key_text(key)


def _key_form(key: KeyLoad) -> dict[str, object]:
    return {"key": _text(key.key), "slot": key.slot, "shard": key.shard, "load": asdict(key.load)}


def _print(name: str, found: admin.HotSpots) -> None:
    load = found.load
    damaged = f"; {found.damaged} samples cannot be read" if found.damaged else ""
    if not load.processes:
        told = (
            "no session was sampled in the last ten minutes. A program keeps a sample every 30 seconds and at its end"
        )
        print_text(f"shards hot: {name}: {told}{damaged}")
        return
    bounds = ("share", "at least", "at most")
    shards = [(each.shard, *_cells(each.load), f"{each.fair_share:.1%}") for each in load.shards]
    print_columns(("shard", *bounds, "by weight"), shards)
    print()
    slots = [
        (f"{each.slot}", each.shard, *_cells(each.load)) for each in _hottest(load.slots, load.sampled, _MOST_SLOTS)
    ]
    print_columns(("slot", "shard", *bounds), slots, words=2)
    print()
    hottest = _hottest(load.keys, load.sampled, _MOST_KEYS)
    keys = [(key_text(each.key), f"{each.slot}", each.shard, *_cells(each.load)) for each in hottest]
    print_columns(("key", "slot", "shard", *bounds), keys, words=3)
    print()
    for each in found.advice:
        print_text(f"- {each.text}")
        if each.command:
            print_text(f"  {each.command}")
    pace = f"{load.sessions_per_second:.0f}" if load.sessions_per_second >= 10 else f"{load.sessions_per_second:.1g}"
    sample = f"{load.sampled:.0f} keys in the samples of the last ten minutes"
    print_text(f"shards hot: {name}: {pace} sessions per second, {sample}, hot spots {len(found.advice)}{damaged}")


def _hottest(loads: Sequence[Loaded], sampled: float, most: int) -> Sequence[Loaded]:
    """Return the hottest keys or slots, without those that one session alone has brought, but for the first one."""
    return [each for place, each in enumerate(loads[:most]) if place == 0 or each.load.share * sampled > 1.5]


def _cells(load: LoadShare) -> tuple[str, str, str]:
    return f"{load.share:.1%}", f"{load.at_least:.1%}", f"{load.at_most:.1%}"
