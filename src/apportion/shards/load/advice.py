"""Load advice: the next step for each hot spot of a set, from its load.

A shard is hot if it surely has a fifth more than its share. A slot is too hot for any shard if it surely has a fifth
more than the share of the largest one. The verdict on such a slot is that of `balance.ranges`: its load divides at a
key, or one key has nearly all of it.

Promises: a slot that is advised to move leaves both shards cooler than the hot one was. A shard without a weight is
left to its drain. No advice is given from fewer
than 64 sampled keys. The same load gives the same advice.
Refuses: to act, and to know the cost of a session.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.balance.ranges import RangeLimits, RangeLoad, Unsplittable, plan_split
from apportion.balance.ranges.range_limits import STANDARD
from apportion.errors import shown
from apportion.errors.brief import brief
from apportion.model.token import KeyRange
from apportion.shards.load.set_load import KeyLoad, SetLoad, ShardLoad, SlotLoad
from apportion.shards.slots import ShardKey, shard_key_bytes

AdviceKind: TypeAlias = Literal["divide", "isolate", "move", "weigh"]

LEAST_SAMPLED = 64
_UNIT, _KEYS = 1_000_000, 512
_ABOVE = 1 + STANDARD.tolerance
_MATTERS = 0.25
"""A step matters if it takes this part of the load away that a shard has too much."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadAdvice:
    """The next step for one hot spot.

    `command` is a command of this package, with URL in place of that of the store. It is "" for `divide`: only the
    program itself can spread the load of one key.
    """

    kind: AdviceKind
    shard: str
    text: str
    slot: int | None = None
    key: ShardKey | None = None
    command: str = ""


def load_advice(name: str, load: SetLoad) -> tuple[LoadAdvice, ...]:
    """Return the next steps for a set with this name, slots that are too hot for any shard first."""
    if load.sampled < LEAST_SAMPLED:
        return ()
    part = max(each.fair_share for each in load.shards)
    too_hot = [slot for slot in load.slots if slot.load.at_least > part * _ABOVE]
    found = [_of_slot(name, slot, part, load) for slot in too_hot]
    busy = {slot.slot for slot in too_hot}
    for shard in sorted(load.shards, key=lambda each: (-each.load.share, each.shard)):
        if 0 < shard.fair_share * _ABOVE < shard.load.at_least:
            found += _of_shard(name, shard, load, busy)
    return tuple(found)


def key_text(key: ShardKey) -> str:
    """Return a key as messages show it.

    >>> key_text("FR"), key_text(("FR", 2024))
    ("'FR'", "('FR', 2024)")
    """
    return f"({', '.join(map(shown, key))})" if isinstance(key, tuple) else shown(key)


def _of_slot(name: str, slot: SlotLoad, part: float, load: SetLoad) -> LoadAdvice:
    """Return the step for a slot that no shard can bear beside its other slots."""
    verdict = _verdict(slot, part)
    hottest = slot.keys[0]
    key = key_text(hottest.key)
    if verdict is None:
        text = (
            f"Slot {slot.slot} has {slot.load.share:.0%} of the sessions, more than the share of any shard. Several "
            f"keys have its load: give {key} a slot of its own."
        )
        return _isolated(name, hottest, _coolest(load, slot.shard), text)
    parts = verdict.parts
    text = (
        f"Key {key} has {verdict.key_ratio:.0%} of the sessions of slot {slot.slot}, and no shard can bear them. If "
        f"they read, cache the key, or copy it to {parts} nodes with PopularKeys. If they write, divide it: "
        f"salt(key, {parts}, rng)."
    )
    return LoadAdvice(kind="divide", shard=slot.shard, text=text, slot=slot.slot, key=hottest.key)


