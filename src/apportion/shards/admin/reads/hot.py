"""Hot: the load of a set from the samples of the last ten minutes, and the advice for its hot spots.

Promises: the shards are not asked. A sample that nobody can read costs itself, and is counted.
"""

import time
from dataclasses import dataclass

from apportion.errors.brief import brief
from apportion.shards.load.advice import LoadAdvice, load_advice
from apportion.shards.load.record import read_load
from apportion.shards.load.set_load import SetLoad, set_load
from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left, table_of

OLDEST_SECONDS = 600.0
_WITHIN_SECONDS = 5.0


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class HotSpots:
    """The load of a set, and the next step for each hot spot. `damaged` counts samples that nobody can read."""

    load: SetLoad
    advice: tuple[LoadAdvice, ...]
    damaged: int = 0


async def hot_spots(url: str, name: str) -> HotSpots:
    """Return the load of a set. Errors are those of `open_shards`."""
    keys = SetKeys(name)
    followed = await set_followed(url, keys, _WITHIN_SECONDS, needs_all=False)
    try:
        records = [read_load(item.value) for item in (await followed.store.scan(keys.load)).items]
        table = table_of(followed.follower.routes)
    finally:
        await set_left(followed)
    since = time.time() - OLDEST_SECONDS
    fresh = [record for record in records if record is not None and record.at >= since]
    weights = {shard: record.weight for shard, record in followed.shards.items()}
    load = set_load(fresh, table, weights)
    return HotSpots(load=load, advice=load_advice(name, load), damaged=records.count(None))
