"""Set load: the share of each key, slot and shard in the pinned sessions of a set, estimated from samples.

The windows of all processes are added. A window of a busy process weighs more, by its sessions per second.

Promises: `at_least` and `at_most` hold the true share of the sampled windows with a probability of 99.7 %, for a key
that was chosen before the sample. The same records give the same shares.
Refuses: to measure work. A session counts once, whether it reads one row or thousands.
Source: the score interval of Wilson 1927; the effective size of a weighted sample of Kish 1965.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import sqrt

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.shards.load.record import LoadRecord, key_in
from apportion.shards.slots import ShardKey, SlotTable

_Z = 3.0


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShare:
    """A share in the sessions of a set, between 0 and 1, with its bounds."""

    share: float
    at_least: float
    at_most: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLoad:
    """The load of one key."""

    key: ShardKey
    slot: int
    shard: str
    load: LoadShare


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLoad:
    """The load of one slot, and of its sampled keys, the hottest first."""

    slot: int
    shard: str
    load: LoadShare
    keys: tuple[KeyLoad, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLoad:
    """The load of one shard. `fair_share` is its share by its weight."""

    shard: str
    load: LoadShare
    fair_share: float
    weight: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetLoad:
    """The load of a set. Slots and keys have the hottest first, and shards the order of their ids.

    - `sessions_per_second`: pinned sessions of all processes.
    - `processes`: the windows that count.
    - `sampled`: the number of equally weighing keys that are as sure as this sample.
    """

    sessions_per_second: float
    processes: int
    sampled: float
    shards: tuple[ShardLoad, ...]
    slots: tuple[SlotLoad, ...]

    @property
    def keys(self) -> tuple[KeyLoad, ...]:
        """The load of each sampled key, the hottest first."""
        found = [key for slot in self.slots for key in slot.keys]
        return tuple(sorted(found, key=lambda each: (-each.load.share, each.slot, f"{each.key!r}")))


def set_load(records: Collection[LoadRecord], table: SlotTable, weights: Mapping[str, float]) -> SetLoad:
    """Return the load of a set. `weights` has each of its shards. O(sampled keys)."""
    counted, squares = defaultdict[str, float](float), 0.0
    rate = 0.0
    for record in records:
        window, sampled = record.window, sum(record.window.keys.values())
        per_second = window.sessions / window.seconds
        rate += per_second
        squares += (per_second / sampled) ** 2 * sampled
        for text, count in window.keys.items():
            counted[text] += per_second * count / sampled
    size = rate * rate / squares if squares else 0.0
    found = _known(counted, table)
    slots, shards = defaultdict[int, dict[ShardKey, float]](dict), defaultdict[str, float](float)
    for key, (slot, amount) in found.items():
        slots[slot][key] = amount
        shards[table.shard(slot)] += amount
    total = rate or 1.0
    whole = sum(weights.values())
    return SetLoad(
        sessions_per_second=rate,
        processes=len(records),
        sampled=size,
        shards=tuple(
            ShardLoad(
                shard=shard,
                load=_share(shards[shard] / total, size),
                fair_share=weight / whole if whole else 1 / len(weights),
                weight=weight,
            )
            for shard, weight in sorted(weights.items())
        ),
        slots=_slots(slots, table, total, size),
    )


def _known(counted: Mapping[str, float], table: SlotTable) -> dict[ShardKey, tuple[int, float]]:
    """Return the slot and the amount of each key. Leave out keys too long to be named, and slots without a shard."""
    found = dict[ShardKey, tuple[int, float]]()
    for text, amount in counted.items():
        with suppress(InvalidInput, ValueError):
            key = key_in(json.loads(text))
            slot = table.slot(key)
            table.shard(slot)
            found[key] = slot, amount
    return found


def _slots(
    amounts: Mapping[int, Mapping[ShardKey, float]], table: SlotTable, total: float, size: float
) -> tuple[SlotLoad, ...]:
    found = [
        SlotLoad(
            slot=slot,
            shard=table.shard(slot),
            load=_share(sum(keys.values()) / total, size),
            keys=tuple(
                KeyLoad(key=key, slot=slot, shard=table.shard(slot), load=_share(amount / total, size))
                for key, amount in sorted(keys.items(), key=lambda item: (-item[1], f"{item[0]!r}"))
            ),
        )
        for slot, keys in amounts.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.load.share, each.slot)))


def _share(share: float, size: float) -> LoadShare:
    """Return a share of a sample with its bounds.

    >>> _share(0.5, 0.0), _share(0.5, 900.0)
    (LoadShare(share=0.5, at_least=0.0, at_most=1.0), LoadShare(share=0.5, at_least=0.45, at_most=0.55))
    """
    if not size:
        return LoadShare(share=share, at_least=0.0, at_most=1.0)
    weight = _Z * _Z / size
    middle = (share + weight / 2) / (1 + weight)
    width = _Z / (1 + weight) * sqrt(max(0.0, share * (1 - share)) / size + weight / (4 * size))
    return LoadShare(
        share=share, at_least=round(max(0.0, middle - width), 3), at_most=round(min(1.0, middle + width), 3)
    )
