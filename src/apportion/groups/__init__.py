"""Groups: processes share partitions, and each partition has one owner while members come and go."""

from apportion.groups.facade import AsyncGroup
from apportion.groups.group import Group
from apportion.groups.holdings import GroupChange
from apportion.groups.leader import AsyncElection
from apportion.groups.statistics import Durations, GroupSummary, Statistics

__all__ = [
    "AsyncElection",
    "AsyncGroup",
    "Durations",
    "Group",
    "GroupChange",
    "GroupSummary",
    "Statistics",
]
