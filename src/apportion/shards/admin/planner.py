"""Planner: makes the plan of a set from its newest facts. Nothing is changed."""

from collections.abc import Mapping, Sequence

from apportion.shards.admin.facts import set_facts
from apportion.shards.admin.places import open_sites
from apportion.shards.plan import ShardPlan, plan_slots, plan_weights
from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left

_WITHIN_SECONDS = 5.0


async def set_plan(
    url: str, name: str, weights: Mapping[str, float], slots: Sequence[int], target: str | None
) -> ShardPlan:
    """Return the plan for other weights, or for slots that go to a target."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        async with open_sites(name, followed.shards) as sites:
            facts = await set_facts(followed, sites)
    finally:
        await set_left(followed)
    return plan_weights(facts, weights) if target is None else plan_slots(facts, slots, target)
