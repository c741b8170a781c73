"""Planner: makes the plan of a set from its newest facts. Nothing is changed."""

from collections.abc import Callable
from typing import TypeVar

from apportion.shards.admin.facts import set_facts
from apportion.shards.admin.places import open_sites
from apportion.shards.plan import SetFacts
from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left

_WITHIN_SECONDS = 5.0

Result = TypeVar("Result")


async def from_facts(url: str, name: str, made: Callable[[SetFacts], Result]) -> Result:
    """Return the plan, or any other value, that a function makes of the newest facts."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        async with open_sites(name, followed.shards) as sites:
            facts = await set_facts(followed, sites)
    finally:
        await set_left(followed)
    return made(facts)
