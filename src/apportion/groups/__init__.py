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
    Gained,
    GaveUp,
    GroupEvent,
    HandedOver,
    Joined,
    Lost,
    Observer,
    SessionBegan,
    SessionEnded,
    TookOver,
)

__all__ = [
    "AskedAgain",
    "AsyncElection",
    "AsyncGroup",
    "Damaged",
    "Delayed",
    "Departed",
    "Durations",
    "Gained",
    "GaveUp",
    "Group",
    "GroupChange",
    "GroupEvent",
    "GroupSummary",
    "HandedOver",
    "Joined",
    "Lost",
    "Observer",
    "SessionBegan",
    "SessionEnded",
    "Statistics",
    "TookOver",
]
