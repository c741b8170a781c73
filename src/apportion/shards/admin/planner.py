"""Planner: makes the plan of a set from its newest facts. Nothing is changed."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from apportion.errors import InvalidInput, UnknownOption
from apportion.shards.admin.facts import ended_migration, moves_of, set_facts, set_revisions
from apportion.shards.admin.places import open_sites
from apportion.shards.migration.revision import check_revisions
from apportion.shards.plan import MEASURES, Measure, SetFacts, ShardPlan, plan_sizes, plan_weights
from apportion.shards.records import SetKeys
from apportion.shards.router import set_followed, set_left

_WITHIN_SECONDS = 5.0

Result = TypeVar("Result")


async def from_facts(url: str, name: str, made: Callable[[SetFacts], Result]) -> Result:
    """Return the plan, or any other value, that a function makes of the newest facts.

    `Conflict` if a migration has not ended. `SchemaDiffers` if shards have different revisions of Alembic.
    """
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        async with open_sites(name, followed.shards) as sites:
            facts = await set_facts(followed, sites)
        migration, _ = await ended_migration(followed)
        check_revisions(await set_revisions(followed, followed.shards, migration))
    finally:
        await set_left(followed)
    return made(facts)


async def paused_moves(url: str, name: str) -> tuple[str, ...]:
    """Return the names of the moves that rest since a pause, sorted."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        kept = (await moves_of(followed)).kept
    finally:
        await set_left(followed)
    return tuple(sorted(move for move, each in kept.items() if each.entry.wish == "pause"))


def measure_of(by: str, tolerance: float) -> Measure:
    """Return a checked measure. The tolerance is checked too, before a call has any effect."""
    if by not in MEASURES:
        raise UnknownOption("by", by, MEASURES)
    if type(tolerance) not in (int, float) or not 0 <= tolerance < 1:
        raise InvalidInput("tolerance", tolerance, "a number of at least 0 and less than 1", "0.1 is a tenth.")
    return by


def plan_even(facts: SetFacts, weights: Mapping[str, float], measure: Measure, tolerance: float) -> ShardPlan:
    """Return the plan for other weights, by the number or by the size of the slots."""
    return plan_weights(facts, weights) if measure == "slots" else plan_sizes(facts, weights, measure, tolerance)


def check_skew(limit: float) -> None:
    """Raise `InvalidInput` for a limit that is no number of at least 0."""
    if type(limit) not in (int, float) or not limit >= 0:
        raise InvalidInput("if_skewed", limit, "a number of at least 0", "0.15 is a CV of 15 %.")


def plan_skewed(facts: SetFacts, measure: Measure, tolerance: float, limit: float) -> ShardPlan | None:
    """Return the plan that makes shards even, None if their coefficient of variation is within a limit."""
    return plan_even(facts, {}, measure, tolerance) if facts.skew(measure) > limit else None
