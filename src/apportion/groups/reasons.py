"""Reasons: why a member waits, and why a partition is not its own, in words.

Promises: each call returns one reason, the first obstacle that must go.
Refuses: to ask the store. A reason shows only the view of this process.
"""

from collections.abc import Collection

from apportion.groups.crash_loops import ended, next_try
from apportion.groups.driver import Driver
from apportion.runtime.simulated import clock_here

MOST_LISTED = 5


def not_owned(driver: Driver, partition: int) -> str:
    """Say why a partition is not ours now."""
    view = driver.view
    if not driver.holdings.is_current:
        return "the store has not confirmed our session in time"
    if view.is_damaged(partition):
        return f"its record is damaged; repair it with: apportion group repair URL {driver.options.group}"
    record, wait = view.owned(partition).ownership, next_try(view, partition) - clock_here().elapsed()
    if wait > 0:
        then = "it is in quarantine" if wait == float("inf") else f"next try in {wait:.1f} s"
        return f"{len(ended(view, partition))} sessions in a row ended while they owned it; {then}"
    return "nobody owns it" if record.owner is None else f"{record.owner} owns it"


def joins_after(driver: Driver) -> str:
    """Name the event that a joining member waits for."""
    there = driver.view.members.get(driver.options.member_id)
    return "the store to answer" if there is None else f"session {there.session} of the same id to end"


def leaves_after(driver: Driver) -> str:
    """Name the event that a leaving member waits for; open work comes first."""
    if (oldest := driver.holdings.oldest()) is not None:
        return f"the work on partition {oldest[1]} to end"
    me = driver.options.member_id
    own = [each for each, owned in driver.view.own.items() if owned.ownership.owner == me]
    return f"the hand-over of {_listed(own)}" if own else "the store to answer"


def _listed(partitions: Collection[int]) -> str:
    first = ", ".join(map(str, sorted(partitions)[:MOST_LISTED]))
    return f"partitions {first}" if len(partitions) <= MOST_LISTED else f"{len(partitions)} partitions ({first}, …)"
