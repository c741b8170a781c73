"""Groups: processes that share partitions, one owner each, while members come and go."""

from apportion.groups.facade import AsyncGroup, Group, SyncGroup
from apportion.groups.holdings import GroupChange
from apportion.groups.leader import AsyncElection, SyncElection
from apportion.groups.statistics import Durations, GroupSummary, Statistics

__all__ = [
    "AsyncElection",
    "AsyncGroup",
    "Durations",
    "Group",
    "GroupChange",
    "GroupSummary",
    "Statistics",
    "SyncElection",
    "SyncGroup",
]
