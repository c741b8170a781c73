"""Departure of a shard: the checks before it is drained.

Promises: each check comes before the first effect.
Refuses: to drain the last shard that may own slots.
"""

from apportion.errors import InvalidInput, UnknownOption
from apportion.shards.records import SetKeys
from apportion.shards.router import FollowedSet, set_followed, set_left

_WITHIN_SECONDS = 5.0


async def check_drain(url: str, name: str, shard: str) -> None:
    """Raise unless a shard may give away all its slots: it is in the set, and another shard may own them."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        check_others(followed, shard)
    finally:
        await set_left(followed)


def check_others(followed: FollowedSet, shard: str) -> None:
    """Refuse a shard that the set does not have, and the last shard with a weight."""
    if shard not in followed.shards:
        raise UnknownOption("shard", shard, followed.shards)
    if not any(record.weight for each, record in followed.shards.items() if each != shard):
        hint = "Give another shard weight first: apportion shards plan URL SET --weight ID=1 -o plan.json, then apply."
        raise InvalidInput("shard", shard, "a shard beside another one with a weight above 0", hint)
