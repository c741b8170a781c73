"""Tokens of lanes: the owner that may go on in a lane, and the number of tasks that one claim reads per lane.

A lane remembers the highest token that it has seen, so that a former owner claims nothing there any more.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apportion.errors import KeyedTasksOpen
from apportion.model.epoch import FencingToken
from apportion.stores.lanes.values import OwnedLane


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRecord:
    """The highest token that a lane has seen, and the session that showed it last."""

    token: FencingToken
    session: int


def accepts(seen: FencingToken | None, token: FencingToken) -> bool:
    """Whether a lane that has seen a token accepts another: a newer token, or an equal token of the same holder."""
    return seen is None or token > seen or (token == seen and token.holder == seen.holder)


def parted(seen: Iterable[tuple[OwnedLane, FencingToken | None]]) -> tuple[list[OwnedLane], list[OwnedLane]]:
    """Return the accepted and the fenced lanes. `seen` has each lane with the highest token ever seen there."""
    accepted, fenced = list[OwnedLane](), list[OwnedLane]()
    for lane, token in seen:
        (accepted if accepts(token, lane.token) else fenced).append(lane)
    return accepted, fenced


def some_of_each(most: int, lanes: int) -> int:
    """Return how many tasks to read per lane to find the oldest ones of all lanes, if keys spread evenly over lanes.

    >>> some_of_each(100, 64), some_of_each(100, 1)
    (8, 100)
    """
    return min(most, 2 * -(-most // max(1, lanes)) + 4)


def is_cut(lanes: Sequence[int], each: int, most: int) -> bool:
    """Whether some of the oldest tasks may be missing, because one lane gave `each` tasks and may have more."""
    return each < most and max(Counter(lanes).values(), default=0) >= each


def check_resizable(queue: str, open_tasks: int) -> None:
    """Raise `KeyedTasksOpen` while keyed tasks of a queue are open."""
    if open_tasks:
        raise KeyedTasksOpen(queue.rpartition("/")[2], open_tasks)