def _verdict(slot: SlotLoad, part: float) -> Unsplittable | None:
    """Return the verdict of the planner of ranges. None if the load of the slot divides at a key."""
    keys = [shard_key_bytes(each.key) for each in slot.keys for _ in range(_copies(each, slot))]
    planned = plan_split(
        [
            RangeLoad(
                range=KeyRange(b"", None),
                owner=slot.shard,
                size_bytes=0,
                requests=round(slot.load.share * _UNIT),
                requested_keys=tuple(keys),
            )
        ],
        now=0,
        limits=RangeLimits(split_requests=max(2, round(part * _UNIT)), least_age_seconds=0),
    )
    return next(iter(planned.unsplittable), None)


def _copies(key: KeyLoad, slot: SlotLoad) -> int:
    return max(1, round(_KEYS * key.load.share / slot.load.share))


def _of_shard(name: str, shard: ShardLoad, load: SetLoad, busy: set[int]) -> Iterator[LoadAdvice]:
    """Yield the step for a shard with too many sessions, if another shard can take some of them."""
    coolest = _coolest(load, shard.shard)
    if coolest is None:
        return
    excess, room = shard.load.share - shard.fair_share, shard.load.share - coolest.load.share
    mine = [slot for slot in load.slots if slot.shard == shard.shard and slot.slot not in busy]
    least = excess * _MATTERS
    fits = next((slot for slot in mine if least <= slot.load.share <= room - least), None)
    said = f"Shard {shard.shard} has {shard.load.share:.0%} of the sessions, and its share is {shard.fair_share:.0%}."
    if fits is None:
        yield _weighed(name, shard, mine, said)
        return
    hottest = fits.keys[0]
    if len(fits.keys) > 1 and hottest.load.share * 2 >= fits.load.share:
        yield _isolated(
            name, hottest, coolest, f"{said} Key {key_text(hottest.key)} has {_part(hottest, shard)} of it."
        )
        return
    text = f"{said} Slot {fits.slot} has {fits.load.share / shard.load.share:.0%} of it."
    yield LoadAdvice(
        kind="move",
        shard=shard.shard,
        text=text,
        slot=fits.slot,
        key=hottest.key if len(fits.keys) == 1 else None,
        command=_move(name, fits.slot, coolest),
    )


def _weighed(name: str, shard: ShardLoad, mine: Sequence[SlotLoad], said: str) -> LoadAdvice:
    """Return the step for a shard that no move of a single slot would cool."""
    why, hottest = "Its load lies in many slots: let some of them leave.", next(iter(mine), None)
    if hottest is not None and hottest.load.share >= (shard.load.share - shard.fair_share) * _MATTERS:
        key, part = key_text(hottest.keys[0].key), f"{hottest.load.share / shard.load.share:.0%}"
        why = f"Slot {hottest.slot} with key {key} has {part} of it, and would heat any other shard as much: let other "
        why += "slots leave."
    weight = f"{shard.weight * shard.fair_share / shard.load.share:.2g}"
    command = f"apportion shards plan URL {shlex.quote(name)} --weight {shard.shard}={weight}"
    return LoadAdvice(kind="weigh", shard=shard.shard, text=f"{said} {why}", command=command)


def _part(key: KeyLoad, shard: ShardLoad) -> str:
    return f"{key.load.share / shard.load.share:.0%}"


def _isolated(name: str, key: KeyLoad, target: ShardLoad | None, text: str) -> LoadAdvice:
    command = ""
    if target is not None and isinstance(key.key, str | int):
        words = f"{shlex.quote(name)} {shlex.quote(f'{key.key}')} --to {target.shard}"
        command = f"apportion shards isolate URL {words} --models MODULE:Base"
    elif target is not None:
        command = _move(name, key.slot, target)
    return LoadAdvice(kind="isolate", shard=key.shard, text=text, slot=key.slot, key=key.key, command=command)


def _move(name: str, slot: int, target: ShardLoad) -> str:
    return f"apportion shards plan URL {shlex.quote(name)} --move {slot} --to {target.shard}"


def _coolest(load: SetLoad, but: str) -> ShardLoad | None:
    """Return the shard with the smallest part of its share, None without another shard with a weight."""
    others = [each for each in load.shards if each.shard != but and each.fair_share > 0]
    return min(others, key=lambda each: (each.load.share / each.fair_share, each.shard), default=None)
