"""Groups: processes share partitions, and each partition has one owner while members come and go."""

from apportion.groups.facade import AsyncGroup
from apportion.groups.group import Group
from apportion.groups.holdings import GroupChange
from apportion.groups.leader import AsyncElection
from apportion.groups.statistics import Durations, GroupSummary, Statistics
from apportion.runtime.events import (
    AskedAgain,
    Damaged,
    Delayed,
    Departed,
    Disagreed,
    Gained,
    GaveUp,
    GroupEvent,
    HandedOver,
    HandlerFailed,
    Joined,
    Lost,
    Observer,
    Rewritten,
    SessionBegan,
    SessionEnded,
    TookOver,
    Unguarded,
    Unplanned,
    Unpublished,
)

__all__ = [
    "AskedAgain",
    "AsyncElection",
    "AsyncGroup",
    "Damaged",
    "Delayed",
    "Departed",
    "Disagreed",
    "Durations",
    "Gained",
    "GaveUp",
    "Group",
    "GroupChange",
    "GroupEvent",
    "GroupSummary",
    "HandedOver",
    "HandlerFailed",
    "Joined",
    "Lost",
    "Observer",
    "Rewritten",
    "SessionBegan",
    "SessionEnded",
    "Statistics",
    "TookOver",
    "Unguarded",
    "Unplanned",
    "Unpublished",
]
