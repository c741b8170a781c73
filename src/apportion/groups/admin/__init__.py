"""Admin: questions and acts of an operator outside of the group."""

from apportion.groups.admin.acts import Explained
from apportion.groups.admin.apply import Applied
from apportion.groups.admin.facade import (
    apply,
    drain,
    explain,
    forget,
    history,
    left_over,
    plan,
    read,
    read_all,
    release,
    repair,
    resize,
    undrain,
    watch,
)
from apportion.groups.admin.found import Found
from apportion.groups.admin.history import HistoryLine
from apportion.groups.admin.member_plan import MemberPlan, decode_plan, encode_plan
from apportion.groups.admin.plan import TargetChange
from apportion.groups.admin.repair import Repair, Repaired
from apportion.groups.admin.standing import Standing, remarks

__all__ = [
    "Applied",
    "Explained",
    "Found",
    "HistoryLine",
    "MemberPlan",
    "Repair",
    "Repaired",
    "Standing",
    "TargetChange",
    "apply",
    "decode_plan",
    "drain",
    "encode_plan",
    "explain",
    "forget",
    "history",
    "left_over",
    "plan",
    "read",
    "read_all",
    "release",
    "remarks",
    "repair",
    "resize",
    "undrain",
    "watch",
]
